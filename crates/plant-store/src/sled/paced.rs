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

/// About so many bytes of sled's log are written between two flushes. It writes them in pieces of 512 KiB, each of
/// which keeps a thread busy, for a while also when it is flushed.
const LOG_BYTES: usize = 512 * 1024;

/// How many bytes of keys and values that is. It is between these, by what those before have come to: sled writes
/// parts of pages and whole ones, and moves others to make room.
const LEAST_BYTES: usize = 32 * 1024;
const MOST_BYTES: usize = 512 * 1024;

/// The database, for the one who writes.
pub(super) struct PacedDb {
    db: sled::Db,
    /// How many bytes of keys and values came since the last flush.
    unflushed_bytes: Cell<usize>,
    /// How many may come before the next one.
    flushed_after_bytes: Cell<usize>,
    /// Where sled's log ended at the last flush, in bytes since its begin.
    log_end: Cell<i64>,
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
        Self {
            db,
            unflushed_bytes: Cell::new(0),
            flushed_after_bytes: Cell::new(LEAST_BYTES),
            log_end: Cell::new(0),
        }
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
        if unflushed <= self.flushed_after_bytes.get() {
            self.unflushed_bytes.set(unflushed);
            return Ok(());
        }
        self.db.flush()?;
        let log_end = self.db.context.pagecache.log.stable_offset();
        let written = log_end.abs_diff(self.log_end.replace(log_end));
        let flushed = self.unflushed_bytes.replace(bytes);
        self.flushed_after_bytes.set(next_bytes(self.flushed_after_bytes.get(), flushed, written));
        Ok(())
    }
}

/// How many bytes may come before the next flush, when `flushed` of them, of the number that was allowed, came to
/// `written` bytes of the log.
fn next_bytes(allowed: usize, flushed: usize, written: u64) -> usize {
    let written = usize::try_from(written).unwrap_or(usize::MAX).max(1);
    let next = flushed.saturating_mul(LOG_BYTES) / written;
    next.min(allowed.saturating_mul(2)).clamp(LEAST_BYTES, MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_sled_writes_for_a_byte_the_sooner_it_is_flushed() {
        let (allowed, flushed) = (200_000, 100_000);
        let next = |times: u64| next_bytes(allowed, flushed, times * flushed as u64);
        assert_eq!(next(4), LOG_BYTES / 4);
        assert_eq!(next(8), LOG_BYTES / 8);
        assert_eq!(next(1_000), LEAST_BYTES);
        assert_eq!(next(1), 2 * allowed, "it grows slowly");
        assert_eq!(next_bytes(MOST_BYTES, flushed, 0), MOST_BYTES);
    }
}
