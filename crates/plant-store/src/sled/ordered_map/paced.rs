//! Writes to sled no faster than sled writes to the disk.
//!
//! When the end of its file becomes free, sled 0.34.7 truncates the file on one of the seven threads of its pool. A write
//! that needs room after that end waits for the truncation while it holds a lock, which each pool thread needs at the end
//! of a write. If all seven threads are writing, none is left to truncate, and sled deadlocks (the pool does not grow:
//! its count of waiting threads wraps below zero). So this module flushes sled before that many writes can be in
//! progress, estimated from sled's recent writes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::sled::room::Room;

/// About how many bytes of its log sled writes between two flushes. A piece of up to 512 KiB keeps a thread busy.
const LOG_BYTES: usize = 512 * 1024;

/// The bounds on the bytes of keys and values between two flushes. Between the bounds, the last flush shows how much
/// log each byte causes: sled also writes whole pages, and moves others.
const LEAST_BYTES: usize = 32 * 1024;
const MOST_BYTES: usize = 128 * 1024;

/// A write or removal counts for at least this many bytes: sled may rewrite its page.
const LEAST_OF_A_WRITE: usize = 512;

/// The most batches between two flushes. sled begins two pieces for each batch, however small.
const MOST_BATCHES: usize = 3;

/// Entries to write by their keys; `None` removes an entry.
pub(in crate::sled) type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The database, for its one writer.
pub(in crate::sled) struct PacedDb {
    db: sled::Db,
    /// Bytes of keys and values since the last flush made by this module.
    unflushed_bytes: Cell<usize>,
    unflushed_batches: Cell<usize>,
    flushed_after_bytes: Cell<usize>,
    /// Where sled's log ended at that flush, in bytes.
    log_end: Cell<i64>,
    /// The disk space that writes wait for; with `None`, writes do not wait.
    room: Option<Arc<Room>>,
}

/// Reads need no pacing.
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

    /// Makes writes wait for room on the disk, so that sled never finds the disk full.
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

    /// Writes and removes entries, all or none.
    pub(in crate::sled) fn apply(&self, batch: Batch) -> sled::Result<()> {
        self.count(bytes_in(&batch))?;
        if batch.len() > 1 {
            self.unflushed_batches.update(|batches| batches + 1);
            let mut all = sled::Batch::default();
            for (key, value) in batch {
                match value {
                    Some(value) => all.insert(key, value),
                    None => all.remove(key),
                }
            }
            return self.db.apply_batch(all);
        }
        batch.into_iter().try_for_each(|(key, value)| match value {
            Some(value) => self.db.insert(key, value).map(drop),
            None => self.db.remove(key).map(drop),
        })
    }

    /// Waits until the disk has room for everything up to the next flush.
    pub(in crate::sled) fn wait_for_room(&self) -> sled::Result<()> {
        Ok(self.room.as_ref().map_or(Ok(()), |room| room.wait())?)
    }

    /// Flushes and waits for room on the disk, if writing this batch would have to. The write then waits for neither.
    pub(in crate::sled) fn make_room_for(&self, batch: &Batch) -> sled::Result<()> {
        self.make_room(bytes_in(batch))
    }

    fn make_room(&self, bytes: usize) -> sled::Result<()> {
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

    fn count(&self, bytes: usize) -> sled::Result<()> {
        self.make_room(bytes)?;
        self.unflushed_bytes.update(|unflushed| unflushed + counted(bytes));
        Ok(())
    }
}

fn bytes_in(batch: &Batch) -> usize {
    batch.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum()
}

fn counted(bytes: usize) -> usize {
    bytes.max(LEAST_OF_A_WRITE)
}

/// The bytes allowed before the next flush, after `flushed` bytes, of `allowed`, made `written` bytes of log.
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
