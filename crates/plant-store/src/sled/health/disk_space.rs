//! The free room on the disk: bytes and inodes.
//!
//! Appends to the write-ahead log need no room, because its segments were written in full when they were made.
//! Compaction needs room, so it waits while there is too little for the next table. Meanwhile, acknowledged changes
//! stay in the log and in memory, writes are refused, and reads continue.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::fstatvfs;

use crate::DiskShortage;
use crate::sled::health::{LOOK_INTERVAL, StoreHealth};

pub(crate) const MIB: u64 = 1024 * 1024;

/// With fewer free bytes than this, the disk counts as full. The reserve must hold the table of one memtable, whose
/// search index takes twelve times the room of its names if these are long and their characters hardly repeat. It must
/// also hold both segments of the write-ahead log, because appends need room on a copy-on-write file system or in a
/// restored log with holes.
pub(crate) const RESERVE_BYTES: u64 = 128 * MIB;

/// With this many free bytes, a full disk has room again. More than the reserve, so that the store does not flap.
pub(crate) const ENOUGH_BYTES: u64 = 136 * MIB;

const LOW_BYTES: u64 = 4 * RESERVE_BYTES;

/// With fewer free inodes than this, the disk counts as full. A flush and two merges make six files and folders each,
/// and the manifest and the tokens are replaced by new files.
pub(crate) const RESERVE_INODES: u64 = 64;

/// With this many free inodes, a full disk has room again.
pub(crate) const ENOUGH_INODES: u64 = 72;

const LOW_INODES: u64 = 4 * RESERVE_INODES;

/// What is free on a file system for users other than root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeRoom {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl FreeRoom {
    /// The room on a file system that has no limit, or reports none.
    pub(crate) const UNKNOWN: Self = Self { bytes: u64::MAX, inodes: u64::MAX };

    /// What is scarcer than `needed`, if anything.
    fn shortage(self, needed: Self) -> Option<DiskShortage> {
        if self.bytes < needed.bytes {
            Some(DiskShortage::Space)
        } else if self.inodes < needed.inodes {
            Some(DiskShortage::Inodes)
        } else {
            None
        }
    }
}

const RESERVE: FreeRoom = FreeRoom { bytes: RESERVE_BYTES, inodes: RESERVE_INODES };
const ENOUGH: FreeRoom = FreeRoom { bytes: ENOUGH_BYTES, inodes: ENOUGH_INODES };
const LOW: FreeRoom = FreeRoom { bytes: LOW_BYTES, inodes: LOW_INODES };
const PLENTY: FreeRoom = FreeRoom { bytes: 2 * LOW_BYTES, inodes: 2 * LOW_INODES };

/// The room on the file system of a database. The compaction thread measures it; other threads read the last
/// measurement.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    /// The lock file, which is on the file system of the database even if the folder is renamed. `flock` ends with the
    /// last descriptor, so this one keeps other processes out while a thread of a failed store still runs.
    lock: File,
    /// [`free_room`], or the function of a test.
    free_room: fn(&File) -> FreeRoom,
    /// The folder of the database, for log messages.
    directory: PathBuf,
    health: Arc<StoreHealth>,
    last: Mutex<LastLook>,
}

#[derive(Clone, Copy, Debug)]
struct LastLook {
    free: FreeRoom,
    /// What the disk lacks, if it is full.
    shortage: Option<DiskShortage>,
    /// Whether the log has warned since there was last plenty of room.
    has_warned: bool,
}

impl DiskSpace {
    /// Measures the file system of the database in `directory` with `free_room`. `lock` is the database's lock file.
    pub(crate) fn new(
        free_room: fn(&File) -> FreeRoom,
        lock: File,
        directory: PathBuf,
        health: Arc<StoreHealth>,
    ) -> Self {
        let last = LastLook { free: FreeRoom::UNKNOWN, shortage: None, has_warned: false };
        let space = Self { lock, free_room, directory, health, last: Mutex::new(last) };
        space.look();
        space
    }

    pub(crate) fn shortage(&self) -> Option<DiskShortage> {
        self.last().shortage
    }

    pub(crate) fn is_full(&self) -> bool {
        self.shortage().is_some()
    }

    /// The bytes that were free at the last measurement, if the file system reports them.
    pub(crate) fn last_free_bytes(&self) -> Option<u64> {
        Some(self.last().free.bytes).filter(|free| *free != u64::MAX)
    }

