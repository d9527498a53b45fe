//! Makes a database of a backup, and brings it up to a later moment with an archive.
//!
//! The new database is a log of its own: it has a new name of the log of events, so no old cursor is taken, and its sequence
//! numbers go on far above those of the old one, so no entity tag of a change that is lost is given out again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::ensure;

use super::Head;
use super::archive::reader::{ArchiveReader, PointInTime};
use super::file::BackupFile;
use super::position::Position;
use super::restore_error::RestoreError;
use crate::EventRetention;
use crate::event::to_millis;
use crate::sled::commit::change::{ChangeGroup, Totals};
use crate::sled::commit::write_ahead_log::{self, WriteAheadLog, payload_of};
use crate::sled::compaction::merge::MergedEntries;
use crate::sled::compaction::{Compactor, MERGE_LOOK_INTERVAL};
use crate::sled::config::DEFAULT_CHANGES_IN_MEMORY;
use crate::sled::events::EventLog;
use crate::sled::files::Files;
use crate::sled::health::disk_space::DiskSpace;
use crate::sled::health::findings::Findings;
use crate::sled::health::verify::count_and_digest;
use crate::sled::keys::MAX_SEQUENCE;
use crate::sled::manifest::Manifest;
use crate::sled::open::{make_directory, new_event_log, open_tables, sync_names};
use crate::sled::tree::MergeTree;

/// The caches of the tables while a backup is restored, in bytes.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// The sequence numbers of a restored database begin with the seconds since 1970, times this. No store makes more changes in a
/// second, so a later restore begins above all numbers of an earlier one. The product stays below 2^53 until the year 2242.
const SEQUENCES_PER_SECOND: u64 = 1 << 20;

/// How far the sequence numbers of a restored database skip when the clock is behind the backup.
const SKIPPED_WITHOUT_CLOCK: u64 = 1 << 44;

/// No entry of a plant takes fewer bytes.
const ENTRY_MIN_BYTES: u64 = 4;

/// How many entries are copied between two reports of progress.
const COPIED_AT_A_TIME: usize = 64 * 1024;

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// How many plants there are.
    pub plants: u64,
    /// The newest change that was restored, in the history of the old database.
    pub position: Position,
}

impl BackupFile {
    /// Makes a database in a folder that is missing or empty. When this returns, the database is on disk; before, the folder
    /// must not be used. Calls `progress` with the share of the plants that is copied, from 0 to 1.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Damaged`] when the backup is, [`RestoreError::NotWhole`] when the archive is not whole up to the moment,
    /// and [`RestoreError::Unusable`] when the folder has a database, a disk fails, or there is no such moment.
    pub fn restore(
        &self,
        directory: &Path,
        moment: Option<&PointInTime>,
        progress: &dyn Fn(f64),
    ) -> Result<Restored, RestoreError> {
        let mut restoring = self.copy(directory, progress)?;
        if let Some(moment) = moment {
            restoring.replay(moment)?;
        }
        restoring.prove().map_err(RestoreError::damaged)?;
        restoring.finish().map_err(RestoreError::unusable)
    }

    /// Proves that an archive continues this backup up to a moment, without restoring anything. Returns that moment.
    ///
    /// # Errors
    ///
    /// Those of [`Self::restore`].
    pub fn verify_archive(&self, moment: &PointInTime) -> Result<Position, RestoreError> {
        let Head { event_log, totals, .. } = self.head;
        let mut archive = ArchiveReader::after(moment, event_log, totals)?;
        while archive.next()?.is_some() {}
        Ok(archive.position())
    }

    /// Makes a database of the entries. It has no manifest yet.
    fn copy(&self, directory: &Path, progress: &dyn Fn(f64)) -> Result<Restoring, RestoreError> {
        let Head { event_log, totals, .. } = self.head;
        let files = Files::in_directory(directory, CACHE_BYTES, Arc::default());
        let make = || {
            make_directory(directory)?;
            ensure!(!files.has_database()?, "there is a database in {}", directory.display());
            files.make()?;
            write_ahead_log::make(directory)
        };
        let log_salts = make().map_err(RestoreError::unusable)?;
        let mut manifest = Manifest { totals, ..Manifest::new(log_salts, event_log) };
        let number = manifest.next_table;
        // A head that lies about the number of plants must not take all memory.
        let plants = totals.plants.min(self.frame_bytes() / ENTRY_MIN_BYTES);
        let plants = usize::try_from(plants).unwrap_or(usize::MAX);
        let table = files.create_table(number, plants, files.advances());
        let mut table = table.map_err(RestoreError::unusable)?;
        let mut entries = MergedEntries::new(self.levels(), true, totals.stored_from);
        while entries.take(COPIED_AT_A_TIME, &mut table).map_err(RestoreError::damaged)? {
            progress((table.plant_entries as f64 / plants.max(1) as f64).min(1.0));
        }
        let open = || {
            let metadata = files.seal(table.finish((1, totals.last_sequence))?, number)?;
            manifest.next_table += 1;
            manifest.tables.push(metadata);
            let tree = Arc::new(MergeTree::new(open_tables(&files, &manifest)?, totals));
            let retention = EventRetention::new(0, Duration::ZERO);
            let events = EventLog { tree, id: event_log, retention };
            // On a full disk, an error is better than a wait for room.
            let free_bytes = |_: &File| None;
            let lock = File::open(directory)?;
            let disk_space = DiskSpace::new(free_bytes, lock, directory.to_owned(), Arc::default());
            let (disk_space, metrics) = (Arc::new(disk_space), Arc::default());
            let compactor = Compactor::new(files, manifest, events, disk_space, metrics);
            anyhow::Ok(Restoring { directory: directory.to_owned(), compactor })
        };
        open().map_err(RestoreError::unusable)
    }
}

