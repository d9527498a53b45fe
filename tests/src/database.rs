//! The database of a server, changed behind its back.

use std::fs;
use std::path::Path;

use crate::deadline::wait_for;

/// Changes what sled holds below the folder of a server that has ended, so that its journal does not
/// bring back what it was: it looks as if nothing had been written since the server was started. The last
/// write must have been one alone.
///
/// # Panics
///
/// When it cannot be changed.
pub fn edit_database(data: &Path, change: impl FnOnce(&sled::Db)) {
    let plants = data.join("plants");
    // sled lets go of its lock a little after it was closed.
    let db = wait_for("sled's lock", || match sled::open(plants.join("sled")) {
        Ok(db) => Some(db),
        Err(sled::Error::Io(_)) => None,
        Err(cause) => panic!("sled cannot open it: {cause}"),
    });
    change(&db);
    let (newest, _) = db.scan_prefix(b"e").next_back().expect("an event").expect("reads");
    db.insert(b"mopened", &newest[1..]).expect("writes");
    db.flush().expect("flushes");
    for segment in ["journal.0", "journal.1"] {
        let path = plants.join(segment);
        let mut bytes = fs::read(&path).expect("reads");
        // What stands before the first record stays.
        bytes[8..].fill(0);
        fs::write(&path, bytes).expect("writes");
    }
}

/// The key under which sled holds a plant.
#[must_use]
pub fn key_of_plant(id: i64) -> Vec<u8> {
    [b"p", (id.cast_unsigned() ^ (1 << 63)).to_be_bytes().as_slice()].concat()
}