    fn last(&self) -> MutexGuard<'_, LastLook> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures the free room, and logs a change.
    pub(crate) fn look(&self) {
        let free = (self.free_room)(&self.lock);
        let mut last = self.last();
        let needed = if last.shortage.is_some() { ENOUGH } else { RESERVE };
        let shortage = free.shortage(needed);
        let low = free.shortage(LOW);
        self.log_change(free, last.shortage, shortage, low.filter(|_| !last.has_warned));
        // Room that varies around the limit must not flood the log.
        let has_plenty = free.shortage(PLENTY).is_none();
        let has_warned = low.is_some() || (last.has_warned && !has_plenty);
        *last = LastLook { free, shortage, has_warned };
    }

    fn log_change(
        &self,
        free: FreeRoom,
        before: Option<DiskShortage>,
        now: Option<DiskShortage>,
        warning: Option<DiskShortage>,
    ) {
        let (directory, free_mib) = (self.directory.display(), free.bytes / MIB);
        let (reserve_mib, enough_mib) = (RESERVE_BYTES / MIB, ENOUGH_BYTES / MIB);
        match (before, now, warning) {
            (before, Some(DiskShortage::Space), _) if before != now => log::error!(
                "the disk of {directory} is full, it has {free_mib} MiB left: writes are refused until \
                 {enough_mib} MiB are free, and reads go on; make room"
            ),
            (before, Some(DiskShortage::Inodes), _) if before != now => log::error!(
                "the disk of {directory} is full, it has {} inodes left: writes are refused until \
                 {ENOUGH_INODES} are free, and reads go on; delete files that are not of plantd",
                free.inodes
            ),
            (Some(_), None, _) => {
                log::info!("the disk of {directory} has room again: writes are taken");
            }
            (None, None, Some(DiskShortage::Space)) => log::warn!(
                "the disk of {directory} has {free_mib} MiB left; with less than {reserve_mib} MiB writes are \
                 refused: make room"
            ),
            (None, None, Some(DiskShortage::Inodes)) => log::warn!(
                "the disk of {directory} has {} inodes left; with less than {RESERVE_INODES} writes are refused: \
                 delete files that are not of plantd",
                free.inodes
            ),
            _ => {}
        }
    }

    /// Whether the disk has room for this many bytes without being full afterwards.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let needed = FreeRoom { bytes: bytes.saturating_add(ENOUGH_BYTES), ..ENOUGH };
        (self.free_room)(&self.lock).shortage(needed).is_none()
    }

    /// Waits until it is time for another look at a full disk. Fails if the store has failed.
    pub(crate) fn pause(&self) -> io::Result<()> {
        self.health.check().map_err(io::Error::other)?;
        thread::sleep(LOOK_INTERVAL);
        Ok(())
    }
}

/// The room on the file system of this file.
pub(crate) fn free_room(file: &File) -> FreeRoom {
    let Ok(found) = fstatvfs(file) else { return FreeRoom::UNKNOWN };
    // Some file systems without a limit report no blocks or no inodes.
    let bytes = (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize));
    let inodes = (found.f_files > 0).then_some(found.f_favail);
    FreeRoom { bytes: bytes.unwrap_or(u64::MAX), inodes: inodes.unwrap_or(u64::MAX) }
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
            // Letters of two bytes make the most postings for their size.
            let name: String = (0..255).map(|_| random.char('\u{80}'..='\u{7ff}')).collect();
            let record = PlantRecord::named(&name, 1);
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
        static FREE: Mutex<FreeRoom> = Mutex::new(RESERVE);
        let free_room = |_: &File| *FREE.lock().expect("no panic");
        let lock = tempfile::tempfile().expect("a temporary file");
        let space = DiskSpace::new(free_room, lock, PathBuf::new(), Arc::default());
        assert!(!space.is_full());
        let (no_space, no_inodes) = (Some(DiskShortage::Space), Some(DiskShortage::Inodes));
        for (bytes, inodes, shortage) in [
            (RESERVE_BYTES - 1, u64::MAX, no_space),
            (RESERVE_BYTES, u64::MAX, no_space),
            (ENOUGH_BYTES - 1, u64::MAX, no_space),
            (ENOUGH_BYTES, u64::MAX, None),
            (RESERVE_BYTES, RESERVE_INODES, None),
            (u64::MAX, RESERVE_INODES - 1, no_inodes),
            (u64::MAX, ENOUGH_INODES - 1, no_inodes),
            (0, 0, no_space),
            (ENOUGH_BYTES, 0, no_inodes),
            (ENOUGH_BYTES, ENOUGH_INODES, None),
            (0, u64::MAX, no_space),
            (u64::MAX, u64::MAX, None),
        ] {
            *FREE.lock().expect("no panic") = FreeRoom { bytes, inodes };
            space.look();
            assert_eq!(space.shortage(), shortage, "{bytes} bytes and {inodes} inodes are free");
            assert_eq!(space.has_room_for(0), free_room(&space.lock).shortage(ENOUGH).is_none());
        }
    }
}
