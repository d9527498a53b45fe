//! Fuzz targets: everything in this crate that reads bytes from the disk.
//!
//! No target may panic, and a value that decodes must stay the same when it is encoded and decoded again.

use std::cell::OnceCell;
use std::sync::Arc;

use plant_domain::{PlantFilter, PlantId};

use super::blocks::{self, Block};
use super::bloom_filter::BloomFilter;
use super::digest::PlantsDigest;
use super::findings::Findings;
use super::layout::{
    self, ChangeGroup, EVENT_PREFIX, MANIFEST_KEY, Manifest, PLANT_PREFIX, TAG_PREFIX,
};
use super::ordered_map::Db;
use super::ordered_map::paced::PacedDb;
use super::reader::SledReader;
use super::recovery::{self, Replay};
use super::scan::PlantScan;
use super::tree::MergeTree;
use super::verify;
use super::write_ahead_log::{self, LogRecord};
use crate::plant_record::PlantRecord;
use crate::{PageRequest, Revision};

/// A reader of bytes, and what must hold whatever they are.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target and of its folder of inputs.
    pub name: &'static str,
    /// Reads the bytes, and panics when something does not hold.
    pub check: fn(&[u8]),
}

/// Everything in this crate that reads bytes from the disk.
pub const TARGETS: [FuzzTarget; 6] = [
    FuzzTarget { name: "plant_record", check: plant_record },
    FuzzTarget { name: "event_record", check: event_record },
    FuzzTarget { name: "block", check: block },
    FuzzTarget { name: "log_group", check: log_group },
    FuzzTarget { name: "log_segment", check: log_segment },
    FuzzTarget { name: "database", check: database },
];

fn plant_record(bytes: &[u8]) {
    let Ok(record) = PlantRecord::decode(bytes) else { return };
    let encoded = record.encode().expect("what was read can be written");
    assert_eq!(encoded.decode().expect("it was written"), record);
    if let Ok(stored) = record.to_stored_plant(PlantId::from(7)) {
        let kept = (stored.plant.name(), stored.plant.tag(), stored.revision.get());
        assert_eq!(kept, (record.name, record.tag, record.revision));
    }
}

fn event_record(value: &[u8]) {
    let Ok(events) = layout::decode_events(1, value) else { return };
    let encoded = layout::encode(&events).expect("what was read is small enough to be written");
    assert_eq!(layout::decode_events(1, &encoded).expect("it was written"), events);
}

/// The first byte is the length of the key; the value follows the key.
fn block(input: &[u8]) {
    let Some((key_bytes, rest)) = input.split_first() else { return };
    let (key, value) = rest.split_at(rest.len().min(usize::from(*key_bytes)));
    let block = Block::new(key.into(), value.into());
    if let Ok(tag) = block.prefix().and_then(layout::tag_of_prefix) {
        assert_eq!(block.prefix().expect("it was read"), layout::tag_blocks_prefix(tag));
    }
    let Ok(entries) = block.owned_entries() else { return };
    assert!(entries.is_sorted_by(|(one, _), (next, _)| one < next), "the ids of a block ascend");
    let (prefix, first) = (block.prefix().expect("read"), block.first_id().expect("read"));
    assert!(entries.iter().all(|(id, _)| *id >= first), "an id is less than that of the key");
    let of_block: Vec<_> = entries.iter().map(|(id, value)| (*id, &value[..])).collect();
    // A value may be larger than any that is written.
    let Ok(blocks) = blocks::cut(prefix, first, &of_block, false) else { return };
    let again = blocks.into_iter().flat_map(|(key, value)| {
        let block = Block::new(key.into(), value.into());
        block.owned_entries().expect("it was written")
    });
    assert_eq!(again.collect::<Vec<_>>(), entries);
}

fn log_group(payload: &[u8]) {
    let Ok(group) = ChangeGroup::decode(payload) else { return };
    assert!(group.first_sequence <= group.last_sequence() + 1, "the numbers of a group ascend");
    if let Ok(manifest) = Manifest::default().before(&group).after(&group.changes) {
        assert_eq!(manifest.last_sequence, group.last_sequence());
    }
    let Ok(record) = LogRecord::new(&group) else { return };
    let segment = record.in_segment(*b"a salt  ", &[0; 64], 24);
    let [found] = write_ahead_log::whole_records(&segment)[..] else {
        panic!("there is one record")
    };
    assert_eq!(ChangeGroup::decode(found).expect("it was written"), group);
}

