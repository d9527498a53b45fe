//! Compaction: an immutable memtable becomes a table, and tables of similar size are merged into one.
//!
//! One thread does both. A merge advances in short steps, so a memtable never waits long. Once the manifest on disk
//! names the table of a memtable, the segment of the write-ahead log with the same changes may be overwritten.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow};

use super::cache::BlockCache;
use super::change::Totals;
use super::files::Files;
use super::health::{LOOK_INTERVAL, StoreHealth};
use super::keys;
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::merge::{Merge, Tables};
use super::room::Room;
use super::table::{Content, Table};
use super::table_writer::{TableFile, TableWriter};
use super::tree::{MergeTree, with_newest};
use crate::fault;

/// How many neighboring tables of similar size are merged.
const TABLES_OF_A_MERGE: usize = 4;

/// Tables are of similar size when they have the same level. A table of the next level has this many times the bytes.
const LEVEL_FACTOR: u64 = 4;

/// A table of at most this many bytes has level 0: about what a full memtable makes.
const LEVEL_0_BYTES: u64 = 12 * 1024 * 1024;

/// All tables are merged when their entries are more than twice the plants, and this many more: updates and removals
/// have then left much that is obsolete.
const OBSOLETE_ENTRIES: u64 = 1_000_000;

/// How many entries a step of a merge takes.
const ENTRIES_IN_A_STEP: usize = 1024;

/// The only writer of tables and of the manifest in an open database.
pub(super) struct Compactor {
    pub(super) files: Files,
    pub(super) manifest: Manifest,
    pub(super) tree: Arc<MergeTree>,
    pub(super) cache: Arc<BlockCache>,
    pub(super) keep_events: u64,
    pub(super) room: Arc<Room>,
}

impl Compactor {
    /// Writes a memtable, whose last event leads to `totals`, as a table.
    fn flush(&mut self, memtable: &Memtable, totals: Totals) -> anyhow::Result<()> {
        self.room.wait().context("waiting for room on the disk")?;
        let shown_from = (totals.last_sequence + 1).saturating_sub(self.keep_events).max(1);
        let totals = Totals { kept_from: totals.kept_from.max(shown_from), ..totals };
        let table = write_table(&self.files, &mut self.manifest, memtable, totals, &self.cache)?;
        let kept_from = totals.kept_from;
        self.tree.flushed(with_newest(&self.tree.tables(), table), kept_from);
        fault::point("after-flush");
        Ok(())
    }

    /// Begins to merge the tables that should be one, if the disk has room for it.
    fn next_merge(&mut self) -> anyhow::Result<Option<MergeUnderWay>> {
        let tables = self.tree.tables();
        let Some(inputs) = tables_to_merge(&tables, self.manifest.totals.plants) else {
            return Ok(None);
        };
        let bytes = tables[inputs.clone()].iter().map(|table| table.entry.bytes).sum();
        if !self.room.has_room_for(bytes) {
            return Ok(None);
        }
        let number = self.manifest.next_table;
        self.manifest.next_table += 1;
        let file = self.files.create_table(number)?;
        let plants: u64 = tables[inputs.clone()].iter().map(|table| table.plants).sum();
        // Tables are never moved, so these stay neighbors.
        let is_oldest = inputs.end == tables.len();
        let inputs = &tables[inputs];
        Ok(Some(MergeUnderWay {
            inputs: inputs.into(),
            entries: Merge::of_all(inputs),
            output: TableWriter::new(file, usize::try_from(plants)?),
            number,
            is_oldest,
            kept_from: self.manifest.totals.kept_from,
        }))
    }

