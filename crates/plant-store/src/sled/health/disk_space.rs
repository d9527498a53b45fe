//! The free room on the disk.
//!
//! An append to the write-ahead log takes no room: its segments were written in full when they were made. Compaction
//! takes room, so it checks the free space before it writes a table, and waits while there is too little. During the
//! wait, acknowledged changes stay in the log and in memory, writes are refused, and reads continue.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::fs::fstatvfs;

use crate::sled::health::{LOOK_INTERVAL, StoreHealth};

pub(crate) const MIB: u64 = 1024 * 1024;

/// With less room than this, in bytes, the disk counts as full. The reserve must hold the table of a memtable, whose search
/// index takes twelve times the room of its names when they are long and their characters hardly repeat; and both segments of
/// the write-ahead log: on a file system that copies on write, or with a restored log that has holes, appends take room too.
pub(crate) const RESERVE_BYTES: u64 = 128 * MIB;

/// With this much free space, in bytes, a full disk counts as having room again. More than the reserve, so that the
/// store does not flap.
pub(crate) const ENOUGH_BYTES: u64 = 136 * MIB;

const LOW_BYTES: u64 = 4 * RESERVE_BYTES;

/// The room on the file system of a database. The compaction thread measures it; other threads read the last
/// measurement.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    /// The lock of the database: a file on its file system, whatever the folder is called meanwhile. `flock` ends with the
    /// last descriptor, so this one keeps other processes out while a thread of a failed store still runs.
    lock: File,
    /// [`free_bytes`], or the function of a test.
    free_bytes: fn(&File) -> Option<u64>,
    /// The folder of the database, for the log.
    directory: PathBuf,
    health: Arc<StoreHealth>,
    /// The last measurement; the greatest number if the file system does not report it.
    last_free_bytes: AtomicU64,
    is_full: AtomicBool,
    /// Whether the log has warned since there was plenty of room.
    has_warned: AtomicBool,
}

impl DiskSpace {
    /// Looks at the file system of the database in `directory`, which has this `lock`, with [`free_bytes`].
    pub(crate) fn new(
        free_bytes: fn(&File) -> Option<u64>,
        lock: File,
        directory: PathBuf,
        health: Arc<StoreHealth>,
    ) -> Self {
        let (is_full, has_warned) = (AtomicBool::new(false), AtomicBool::new(false));
        let last_free_bytes = AtomicU64::new(u64::MAX);
        let space =
            Self { lock, free_bytes, directory, health, last_free_bytes, is_full, has_warned };
        space.look();
        space
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The bytes that were free at the last look, if the file system reports them.
    pub(crate) fn last_free_bytes(&self) -> Option<u64> {
        Some(self.last_free_bytes.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Measures the free space, and logs a change. A file system that does not report it counts as having enough.
    pub(crate) fn look(&self) {
        let free_bytes = (self.free_bytes)(&self.lock).unwrap_or(u64::MAX);
        self.last_free_bytes.store(free_bytes, Ordering::Relaxed);
        let was_full = self.is_full();
        let is_full = free_bytes < if was_full { ENOUGH_BYTES } else { RESERVE_BYTES };
        self.is_full.store(is_full, Ordering::Relaxed);
        let (directory, free_mib) = (self.directory.display(), free_bytes / MIB);
        let (reserve_mib, enough_mib) = (RESERVE_BYTES / MIB, ENOUGH_BYTES / MIB);
        if is_full && !was_full {
            log::error!(
                "the disk of {directory} is full, it has {free_mib} MiB left: writes are refused until \
                 {enough_mib} MiB are free, and reads go on; make room"
            );
        } else if was_full && !is_full {
            log::info!("the disk of {directory} has room again: writes are taken");
        }
        let is_low = free_bytes < LOW_BYTES;
        if is_low && !is_full && !self.has_warned.load(Ordering::Relaxed) {
            log::warn!(
                "the disk of {directory} has {free_mib} MiB left; with less than {reserve_mib} MiB writes are \
                 refused: make room"
            );
        }
        // Room that varies around the limit must not flood the log.
        let warned_before = self.has_warned.load(Ordering::Relaxed) && free_bytes < 2 * LOW_BYTES;
        self.has_warned.store(is_low || warned_before, Ordering::Relaxed);
    }

    /// Whether the disk has room for this many bytes, and would not be full with them.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        (self.free_bytes)(&self.lock).is_none_or(|free| free >= bytes.saturating_add(ENOUGH_BYTES))
    }

    /// Waits a little, until the next look at a full disk. Fails when the store has failed.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.health.check().map_err(io::Error::other)?;
        thread::sleep(LOOK_INTERVAL);
        Ok(())
    }
}

/// The bytes free for users other than root. Compaction makes few files, so inodes do not matter.
pub(crate) fn free_bytes(file: &File) -> Option<u64> {
    let found = fstatvfs(file).ok()?;
    // Some file systems without a limit report no blocks.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PlantRecord;
    use crate::sled::commit::write_ahead_log::SEGMENT_BYTES;
    use crate::sled::files::Files;
    use crate::sled::keys;
    use crate::sled::tables::{EntrySink as _, Map};

    #[test]
    fn the_reserve_holds_both_segments_and_the_table_of_names_that_hardly_repeat() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::in_directory(folder.path(), 0, Arc::default());
        files.make().expect("an empty folder");
        let mut table = files.create_table(1, 0, files.advances()).expect("a table");
        let mut random = fastrand::Rng::with_seed(7);
        let mut written = 0;
        for id in 0_i64.. {
            // Letters of two bytes have the most postings for their size.
            let name: String = (0..255).map(|_| random.char('\u{80}'..='\u{7ff}')).collect();
            let record = PlantRecord { revision: 1, idempotency: None, name: &name, tag: None };
            let record = record.encode().expect("encodes");
            let key = keys::plant_key(id.into());
            table.add(Map::Plants, &key, Some(record.bytes())).expect("writes");
            written += record.bytes().len();
            if written > SEGMENT_BYTES {
                break;
            }
        }
        let metadata = files.seal(table.finish((1, 1)).expect("writes"), 1).expect("seals");
        let (table, segments) = (metadata.bytes, 2 * SEGMENT_BYTES as u64);
        assert!(table + segments < RESERVE_BYTES, "{table}");
    }

    #[test]
    fn a_disk_is_full_below_the_reserve_until_there_is_more() {
        static FREE: AtomicU64 = AtomicU64::new(RESERVE_BYTES);
        let free_bytes = |_: &File| Some(FREE.load(Ordering::Relaxed));
        let lock = tempfile::tempfile().expect("a temporary file");
        let space = DiskSpace::new(free_bytes, lock, PathBuf::new(), Arc::default());
        assert!(!space.is_full());
        for (free_bytes, is_full) in [
            (RESERVE_BYTES - 1, true),
            (RESERVE_BYTES, true),
            (ENOUGH_BYTES - 1, true),
            (ENOUGH_BYTES, false),
            (RESERVE_BYTES, false),
            (0, true),
            (u64::MAX, false),
        ] {
            FREE.store(free_bytes, Ordering::Relaxed);
            space.look();
            assert_eq!(space.is_full(), is_full, "{free_bytes} bytes are free");
        }
    }
}
