//! Changes to a database while its server is stopped.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::wait_for;

/// The records of plants in sled, by id.
pub type PlantRecords = BTreeMap<i64, Vec<u8>>;

/// Changes the plants in sled, in the data folder of a server that has ended. The write-ahead log loses all but its
/// newest record, so that its replay does not undo the changes. The newest write cannot be changed.
pub fn edit_plants(data: &Path, change: impl FnOnce(&mut PlantRecords)) {
    let plants = data.join("plants");
    // sled releases its lock a little after the close.
    let db = wait_for("sled's lock", || match sled::open(plants.join("sled")) {
        Ok(db) => Some(db),
        Err(sled::Error::Io(_)) => None,
        Err(cause) => panic!("sled cannot open it: {cause}"),
    });
    let mut records = PlantRecords::new();
    for block in db.scan_prefix(b"p") {
        let (key, value) = block.expect("reads");
        read_block(&key, &value, &mut records);
        db.remove(key).expect("removes");
    }
    change(&mut records);
    // One block, which begins at the least id.
    db.insert([&b"p"[..], &[0; 8]].concat(), block_of(&records)).expect("writes");
    db.flush().expect("flushes");
    forget_older_records([plants.join("journal.0"), plants.join("journal.1")].each_ref());
}

fn read_block(key: &[u8], value: &[u8], records: &mut PlantRecords) {
    let first = u64::from_be_bytes(*key.last_chunk().expect("a key")) ^ (1 << 63);
    let (mut id, mut rest) = (first.cast_signed(), &value[1..]);
    while !rest.is_empty() {
        let ((distance, record), later): ((u64, &[u8]), _) =
            postcard::take_from_bytes(rest).expect("a block");
        id = id.checked_add_unsigned(distance).expect("an id");
        records.insert(id, record.to_vec());
        rest = later;
    }
}

fn block_of(records: &PlantRecords) -> Vec<u8> {
    let (mut block, mut before) = (vec![1], i64::MIN);
    for (id, record) in records {
        let entry = (id.abs_diff(before), record.len());
        block = postcard::to_extend(&entry, block).expect("it grows");
        block.extend_from_slice(record);
        before = *id;
    }
    block
}

fn forget_older_records(segments: [&std::path::PathBuf; 2]) {
    let mut records = Vec::new();
    for path in segments {
        let segment = fs::read(path).expect("reads");
        let mut offset = 8;
        while segment[offset..].starts_with(b"pljr") {
            let length = segment[offset + 4..].first_chunk().expect("a length");
            let length = 12 + usize::try_from(u32::from_be_bytes(*length)).expect("small");
            let payload = &segment[offset + 12..];
            let (sequence, _) = postcard::take_from_bytes::<u64>(payload).expect("a record");
            records.push((sequence, path, offset..offset + length));
            offset += length.next_multiple_of(8);
        }
    }
    records.sort_unstable_by_key(|(sequence, ..)| *sequence);
    records.pop();
    for (_, path, offset) in records {
        let mut segment = fs::read(path).expect("reads");
        segment[offset].fill(0);
        fs::write(path, segment).expect("writes");
    }
}
