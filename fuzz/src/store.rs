//! What plant-store reads from the disk.

use std::cell::OnceCell;

use plant_domain::PlantFilter;
use plant_store::internal::{self, AnyDatabase};
use plant_store::{PageRequest, Revision};

use crate::FuzzTarget;

pub(crate) const TARGETS: [FuzzTarget; 6] = [
    FuzzTarget { name: "plant_record", check: plant_record },
    FuzzTarget { name: "event_record", check: event_record },
    FuzzTarget { name: "block", check: block },
    FuzzTarget { name: "log_group", check: log_group },
    FuzzTarget { name: "log_segment", check: log_segment },
    FuzzTarget { name: "database", check: database },
];

fn plant_record(bytes: &[u8]) {
    let Ok((encoded, record, _)) = internal::plant_record(bytes) else { return };
    let (_, again, _) = internal::plant_record(&encoded).expect("it was written");
    assert_eq!(again, record);
}

fn event_record(value: &[u8]) {
    let Ok((encoded, events)) = internal::event_record(value) else { return };
    let (_, again) = internal::event_record(&encoded).expect("it was written");
    assert_eq!(again, events);
}

/// The first byte is the length of the key; the value follows the key.
fn block(input: &[u8]) {
    let Some((key_bytes, rest)) = input.split_first() else { return };
    let (key, value) = rest.split_at(rest.len().min(usize::from(*key_bytes)));
    if let Ok((prefix, again)) = internal::tag_prefixes(key) {
        assert_eq!(again, prefix);
    }
    let Ok((first, entries)) = internal::block(key, value) else { return };
    assert!(entries.is_sorted_by(|(one, _), (next, _)| one < next), "the ids of a block ascend");
    assert!(entries.iter().all(|(id, _)| *id >= first), "an id is less than that of the key");
    // A value may be larger than any that is written.
    let Ok(blocks) = internal::cut_blocks(key, &entries) else { return };
    let again = blocks.iter().flat_map(|(key, value)| {
        let (_, entries) = internal::block(key, value).expect("it was written");
        entries
    });
    assert_eq!(again.collect::<Vec<_>>(), entries);
}

fn log_group(payload: &[u8]) {
    let Ok((payload, group)) = internal::log_group(payload) else { return };
    let segment = internal::log_segment(&payload, *b"a salt  ", &[0; 64], 24).expect("it fits");
    let [found] = internal::whole_records(&segment)[..] else { panic!("there is one record") };
    let (_, again) = internal::log_group(found).expect("it was written");
    assert_eq!(again, group);
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

/// Entries of a database: the prefix, the length of the rest of the key, the length of the value, then both. The prefix
/// `m` is the manifest; with an unknown prefix the value is a group of the write-ahead log.
fn database(input: &[u8]) {
    thread_local! {
        static DATABASE: OnceCell<sled::Db> = const { OnceCell::new() };
    }
    let open = || internal::new_sled().expect("a database opens");
    let db = DATABASE.with(|db| db.get_or_init(open).clone());
    db.clear().expect("a database is emptied");

    let mut groups = Vec::new();
    let mut rest = input;
    while let [prefix, key_bytes, value_bytes, entries @ ..] = rest {
        let (key, entries) = entries.split_at(entries.len().min(usize::from(*key_bytes)));
        let (value, entries) = entries.split_at(entries.len().min(usize::from(*value_bytes)));
        rest = entries;
        let key = match prefix {
            b'm' => b"mstate".to_vec(),
            b'p' | b'e' | b't' => [&[*prefix], key].concat(),
            _ => {
                groups.push(value.to_vec());
                continue;
            }
        };
        db.insert(key, value).expect("a database takes values");
    }

    let Some(database) = AnyDatabase::recover(db, &groups) else { return };
    let (plants, last_event) = database.numbers();
    let mut read = 0;
    for tag in [None, Some("R")] {
        let filter = PlantFilter::new(None, tag.map(str::to_owned)).expect("a valid filter");
        let request = PageRequest { filter, after: None, limit: 1000 };
        let Ok(page) = database.page(&request) else { continue };
        for stored in &page.plants {
            assert!(tag.is_none() || stored.plant.tag() == tag, "a plant with another tag");
            let again = database.plant(stored.id).expect("a plant of a page is read alone");
            assert_eq!(again.as_ref(), Some(stored));
        }
        if tag.is_none() {
            read = page.plants.len();
        }
    }
    for after in [0, last_event.saturating_sub(1), last_event, u64::MAX] {
        drop(database.events(Revision::from(after), 3));
    }
    if database.is_sound && read > 0 {
        assert_eq!(u64::try_from(read).ok(), Some(plants), "a page misses a plant");
    }
}
