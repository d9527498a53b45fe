//! Makes a database from a backup, and replays an archive up to a later moment.
//!
//! The new database begins a log of its own. The log of events gets a new name, so old cursors are refused. Sequence
//! numbers continue far above the old ones, so no entity tag of a lost change is given out again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::Head;
use super::archive::reader::{ArchiveReader, LeftOut, PointInTime};
use super::position::Position;
use super::reader::BackupReader;
use super::restore_error::RestoreError;
use super::restored_sequence::sequence_after;
use crate::EventRetention;
use crate::sled::commit::change::{ChangeGroup, Totals};
use crate::sled::commit::write_ahead_log::{self, WriteAheadLog, payload_of};
use crate::sled::compaction::merge::{MergedEntries, levels_of};
use crate::sled::compaction::{Compactor, MERGE_LOOK_INTERVAL};
use crate::sled::config::DEFAULT_CHANGES_IN_MEMORY;
use crate::sled::events::EventLog;
use crate::sled::files::{Files, make_directory};
use crate::sled::health::disk_space::{DiskSpace, FreeRoom};
use crate::sled::health::findings::Findings;
use crate::sled::health::verify::Verifier;
use crate::sled::manifest::Manifest;
use crate::sled::open::{new_event_log, open_tables, sync_names};
use crate::sled::tables::EntrySource as _;
use crate::sled::tree::MergeTree;

/// The cache of all tables during a restore, in bytes.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// The Bloom filter has room for at most this many plants, so that a wrong count in the head cannot exhaust memory.
const FILTER_MAX_PLANTS: u64 = 1 << 27;

/// How many entries are copied between two reports of progress.
const COPIED_AT_A_TIME: usize = 64 * 1024;

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The number of plants.
    pub plants: u64,
    /// The newest change that was restored, in the history of the old database.
    pub position: Position,
    /// What the archive has after that change.
    pub left_out: LeftOut,
}

impl BackupReader {
    /// Makes a database in a missing or empty folder. The database is on disk when this returns; until then, nothing
    /// else may use the folder. Calls `progress` with the copied share of the plants, from 0 to 1. Memory grows by two
    /// bytes for each plant.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Damaged`] when the backup is damaged or contradicts itself, as [`Self::verify`] would find.
    /// [`RestoreError::NotWhole`] when the archive is not whole up to the moment. [`RestoreError::NoSuchMoment`] when
    /// the moment is not after the backup. [`RestoreError::Unusable`] when the folder has a database, or a disk fails.
    pub fn restore(
        self,
        directory: &Path,
        moment: Option<&PointInTime>,
        progress: &dyn Fn(f64),
    ) -> Result<Restored, RestoreError> {
        let mut restoring = self.copy(directory, progress)?;
        let left_out = match moment {
            Some(moment) => restoring.replay(moment)?,
            None => LeftOut::default(),
        };
        restoring.verify().map_err(RestoreError::damaged)?;
        restoring.finish(left_out).map_err(RestoreError::unusable)
    }

    /// Checks that an archive continues this backup up to a moment, without restoring anything. Returns that moment,
    /// and what the archive has after it.
    ///
    /// # Errors
    ///
    /// Those of [`Self::restore`].
    pub fn verify_archive(
        &self,
        moment: &PointInTime,
    ) -> Result<(Position, LeftOut), RestoreError> {
        let Head { event_log, totals, .. } = self.head;
        let mut archive = ArchiveReader::after(moment, event_log, totals)?;
        while archive.next()?.is_some() {}
        Ok((archive.position(), archive.left_out()))
    }

    /// Makes a database from the entries, still without a manifest.
    fn copy(mut self, directory: &Path, progress: &dyn Fn(f64)) -> Result<Restoring, RestoreError> {
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
        let plants = totals.plants.min(FILTER_MAX_PLANTS) as usize;
        let table = files.create_table(number, plants, files.advances());
        let mut table = table.map_err(RestoreError::unusable)?;
        while self.take(COPIED_AT_A_TIME, &mut table).map_err(RestoreError::damaged)? {
            progress((table.plant_entries as f64 / totals.plants.max(1) as f64).min(1.0));
        }
        let open = || {
            let metadata = files.seal(table.finish((1, totals.last_sequence))?, number)?;
            manifest.next_table += 1;
            manifest.tables.push(metadata);
            let tree = Arc::new(MergeTree::new(open_tables(&files, &manifest)?, totals));
            // The histories of plants outlive a restore.
            let retention = EventRetention::new(u64::MAX, Duration::ZERO);
            let events = EventLog { tree, id: event_log, retention };
            // On a full disk, an error is better than waiting for room.
            let free_room = |_: &File| FreeRoom::UNKNOWN;
            let lock = File::open(directory)?;
            let disk_space = DiskSpace::new(free_room, lock, directory.to_owned(), Arc::default());
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
    /// Replays an archive, as the commit and compaction threads would have made its changes.
    fn replay(&mut self, moment: &PointInTime) -> Result<LeftOut, RestoreError> {
        let Manifest { event_log, totals, .. } = self.compactor.manifest;
        let mut archive = ArchiveReader::after(moment, event_log, totals)?;
        while let Some(group) = archive.next()? {
            self.compactor.tree.apply(&group).map_err(RestoreError::unusable)?;
            if self.compactor.tree.read().active_changes() >= DEFAULT_CHANGES_IN_MEMORY {
                self.flush().map_err(RestoreError::unusable)?;
            }
        }
        if self.compactor.tree.read().active_changes() > 0 {
            self.flush().map_err(RestoreError::unusable)?;
        }
        Ok(archive.left_out())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let (memtable, totals) = self.compactor.tree.freeze()?;
        self.compactor.flush(&memtable, totals)?;
        while self.compactor.look_at_merges()? {
            thread::sleep(MERGE_LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Verifies everything restored, as an inspection of the database would.
    fn verify(&self) -> anyhow::Result<()> {
        let (tables, totals) = (self.compactor.tree.tables(), self.compactor.tree.read().totals);
        let mut verifier = Verifier::new(Some(totals), Findings::Refuse, totals.plants, &|_| ());
        let mut entries = MergedEntries::new(levels_of(&tables), true, totals.history_from);
        verifier
            .read(&mut entries)
            .and_then(|()| verifier.check_totals())
            .context("what was restored does not agree with itself")
    }

    /// Gives the database its own log of events and its own sequence numbers, and makes it durable.
    fn finish(self, left_out: LeftOut) -> anyhow::Result<Restored> {
        let Self { directory, compactor: Compactor { files, mut manifest, tree, .. } } = self;
        let old = tree.read().totals;
        let position = Position::newest(manifest.event_log, &old);
        let random = getrandom::u64().context("the system gives no random bytes")?;
        let last_sequence = sequence_after(old.last_sequence, random)?;
        manifest.event_log = new_event_log()?;
        manifest.totals =
            Totals { last_sequence, last_at_ms: 0, stored_from: last_sequence + 1, ..old };
        // An open would refuse a log that does not reach up to the tables.
        let log =
            write_ahead_log::read(&directory, Some(manifest.log_salts), &mut Findings::Refuse)?;
        let marker = ChangeGroup::after(&manifest.totals, 0);
        WriteAheadLog::open(&directory, &log)?.append(&payload_of(&marker)?)?;
        files.write_manifest(&manifest)?;
        sync_names(&directory)?;
        Ok(Restored { plants: manifest.totals.plants, position, left_out })
    }
}
