//! The free room on the disk. sled does not survive a full disk, so it must never meet one.
//!
//! An append to the write-ahead log takes no room: its segments were written in full when they were made. Compaction
//! takes room, so it checks the free space before each part that it flushes, and waits while there is too little.
//! During the wait, acknowledged changes stay in the log and in memory, writes are refused, and reads continue.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::fstatvfs;

use super::health::{LOOK_INTERVAL, StoreHealth};

const MIB: u64 = 1024 * 1024;

/// With less room than this, in bytes, the disk counts as full. The reserve must hold what compaction gives sled between
/// two looks, about 512 KiB of sled's log, and both segments of the write-ahead log: on a file system that copies on
/// write, or with a restored log that has holes, appends take room too.
const RESERVE_BYTES: u64 = 32 * MIB;

/// With this much free space, in bytes, a full disk counts as having room again. More than the reserve, so that the
/// store does not flap.
const ENOUGH_BYTES: u64 = 40 * MIB;

const LOW_BYTES: u64 = 4 * RESERVE_BYTES;

/// The room on the file system of a database. The compaction thread measures it; other threads read the last
/// measurement.
#[derive(Debug)]
pub(super) struct Room {
    /// A file on the file system, because the folder may be renamed.
    file: File,
    /// [`free_bytes`], or the function of a test.
    free_bytes: fn(&File) -> Option<u64>,
    /// The folder of the database, for the log.
    directory: PathBuf,
    health: Arc<StoreHealth>,
    is_full: AtomicBool,
    /// Whether the log has warned since there was plenty of room.
    has_warned: AtomicBool,
}

impl Room {
    /// Looks at the file system of `file`, for the database in `directory`, with [`free_bytes`].
    pub(super) fn new(
        free_bytes: fn(&File) -> Option<u64>,
        file: File,
        directory: PathBuf,
        health: Arc<StoreHealth>,
    ) -> Self {
        let (is_full, has_warned) = (AtomicBool::new(false), AtomicBool::new(false));
        let room = Self { file, free_bytes, directory, health, is_full, has_warned };
        room.look();
        room
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Measures the free space, and logs a change. A file system that does not report it counts as having enough.
    pub(super) fn look(&self) {
        let free_bytes = (self.free_bytes)(&self.file).unwrap_or(u64::MAX);
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

    /// Measures the free space, and waits while the disk is full, which may take days. A failure of the store ends the
    /// wait with an error.
    pub(super) fn wait(&self) -> io::Result<()> {
        loop {
            self.look();
            if !self.is_full() {
                return Ok(());
            }
            self.health.check().map_err(io::Error::other)?;
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// The bytes free for users other than root. sled makes no files once it is open, so inodes do not matter.
pub(super) fn free_bytes(file: &File) -> Option<u64> {
    let found = fstatvfs(file).ok()?;
    // Some file systems without a limit report no blocks.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use anyhow::anyhow;

    use super::*;
    use crate::sled::ordered_map;
    use crate::sled::ordered_map::paced::PacedDb;

    /// A file system with this many free bytes.
    fn room(free_bytes: fn(&File) -> Option<u64>) -> Arc<Room> {
        let file = tempfile::tempfile().expect("a temporary file");
        Arc::new(Room::new(free_bytes, file, PathBuf::new(), Arc::new(StoreHealth::default())))
    }

    #[test]
    fn a_disk_is_full_below_the_reserve_until_there_is_more() {
        static FREE: AtomicU64 = AtomicU64::new(RESERVE_BYTES);
        let room = room(|_| Some(FREE.load(Ordering::Relaxed)));
        assert!(!room.is_full());
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
            room.look();
            assert_eq!(room.is_full(), is_full, "{free_bytes} bytes are free");
        }
    }

    #[test]
    fn a_disk_that_does_not_say_how_much_is_free_is_not_full() {
        assert!(!room(|_| None).is_full());
    }

    #[test]
    fn sled_gets_nothing_while_the_disk_is_full() {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        static HAS_ROOM_AGAIN: AtomicBool = AtomicBool::new(false);
        const WRITES: u64 = 1_000;
        /// The disk is full from this look on, long before the last write.
        const FULL_FROM_LOOK: u64 = 5;
        let room = room(|_| {
            let look = LOOKS.fetch_add(1, Ordering::Relaxed);
            let is_full = look >= FULL_FROM_LOOK && !HAS_ROOM_AGAIN.load(Ordering::Relaxed);
            Some(if is_full { 0 } else { u64::MAX })
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let db = ordered_map::Config::new().path(folder.path()).open().expect("a database");
        let paced = PacedDb::new(db.clone()).in_room(Arc::clone(&room));
        let count = || db.iter().count() as u64;
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                (0..WRITES)
                    .try_for_each(|key| paced.insert(key.to_be_bytes(), vec![0; 1_000]))
                    .map(|()| paced)
            });
            while !room.is_full() && !writer.is_finished() {
                thread::yield_now();
            }
            let (before, looks) = (count(), LOOKS.load(Ordering::Relaxed));
            assert!(before < WRITES, "it did not wait");
            while LOOKS.load(Ordering::Relaxed) < looks + 2 && !writer.is_finished() {
                thread::yield_now();
            }
            let after = count();
            // Before the claim: if it fails, the scope waits for the writer.
            HAS_ROOM_AGAIN.store(true, Ordering::Relaxed);
            assert_eq!(after, before);
            let paced = writer.join().expect("no panic").expect("there is room");
            assert_eq!(count(), WRITES);

            // A failed store waits for nothing.
            HAS_ROOM_AGAIN.store(false, Ordering::Relaxed);
            room.health.fail(anyhow!("for another reason"));
            assert!(paced.wait_for_room().is_err());
        });
    }
}