    /// Puts the result of a merge in the place of its inputs.
    fn end_merge(&mut self, merge: MergeUnderWay) -> anyhow::Result<()> {
        let MergeUnderWay { inputs, output, number, .. } = merge;
        let first = inputs.last().map_or(0, |oldest| oldest.sequences.0);
        let last = inputs.first().map_or(0, |newest| newest.sequences.1);
        let (file, entry) = output.finish(number, (first, last))?;
        let path = file.finish()?;
        self.files.sync_tables_directory()?;
        let cache = Arc::clone(&self.cache);
        let table = Table::open(number, Content::of_file(&path)?, Some(&entry), cache)?;
        let table = Arc::new(table);

        let is_input = |number| inputs.iter().any(|input| input.entry.number == number);
        let mut tables: Vec<Arc<Table>> = self.tree.tables().to_vec();
        let place = tables.iter().position(|table| is_input(table.entry.number)).unwrap_or(0);
        tables.retain(|table| !is_input(table.entry.number));
        tables.insert(place, table);
        self.manifest.tables = tables.iter().map(|table| table.entry).collect();
        self.files.write_manifest(&self.manifest)?;
        fault::point("before-merge-shown");
        self.tree.merged(tables.into());
        for input in &*inputs {
            fault::point("before-input-removed");
            // Readers may still have the file open.
            self.files.remove_table(input.entry.number)?;
        }
        fault::point("after-merge");
        Ok(())
    }

    /// Advances the merge under way, or begins one. Returns the merge, unless there is none now.
    fn advance(&mut self, merge: Option<MergeUnderWay>) -> anyhow::Result<Option<MergeUnderWay>> {
        let merge = match merge {
            Some(merge) => Some(merge),
            None => self.next_merge()?,
        };
        let Some(mut merge) = merge else { return Ok(None) };
        self.room.look();
        if self.room.is_full() {
            self.abandon(merge)?;
            return Ok(None);
        }
        fault::point("before-merge-step");
        if merge.advance()? {
            return Ok(Some(merge));
        }
        self.end_merge(merge)?;
        Ok(None)
    }

    /// Gives the room of an unfinished merge back.
    fn abandon(&self, merge: MergeUnderWay) -> anyhow::Result<()> {
        let number = merge.number;
        drop(merge);
        self.files.remove_table(number)
    }
}

/// Writes a memtable as a table, and the manifest that names it. Returns when both are on disk.
pub(super) fn write_table(
    files: &Files,
    manifest: &mut Manifest,
    memtable: &Memtable,
    totals: Totals,
    cache: &Arc<BlockCache>,
) -> anyhow::Result<Table> {
    let number = manifest.next_table;
    fault::point("before-table-write");
    let mut table = TableWriter::new(files.create_table(number)?, memtable.plants.len());
    memtable.write_to(&mut table, totals.kept_from).context("writing a table")?;
    let (file, entry) = table.finish(number, memtable.sequences()).context("writing a table")?;
    let path = file.finish()?;
    fault::point("after-table-sync");
    files.sync_tables_directory()?;
    let table = Table::open(number, Content::of_file(&path)?, Some(&entry), Arc::clone(cache))?;
    manifest.next_table += 1;
    manifest.totals = totals;
    manifest.tables.insert(0, entry);
    files.write_manifest(manifest)?;
    Ok(table)
}

/// Which neighboring tables should be one, if any.
fn tables_to_merge(tables: &Tables, plants: u64) -> Option<std::ops::Range<usize>> {
    let entries: u64 = tables.iter().map(|table| table.plants).sum();
    if tables.len() > 1 && entries > 2 * plants + OBSOLETE_ENTRIES {
        return Some(0..tables.len());
    }
    let levels: Vec<u32> = tables.iter().map(|table| level_of(table.entry.bytes)).collect();
    let greatest = levels.iter().max().copied()?;
    (0..=greatest).find_map(|level| neighbors_up_to(&levels, level))
}

/// The first stretch of enough tables of at most this level.
fn neighbors_up_to(levels: &[u32], level: u32) -> Option<std::ops::Range<usize>> {
    let mut begin = 0;
    for stretch in levels.split(|one| *one > level) {
        if stretch.len() >= TABLES_OF_A_MERGE {
            return Some(begin..begin + stretch.len());
        }
        begin += stretch.len() + 1;
    }
    None
}

fn level_of(bytes: u64) -> u32 {
    (bytes / LEVEL_0_BYTES).checked_ilog(LEVEL_FACTOR).map_or(0, |level| level + 1)
}

struct MergeUnderWay {
    inputs: Tables,
    entries: Merge,
    output: TableWriter<TableFile>,
    number: u64,
    /// Whether no table is older. Then nothing is left for a removal to hide.
    is_oldest: bool,
    /// Older events are left out.
    kept_from: u64,
}

