//! Damage to a sled database that no repository has open, for tests of what finds it. These functions write the on-disk
//! format by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sled::IVec;

/// How long sled may hold its lock after a close.
const LOCK_DEADLINE: Duration = Duration::from_secs(60);

/// The records of plants, by id.
pub type PlantRecords = BTreeMap<i64, Vec<u8>>;

/// Changes the records of plants in the database in this folder, except those of the newest write, which a replay of the
/// write-ahead log brings back.
pub fn damage_plants(directory: &Path, change: impl FnOnce(&mut PlantRecords)) {
    edit(directory, |db| edit_plants(db, change));
    forget_log(directory);
}

/// Changes what sled has of the database in this folder.
pub fn edit(directory: &Path, change: impl FnOnce(&sled::Db)) {
    let begun = Instant::now();
    let db = loop {
        match sled::open(directory.join("sled")) {
            Ok(db) => break db,
            // sled holds its lock for a moment after a close.
            Err(sled::Error::Io(_)) if begun.elapsed() < LOCK_DEADLINE => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(cause) => panic!("sled cannot open it: {cause}"),
        }
    };
    change(&db);
    db.flush().expect("flushes");
}

/// Changes the records of plants in sled.
pub fn edit_plants(db: &sled::Db, change: impl FnOnce(&mut PlantRecords)) {
    let blocks: Vec<_> = db.scan_prefix(b"p").map(|entry| entry.expect("reads")).collect();
    let mut plants = plants_in(&blocks);
    change(&mut plants);
    for (key, _) in blocks {
        db.remove(key).expect("removes");
    }
    // One block, which begins at the least id.
    db.insert([&b"p"[..], &[0; 8]].concat(), block_of(&plants)).expect("writes");
}

/// The records in the blocks of plants among these entries of sled.
#[must_use]
pub fn plants_in(entries: &[(IVec, IVec)]) -> PlantRecords {
    let mut plants = PlantRecords::new();
    for (key, value) in entries.iter().filter(|(key, _)| key.starts_with(b"p")) {
        let first = u64::from_be_bytes(*key.last_chunk().expect("a key")) ^ (1 << 63);
        let (mut id, mut rest) = (first.cast_signed(), &value[1..]);
        while !rest.is_empty() {
            let ((distance, record), later): ((u64, &[u8]), _) =
                postcard::take_from_bytes(rest).expect("a block");
            id = id.checked_add_unsigned(distance).expect("an id");
            plants.insert(id, record.to_vec());
            rest = later;
        }
    }
    plants
}

/// A block of records that begins at the least id.
#[must_use]
pub fn block_of(records: &PlantRecords) -> Vec<u8> {
    let (mut block, mut before) = (vec![1], i64::MIN);
    for (id, record) in records {
        let entry = (id.abs_diff(before), record.len());
        block = postcard::to_extend(&entry, block).expect("small");
        block.extend_from_slice(record);
        before = *id;
    }
    block
}

/// Removes all but the newest record of the write-ahead log, so that a replay brings back nothing older.
pub fn forget_log(directory: &Path) {
    let segments = ["journal.0", "journal.1"].map(|segment| directory.join(segment));
    let mut records = Vec::new();
    for path in &segments {
        let segment = fs::read(path).expect("reads");
        let mut offset = 8;
        while segment[offset..].starts_with(b"pljr") {
            let length = segment[offset + 4..].first_chunk().expect("a length");
            let length = 12 + usize::try_from(u32::from_be_bytes(*length)).expect("small");
            let (sequence, _): (u64, _) =
                postcard::take_from_bytes(&segment[offset + 12..]).expect("a record");
            records.push((sequence, path, offset..offset + length));
            offset += length.next_multiple_of(8);
        }
    }
    records.sort_unstable_by_key(|(sequence, ..)| *sequence);
    records.pop();
    for (_, path, range) in records {
        let mut segment = fs::read(path).expect("reads");
        segment[range].fill(0);
        fs::write(path, segment).expect("writes");
    }
}