/// The first byte says where a record is inserted into the other bytes.
fn log_segment(input: &[u8]) {
    let Some((place, segment)) = input.split_first() else { return };
    for payload in write_ahead_log::whole_records(segment) {
        // A whole record need not be a group.
        drop(ChangeGroup::decode(payload));
    }
    let Some((salt, other)) = segment.split_first_chunk() else { return };
    let group = ChangeGroup {
        first_sequence: 1,
        plants_before: 0,
        digest_before: PlantsDigest::default(),
        changes: Vec::new(),
    };
    let record = LogRecord::new(&group).expect("small");
    let place = usize::from(*place).min(other.len() / 8) * 8;
    let segment = record.in_segment(*salt, other, place);
    let place = salt.len() + place;
    let stands_there = |payload: &&[u8]| {
        // A whole record before it may cover it.
        let begins = payload.as_ptr().addr() - segment.as_ptr().addr();
        begins > place && ChangeGroup::decode(payload).is_ok_and(|found| found == group)
            || (begins..begins + payload.len()).contains(&place)
    };
    let found = write_ahead_log::whole_records(&segment);
    assert!(found.iter().any(stands_there), "a whole record is found wherever it stands");
}

/// Entries of a database: the prefix, the length of the rest of the key, the length of the value, then both. The prefix
/// `m` is the manifest; with an unknown prefix the value is a group of the write-ahead log.
fn database(input: &[u8]) {
    const KEEP_EVENTS: u64 = 8;
    thread_local! {
        static DATABASE: OnceCell<Db> = const { OnceCell::new() };
    }
    let open = || super::ordered_map::Config::new().temporary(true).flush_every_ms(None).open();
    let db = DATABASE.with(|db| db.get_or_init(|| open().expect("a database opens")).clone());
    db.clear().expect("a database is emptied");

    let mut groups = Vec::new();
    let mut rest = input;
    while let [prefix, key_bytes, value_bytes, entries @ ..] = rest {
        let (key, entries) = entries.split_at(entries.len().min(usize::from(*key_bytes)));
        let (value, entries) = entries.split_at(entries.len().min(usize::from(*value_bytes)));
        rest = entries;
        if *prefix == MANIFEST_KEY[0] {
            db.insert(MANIFEST_KEY, value).expect("a database takes values");
        } else if [PLANT_PREFIX, EVENT_PREFIX, TAG_PREFIX].contains(&&[*prefix][..]) {
            db.insert([&[*prefix], key].concat(), value).expect("a database takes values");
        } else {
            groups.push(value.to_vec());
        }
    }

    let db = PacedDb::new(db);
    let read = recovery::read(&db, &groups, Replay::Unsynced, &mut Findings::Refuse);
    let Ok(Some(manifest)) = read else { return };
    let mut findings = Findings::list();
    let is_sound = recovery::check(&db, &manifest).is_ok()
        && verify::verify(&db, Some(&manifest), &mut findings).is_ok()
        && findings.into_list().0.is_empty();
    // `check` returns no ids when something is wrong.
    let mut ids = BloomFilter::with_room_for(0);
    PlantScan::new(&db).flatten().for_each(|(id, _)| ids.add(id));
    let tree = Arc::new(MergeTree::new(Db::clone(&db), manifest, ids));
    let reader = SledReader { tree, keep_events: KEEP_EVENTS };
    let mut read = 0;
    for tag in [None, Some("R")] {
        let filter = PlantFilter::new(None, tag.map(str::to_owned)).expect("a valid filter");
        let request = PageRequest { filter, after: None, limit: 1000 };
        let Ok(page) = reader.page(&request) else { continue };
        for stored in &page.plants {
            assert!(tag.is_none() || stored.plant.tag() == tag, "a plant with another tag");
            let again = reader.plant(stored.id).expect("a plant of a page is read alone");
            assert_eq!(again.as_ref(), Some(stored));
        }
        if tag.is_none() {
            read = page.plants.len();
        }
    }
    for after in [0, manifest.last_sequence.saturating_sub(1), manifest.last_sequence, u64::MAX] {
        drop(reader.events(Revision::from(after), 3));
    }
    if is_sound && read > 0 {
        assert_eq!(u64::try_from(read).ok(), Some(manifest.plants), "a page misses a plant");
    }
}
