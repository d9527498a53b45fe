//! Writing to sled no faster than it brings to the disk what it has.
//!
//! Where the end of its file has become free, sled 0.34.7 truncates it on one of the seven threads of its
//! pool, and who then needs room behind that end waits for it, with a lock in hand. Each of these threads
//! needs that lock at the end of a write. When all seven are writing by then, there is none left that could
//! truncate, and nothing ever goes on; the pool does not grow, for its count of threads that wait wraps
//! around below zero. So there are never as many writes under way.

use std::cell::Cell;
use std::ops::Deref;

use sled::{Batch, IVec};

/// After so many bytes of keys and values sled is flushed. It writes three or four times as many, in
/// pieces of 512 KiB, each of which keeps a thread busy.
const FLUSHED_AFTER_BYTES: usize = 512 * 1024;

/// The database, for the one who writes.
pub(super) struct PacedDb {
    db: sled::Db,
    unflushed_bytes: Cell<usize>,
}

/// For those who read.
impl Deref for PacedDb {
    type Target = sled::Db;

    fn deref(&self) -> &sled::Db {
        &self.db
    }
}

impl PacedDb {
    pub(super) const fn new(db: sled::Db) -> Self {
        Self { db, unflushed_bytes: Cell::new(0) }
    }

    pub(super) fn insert(&self, key: impl AsRef<[u8]>, value: Vec<u8>) -> sled::Result<()> {
        self.make_room_for(key.as_ref().len() + value.len())?;
        self.db.insert(key, value).map(drop)
    }

    pub(super) fn remove(&self, key: impl AsRef<[u8]>) -> sled::Result<()> {
        self.make_room_for(key.as_ref().len())?;
        self.db.remove(key).map(drop)
    }

    /// Puts some entries in the place of others, all or none of them.
    pub(super) fn replace(&self, old: Vec<IVec>, new: Vec<(Vec<u8>, Vec<u8>)>) -> sled::Result<()> {
        self.make_room_for(new.iter().map(|(key, value)| key.len() + value.len()).sum())?;
        let mut batch = Batch::default();
        for (key, value) in new {
            batch.insert(key, value);
        }
        for key in old {
            batch.remove(key);
        }
        self.db.apply_batch(batch)
    }

    fn make_room_for(&self, bytes: usize) -> sled::Result<()> {
        let unflushed = self.unflushed_bytes.get() + bytes;
        if unflushed <= FLUSHED_AFTER_BYTES {
            self.unflushed_bytes.set(unflushed);
            return Ok(());
        }
        self.unflushed_bytes.set(bytes);
        self.db.flush().map(drop)
    }
}