impl MergeUnderWay {
    /// Merges some entries. Returns false after the last one.
    fn advance(&mut self) -> anyhow::Result<bool> {
        for _ in 0..ENTRIES_IN_A_STEP {
            let Some((key, value)) = self.entries.next().context("merging tables")? else {
                return Ok(false);
            };
            let is_forgotten =
                keys::event_of(key)?.is_some_and(|sequence| sequence < self.kept_from);
            let hides_nothing = value.is_none() && self.is_oldest;
            if !is_forgotten && !hides_nothing {
                self.output.add(key, value).context("merging tables")?;
            }
        }
        Ok(true)
    }
}

/// The commit thread's end of the compaction thread. The compaction thread starts with the store, because a commit must
/// not fail when the system can start no more threads.
#[derive(Debug)]
pub(super) struct CompactionThread {
    orders: SyncSender<(Arc<Memtable>, Totals)>,
    /// One report for each memtable that has become a table. Disconnected by a failure.
    reports: Receiver<()>,
    is_flushing: bool,
}

impl CompactionThread {
    /// Starts the thread, which ends when this is dropped. A compaction that fails or panics fails the store at once:
    /// the commit thread may not ask for a report for a long time.
    pub(super) fn start(
        mut compactor: Compactor,
        health: Arc<StoreHealth>,
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        let (orders, ordered) = sync_channel(1);
        let (report, reports) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("plant-compact".to_owned())
            .spawn(move || {
                let run = || compactor.run(&ordered, &report, &health);
                let ended = panic::catch_unwind(AssertUnwindSafe(run))
                    .unwrap_or_else(|_| Err(anyhow!("it panicked")));
                if let Err(cause) = ended {
                    health.fail(cause.context("a compaction failed"));
                }
            })
            .context("cannot start the compaction thread")?;
        Ok((Self { orders, reports, is_flushing: false }, thread))
    }

    /// Begins to write a memtable, whose last event leads to `totals`, as a table. The one before must be written.
    pub(super) fn begin(&mut self, memtable: Arc<Memtable>, totals: Totals) -> anyhow::Result<()> {
        self.orders.send((memtable, totals)).map_err(|_| thread_has_ended())?;
        self.is_flushing = true;
        Ok(())
    }

    /// Whether a memtable is still being written.
    pub(super) fn is_flushing(&mut self) -> bool {
        self.is_flushing &= self.reports.try_recv().is_err();
        self.is_flushing
    }

    /// Waits until the last memtable is a table. Returns false at once when the disk is full: that may then take days.
    pub(super) fn wait(&mut self, room: &Room) -> anyhow::Result<bool> {
        while self.is_flushing {
            match self.reports.recv_timeout(LOOK_INTERVAL) {
                Ok(()) => self.is_flushing = false,
                Err(RecvTimeoutError::Timeout) if room.is_full() => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread_has_ended()),
            }
        }
        Ok(true)
    }
}

impl Compactor {
    /// Carries out orders until there will be no more, and merges tables in between.
    fn run(
        &mut self,
        orders: &Receiver<(Arc<Memtable>, Totals)>,
        report: &SyncSender<()>,
        health: &StoreHealth,
    ) -> anyhow::Result<()> {
        let mut merge = None;
        loop {
            merge = self.advance(merge)?;
            health.compaction_advances();
            let order = match merge {
                Some(_) => orders.try_recv(),
                None => orders.recv_timeout(LOOK_INTERVAL).map_err(|error| match error {
                    RecvTimeoutError::Timeout => TryRecvError::Empty,
                    RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                }),
            };
            match order {
                Ok((memtable, totals)) => {
                    self.flush(&memtable, totals)?;
                    if report.send(()).is_err() {
                        return merge.map_or(Ok(()), |merge| self.abandon(merge));
                    }
                }
                Err(TryRecvError::Empty) if merge.is_none() => self.room.look(),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return merge.map_or(Ok(()), |merge| self.abandon(merge));
                }
            }
        }
    }
}

fn thread_has_ended() -> anyhow::Error {
    anyhow!("the compaction thread has ended")
}
