//! Makes a database of a backup, and brings it up to a later moment with an archive.
//!
//! The new database is a log of its own: it has a new name of the log of events, so no old cursor is taken, and its sequence
//! numbers go on far above those of the old one, so no entity tag of a change that is lost is given out again.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};

use super::backup_file::{BackupFile, CACHE_BYTES};
use super::cache::BlockCache;
use super::change::{ChangeGroup, Totals};
use super::compaction::Compactor;
use super::config::DEFAULT_CHANGES_IN_MEMORY;
use super::event_log::EventLog;
use super::files::Files;
use super::findings::Findings;
use super::history::{History, Replay};
use super::keys::MAX_SEQUENCE;
use super::manifest::Manifest;
use super::new_file::create;
use super::open::{check_all, make_directory, new_event_log, open_tables, sync_names};
use super::position::Position;
use super::restore_error::RestoreError;
use super::room::Room;
use super::tree::MergeTree;
use super::verify::count_and_digest;
use super::write_ahead_log::{self, WriteAheadLog, payload_of};
use crate::EventRetention;
use crate::event::to_millis;

/// The sequence numbers of a restored database begin with the seconds since 1970, times this. No store makes more changes in a
/// second, so a later restore begins above all numbers of an earlier one. The product stays below 2^53 until the year 2242.
const SEQUENCES_PER_SECOND: u64 = 1 << 20;

/// How far the sequence numbers of a restored database skip when the clock is behind the backup.
const SKIPPED_WITHOUT_CLOCK: u64 = 1 << 44;

/// How much of a table is copied between two reports of progress, in bytes.
const COPIED_AT_A_TIME: usize = 4 * 1024 * 1024;

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
    /// must not be used. Calls `progress` with the share of the backup that is copied, from 0 to 1.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Damaged`] when the backup is, [`RestoreError::NotWhole`] when the archive is not whole up to the moment,
    /// and [`RestoreError::Unusable`] when the folder has a database, a disk fails, or there is no such moment.
    pub fn restore(
        &self,
        directory: &Path,
        replay: Option<&Replay>,
        progress: &dyn Fn(f64),
    ) -> Result<Restored, RestoreError> {
        let proved = self.tables().and_then(|tables| check_all(&tables));
        proved.map_err(RestoreError::damaged)?;
        let mut restoring = self.copy(directory, progress).map_err(RestoreError::unusable)?;
        if let Some(replay) = replay {
            restoring.replay(replay)?;
        }
        restoring.prove().map_err(RestoreError::damaged)?;
        restoring.finish().map_err(RestoreError::unusable)
    }

    /// Proves that an archive continues this backup up to a moment, without restoring anything. Returns that moment.
    ///
    /// # Errors
    ///
    /// Those of [`Self::restore`].
    pub fn verify_archive(&self, replay: &Replay) -> Result<Position, RestoreError> {
        let Manifest { event_log, totals, .. } = self.manifest;
        let mut history = History::after(replay, event_log, totals)?;
        while history.next()?.is_some() {}
        Ok(history.position())
    }

    /// Makes a database of the tables. The manifest is not yet the final one.
    fn copy(&self, directory: &Path, progress: &dyn Fn(f64)) -> anyhow::Result<Restoring> {
        make_directory(directory)?;
        let files = Files::in_directory(directory, Arc::default());
        ensure!(!files.has_database()?, "there is a database in {}", directory.display());
        files.make()?;
        let log_salts = write_ahead_log::make(directory)?;
        let all: u64 = self.manifest.tables.iter().map(|table| table.bytes).sum();
        let (mut copied, mut buffer) = (0, vec![0; COPIED_AT_A_TIME]);
        for (table, begin) in self.manifest.tables.iter().zip(&self.offsets) {
            let path = files.table_path(table.number);
            let mut copy = || {
                let mut to = create(&path)?;
                let (mut at, end) = (*begin, begin + table.bytes);
                while at < end {
                    let length = usize::try_from(end - at)?.min(buffer.len());
                    let part = &mut buffer[..length];
                    self.file.read_exact_at(part, at)?;
                    to.write_all(part)?;
                    at += length as u64;
                    copied += length as u64;
                    progress(copied as f64 / all as f64);
                }
                anyhow::Ok(to.sync_all()?)
            };
            copy().with_context(|| format!("cannot copy a table to {}", path.display()))?;
        }
        files.sync_tables_directory()?;

        let cache = BlockCache::new(CACHE_BYTES);
        let manifest = Manifest { log_salts, ..self.manifest.clone() };
        let tables = open_tables(&files, &manifest, &cache)?;
        let tree = Arc::new(MergeTree::new(tables, manifest.totals));
        let retention = EventRetention::new(0, Duration::ZERO);
        let events = EventLog { tree: Arc::clone(&tree), id: manifest.event_log, retention };
        // On a full disk, an error is better than a wait for room.
        let free_bytes = |_: &File| None;
        let room =
            Room::new(free_bytes, File::open(directory)?, directory.to_owned(), Arc::default());
        let compactor = Compactor {
            files,
            manifest,
            tree,
            cache,
            metrics: Arc::default(),
            events,
            room: Arc::new(room),
            merges: Vec::new(),
        };
        Ok(Restoring { directory: directory.to_owned(), compactor })
    }
}

/// A database that is being restored.
struct Restoring {
    directory: PathBuf,
    compactor: Compactor,
}

impl Restoring {
    /// Makes the changes in an archive, as the commit thread and the compaction thread made them.
    fn replay(&mut self, replay: &Replay) -> Result<(), RestoreError> {
        let Manifest { event_log, totals, .. } = self.compactor.manifest;
        let mut history = History::after(replay, event_log, totals)?;
        while let Some(group) = history.next()? {
            self.compactor.tree.apply(group).map_err(RestoreError::unusable)?;
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
        while self.compactor.advance()? {}
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