/// A database that is being restored.
struct Restoring {
    directory: PathBuf,
    compactor: Compactor,
}

impl Restoring {
    /// Makes the changes in an archive, as the commit thread and the compaction thread made them.
    fn replay(&mut self, moment: &PointInTime) -> Result<(), RestoreError> {
        let Manifest { event_log, totals, .. } = self.compactor.manifest;
        let mut archive = ArchiveReader::after(moment, event_log, totals)?;
        while let Some(group) = archive.next()? {
            let applied = group
                .decode_records()
                .and_then(|plants| self.compactor.tree.apply(&group, &plants));
            applied.map_err(RestoreError::unusable)?;
            if self.compactor.tree.read().active_changes() >= DEFAULT_CHANGES_IN_MEMORY {
                self.flush().map_err(RestoreError::unusable)?;
            }
        }
        if self.compactor.tree.read().active_changes() > 0 {
            self.flush().map_err(RestoreError::unusable)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let (memtable, totals) = self.compactor.tree.freeze()?;
        self.compactor.flush(&memtable, totals)?;
        while self.compactor.look_at_merges()? {
            thread::sleep(MERGE_LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Compares the plants with their digest.
    fn prove(&self) -> anyhow::Result<()> {
        let Totals { plants, digest, .. } = self.compactor.tree.read().totals;
        let found = count_and_digest(&self.compactor.tree.tables())?;
        ensure!(found == (plants, digest), "the restored plants do not match their digest");
        Ok(())
    }

    /// Gives the database its own log of events and its own sequence numbers, and makes it durable.
    fn finish(self) -> anyhow::Result<Restored> {
        let Self { directory, compactor: Compactor { files, mut manifest, tree, .. } } = self;
        let old = tree.read().totals;
        let position = Position::newest(manifest.event_log, &old);
        let now_ms = to_millis(SystemTime::now());
        let last_sequence = sequence_after(old.last_sequence, now_ms)?;
        manifest.event_log = new_event_log()?;
        manifest.totals =
            Totals { last_sequence, last_at_ms: 0, stored_from: last_sequence + 1, ..old };
        // A log that does not reach up to the tables is refused as an old one.
        let log =
            write_ahead_log::read(&directory, Some(manifest.log_salts), &mut Findings::Refuse)?;
        let marker = ChangeGroup::after(&manifest.totals, 0);
        WriteAheadLog::open(&directory, &log)?.append(&payload_of(&marker)?)?;
        files.write_manifest(&manifest)?;
        sync_names(&directory)?;
        Ok(Restored { plants: manifest.totals.plants, position })
    }
}

/// The last sequence number of a database that is restored now from one whose last number is `old`.
fn sequence_after(old: u64, now_ms: u64) -> anyhow::Result<u64> {
    let by_clock = (now_ms / 1000).saturating_mul(SEQUENCES_PER_SECOND);
    let sequence =
        if by_clock > old { by_clock } else { old.saturating_add(SKIPPED_WITHOUT_CLOCK) };
    ensure!(
        sequence < MAX_SEQUENCE,
        "the clock shows a time at which sequence numbers end; correct it"
    );
    Ok(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_restore_begins_above_the_numbers_of_all_stores_before() {
        let (monday_ms, second_ms) = (1_764_000_000_000, 1_000);
        let first = sequence_after(1_000_000, monday_ms).expect("a number");
        // The restored store makes a million changes in a second, and the same backup is restored again.
        let second = sequence_after(1_000_000, monday_ms + second_ms).expect("a number");
        assert!(first > 1_000_000 && second > first + 1_000_000);
        // A backup of the restored store, and a clock that was set back.
        let third = sequence_after(second + 5, monday_ms).expect("a number");
        assert!(third > second + 1_000_000);
        assert!(sequence_after(7, u64::MAX).is_err());
    }
}
