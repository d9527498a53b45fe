//! Writing to sled no faster than it brings to the disk what it has.
//!
//! Where the end of its file has become free, sled 0.34.7 truncates it on one of the seven threads of its
//! pool, and who then needs room behind that end waits for it, with a lock in hand. Each of these threads
//! needs that lock at the end of a write. When all seven are writing by then, there is none left that could
//! truncate, and nothing ever goes on; the pool does not grow, for its count of threads that wait wraps
//! around below zero. So it is flushed before so many writes are under way, as far as can be told from what it
//! has written of late.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use sled::{Batch, IVec};

use crate::sled::room::Room;

/// About so many bytes of sled's log are written between two flushes. It writes them in pieces of up to 512 KiB,
/// each of which keeps a thread busy, for a while also when it is flushed.
const LOG_BYTES: usize = 512 * 1024;

/// How many bytes of keys and values that is. It is between these, by what those before have come to: sled writes
/// parts of pages and whole ones, and moves others to make room.
const LEAST_BYTES: usize = 32 * 1024;
const MOST_BYTES: usize = 128 * 1024;

/// To write an entry, or to remove one, counts for so many bytes at least: its page may be written anew.
const LEAST_OF_A_WRITE: usize = 512;

/// How many batches come between two flushes at most. sled begins two pieces for each, however small it is.
const MOST_BATCHES: usize = 3;

/// The database, for the one who writes.
pub(in crate::sled) struct PacedDb {
    db: sled::Db,
    /// How many bytes of keys and values came since the last flush that made room. (Others come between.)
    unflushed_bytes: Cell<usize>,
    /// How many batches came since then.
    unflushed_batches: Cell<usize>,
    /// How many bytes may come before the next one.
    flushed_after_bytes: Cell<usize>,
    /// Where sled's log ended then, in bytes since its begin.
    log_end: Cell<i64>,
    /// Where writes wait for room on the disk. Without it they do not wait.
    room: Option<Arc<Room>>,
}

/// For those who read.
impl Deref for PacedDb {
    type Target = sled::Db;

    fn deref(&self) -> &sled::Db {
        &self.db
    }
}

impl PacedDb {
    pub(in crate::sled) const fn new(db: sled::Db) -> Self {
        Self {
            db,
            unflushed_bytes: Cell::new(0),
            unflushed_batches: Cell::new(0),
            flushed_after_bytes: Cell::new(LEAST_BYTES),
            log_end: Cell::new(0),
            room: None,
        }
    }

    /// Lets writes wait for room on the disk from now on, so that sled never finds it full.
    pub(in crate::sled) fn in_room(self, room: Arc<Room>) -> Self {
        Self { room: Some(room), ..self }
    }

    pub(in crate::sled) fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: Vec<u8>,
    ) -> sled::Result<()> {
        self.count(key.as_ref().len() + value.len())?;
        self.db.insert(key, value).map(drop)
    }

    pub(in crate::sled) fn remove(&self, key: impl AsRef<[u8]>) -> sled::Result<()> {
        self.count(key.as_ref().len())?;
        self.db.remove(key).map(drop)
    }

    /// Puts some entries in the place of others, all or none of them.
    pub(in crate::sled) fn replace(
        &self,
        old: Vec<IVec>,
        new: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> sled::Result<()> {
        self.count(new.iter().map(|(key, value)| key.len() + value.len()).sum())?;
        self.unflushed_batches.update(|batches| batches + 1);
        let mut batch = Batch::default();
        for (key, value) in new {
            batch.insert(key, value);
        }
        for key in old {
            batch.remove(key);
        }
        self.db.apply_batch(batch)
    }

    /// Waits until there is room on the disk for what may be written before the next flush.
    pub(in crate::sled) fn wait_for_room(&self) -> sled::Result<()> {
        Ok(self.room.as_ref().map_or(Ok(()), |room| room.wait())?)
    }

    /// Flushes if it must before so many bytes more, and then waits for room on the disk. A write of these bytes then
    /// waits for neither.
    pub(in crate::sled) fn make_room_for(&self, bytes: usize) -> sled::Result<()> {
        let unflushed = self.unflushed_bytes.get();
        let fits = unflushed + counted(bytes) <= self.flushed_after_bytes.get();
        if unflushed == 0 || fits && self.unflushed_batches.get() < MOST_BATCHES {
            return Ok(());
        }
        self.db.flush()?;
        let log_end = self.db.context.pagecache.log.stable_offset();
        let written = log_end.abs_diff(self.log_end.replace(log_end));
        self.flushed_after_bytes.set(next_bytes(
            self.flushed_after_bytes.get(),
            unflushed,
            written,
        ));
        self.unflushed_bytes.set(0);
        self.unflushed_batches.set(0);
        self.wait_for_room()
    }

    /// So many bytes are given to sled now.
    fn count(&self, bytes: usize) -> sled::Result<()> {
        self.make_room_for(bytes)?;
        self.unflushed_bytes.update(|unflushed| unflushed + counted(bytes));
        Ok(())
    }
}

/// For how many bytes a write counts.
fn counted(bytes: usize) -> usize {
    bytes.max(LEAST_OF_A_WRITE)
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
        let (allowed, flushed) = (60_000, 50_000);
        let next = |times: u64| next_bytes(allowed, flushed, times * flushed as u64);
        assert_eq!(next(8), LOG_BYTES / 8);
        assert_eq!(next(10), LOG_BYTES / 10);
        assert_eq!(next(1_000), LEAST_BYTES);
        assert_eq!(next(1), 2 * allowed, "it grows slowly");
        assert_eq!(next_bytes(MOST_BYTES, flushed, 0), MOST_BYTES);
    }
}
