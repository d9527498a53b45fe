//! What plant-store reads from the disk.

use plant_domain::PlantFilter;
use plant_store::internal::{self, AnyDatabase};
use plant_store::{PageRequest, StoredPlant};

use crate::FuzzTarget;

pub(crate) const TARGETS: [FuzzTarget; 10] = [
    FuzzTarget { name: "plant_record", check: plant_record },
    FuzzTarget { name: "event", check: event },
    FuzzTarget { name: "key", check: key },
    FuzzTarget { name: "block", check: block },
    FuzzTarget { name: "backup", check: backup },
    FuzzTarget { name: "manifest", check: manifest },
    FuzzTarget { name: "log_group", check: log_group },
    FuzzTarget { name: "log_segment", check: log_segment },
    FuzzTarget { name: "archive_piece", check: archive_piece },
    FuzzTarget { name: "database", check: database },
];

fn plant_record(bytes: &[u8]) {
    let Ok((encoded, record, _)) = internal::plant_record(bytes) else { return };
    let (_, again, _) = internal::plant_record(&encoded).expect("it was written");
    assert_eq!(again, record);
}

fn event(value: &[u8]) {
    let Ok((encoded, event)) = internal::event(value) else { return };
    let (_, again) = internal::event(&encoded).expect("it was written");
    assert_eq!(again, event);
}

fn key(key: &[u8]) {
    for again in internal::key(key).into_iter().flatten() {
        assert_eq!(again, key);
    }
}

fn block(bytes: &[u8]) {
    let Ok(entries) = internal::block(bytes) else { return };
    let block = internal::block_of(&entries).expect("it is written");
    assert_eq!(internal::block(&block).expect("it was written"), entries);
}

/// The first byte is the length of the head; the frames follow it.
fn backup(input: &[u8]) {
    let Some((head_bytes, rest)) = input.split_first() else { return };
    let (head, frames) = rest.split_at(rest.len().min(usize::from(*head_bytes)));
    drop(internal::backup(head, frames));
}

fn manifest(content: &[u8]) {
    let Ok((encoded, manifest)) = internal::manifest(content) else { return };
    let (_, again) = internal::manifest(&encoded).expect("it was written");
    assert_eq!(again, manifest);
}

fn log_group(payload: &[u8]) {
    let Ok((payload, group)) = internal::log_group(payload) else { return };
    let segment = internal::log_segment(&payload, *b"a salt  ", &[0; 64], 24).expect("it fits");
    let [found] = internal::whole_records(&segment)[..] else { panic!("there is one record") };
    let (_, again) = internal::log_group(found).expect("it was written");
    assert_eq!(again, group);
}

/// The first two bytes are the numbers in the name of the file.
fn archive_piece(input: &[u8]) {
    let Some(([first, last], content)) = input.split_first_chunk() else { return };
    if *first > 0 {
        drop(internal::archive_piece(content, u64::from(*first), u64::from(*last)));
    }
}

/// The first byte says where a record is inserted into the other bytes.
fn log_segment(input: &[u8]) {
    /// The payload of a group without changes.
    const GROUP: [u8; 6] = [1, 1, 0, 0, 0, 0];
    let Some((offset, segment)) = input.split_first() else { return };
    for payload in internal::whole_records(segment) {
        // A whole record need not be a group.
        drop(internal::log_group(payload));
    }
    let Some((salt, other)) = segment.split_first_chunk() else { return };
    let offset = usize::from(*offset).min(other.len() / 8) * 8;
    let segment = internal::log_segment(&GROUP, *salt, other, offset).expect("small");
    let offset = salt.len() + offset;
    let stands_there = |payload: &&[u8]| {
        // A whole record before it may cover it.
        let begins = payload.as_ptr().addr() - segment.as_ptr().addr();
        begins > offset && *payload == GROUP || (begins..begins + payload.len()).contains(&offset)
    };
    let found = internal::whole_records(&segment);
    assert!(found.iter().any(stands_there), "a whole record is found wherever it stands");
}

/// Parts of a database: the kind, the length of a part, and the part. The kind `m` is the totals of the manifest; all others are
/// a group of the write-ahead log.
fn database(input: &[u8]) {
    // The totals of an empty database.
    let mut totals = [&[0][..], &[0], &[0], &[0], &[1]].concat();
    let mut groups = Vec::new();
    let mut rest = input;
    while let [kind, part_bytes, parts @ ..] = rest {
        let (part, parts) = parts.split_at(parts.len().min(usize::from(*part_bytes)));
        rest = parts;
        match kind {
            b'm' => totals = part.to_vec(),
            _ => groups.push(part.to_vec()),
        }
    }

    let Some(database) = AnyDatabase::recover(&totals, &groups) else { return };
    let (plants, last_event) = database.numbers();
    let page = |name, tag| {
        let filter = PlantFilter::new(name, tag).expect("a valid filter");
        let page = database.page(&PageRequest { filter, after: None, limit: 1000 }).ok()?;
        // A checksum vouches that a record is the one of a valid plant; here it may be any.
        page.stored_plants().ok()
    };
    let all = page(None, None);
    let filters = [(None, None), (None, Some("R")), (Some("o"), None), (Some("ros"), Some("R"))];
    for (name, tag) in filters {
        let tag = tag.map(str::to_owned);
        let Some(found) = page(name, tag.clone()) else { continue };
        for stored in &found {
            let again = database.plant(stored.id).expect("a plant of a page is read alone");
            assert_eq!(again.as_ref(), Some(stored));
        }
        let filter = PlantFilter::new(name, tag).expect("a valid filter");
        let matches =
            |stored: &&StoredPlant| filter.matches(stored.plant.name(), stored.plant.tag());
        if let Some(all) = &all {
            let expected: Vec<_> = all.iter().filter(matches).collect();
            assert!(found.iter().eq(expected), "{filter:?} finds something else");
        }
    }
    for after in [0, last_event.saturating_sub(1), last_event, u64::MAX] {
        drop(database.events(Some(after), 3));
    }
    drop(database.events(None, 3));
    if let Some(all) = all.filter(|all| database.is_sound && !all.is_empty()) {
        assert_eq!(all.len() as u64, plants, "a page misses a plant");
        let with_tag = all.iter().filter(|stored| stored.plant.tag() == Some("R")).count() as u64;
        assert_eq!(database.count("R").expect("a sound count"), with_tag);
    }
}
