//! What plant-store reads from the disk.

use plant_domain::PlantFilter;
use plant_store::internal::{self, AnyDatabase, TableEntries};
use plant_store::{PageRequest, StoredPlant};

use crate::FuzzTarget;

pub(crate) const TARGETS: [FuzzTarget; 10] = [
    FuzzTarget { name: "plant_record", check: plant_record },
    FuzzTarget { name: "event", check: event },
    FuzzTarget { name: "key", check: key },
    FuzzTarget { name: "block", check: block },
    FuzzTarget { name: "table", check: table },
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
    if let Ok(Some(again)) = internal::key(key) {
        assert_eq!(again, key);
    }
}

fn block(bytes: &[u8]) {
    let Ok(entries) = internal::block(bytes) else { return };
    let block = internal::block_of(&entries).expect("it is written");
    assert_eq!(internal::block(&block).expect("it was written"), entries);
}

/// The first byte is the length of the blocks; the tail follows them.
fn table(input: &[u8]) {
    let Some((blocks_bytes, rest)) = input.split_first() else { return };
    let (blocks, tail) = rest.split_at(rest.len().min(usize::from(*blocks_bytes)));
    drop(internal::table(blocks, tail));
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
    const GROUP: [u8; 4] = [1, 0, 0, 0];
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

/// Parts of a database: the kind, the length of the key, the length of the value, then both. The kind `m` is the totals of
/// the manifest, and `+` begins the next older table. Other kinds but `p`, `e` and `c`, which begin the key of an entry,
/// are a group of the write-ahead log. The same letter in upper case removes a key.
fn database(input: &[u8]) {
    // The totals of an empty database.
    let mut totals = [&[0][..], &[0], &[0], &[1]].concat();
    let (mut tables, mut groups) = (vec![TableEntries::new()], Vec::new());
    let mut rest = input;
    while let [kind, key_bytes, value_bytes, parts @ ..] = rest {
        let (key, parts) = parts.split_at(parts.len().min(usize::from(*key_bytes)));
        let (value, parts) = parts.split_at(parts.len().min(usize::from(*value_bytes)));
        rest = parts;
        let key = [&[kind.to_ascii_lowercase()], key].concat();
        match kind {
            b'm' => totals = value.to_vec(),
            b'+' => tables.push(TableEntries::new()),
            b'p' | b'e' | b'c' | b'P' | b'E' | b'C' => {
                let value = kind.is_ascii_lowercase().then(|| value.to_vec());
                tables.last_mut().expect("a table").insert(key, value);
            }
            _ => groups.push(value.to_vec()),
        }
    }

    let Some(database) = AnyDatabase::recover(&totals, &tables, &groups) else { return };
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
