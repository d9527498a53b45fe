//! Compaction: an immutable memtable becomes a table, and tables of similar size are merged into one.

use std::sync::Arc;

use anyhow::Context as _;

use super::cache::BlockCache;
use super::change::Totals;
use super::files::Files;
use super::keys;
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::merge::{Merge, Tables};
use super::room::Room;
use super::size_tiers::tables_to_merge;
use super::table::{Content, Table};
use super::table_writer::{TableFile, TableWriter};
use super::tree::{MergeTree, with_newest};
use crate::fault;

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
    /// The merges under way; the last one advances. A merge of newer tables interrupts one of older tables, which may take
    /// minutes, so that small tables do not pile up behind it.
    pub(super) merges: Vec<MergeUnderWay>,
}

impl Compactor {
    /// Writes a memtable, whose last event leads to `totals`, as a table.
    pub(super) fn flush(&mut self, memtable: &Memtable, totals: Totals) -> anyhow::Result<()> {
        self.room.wait().context("waiting for room on the disk")?;
        let shown_from = (totals.last_sequence + 1).saturating_sub(self.keep_events).max(1);
        let totals = Totals { kept_from: totals.kept_from.max(shown_from), ..totals };
        let table = write_table(&self.files, &mut self.manifest, memtable, totals, &self.cache)?;
        let kept_from = totals.kept_from;
        self.tree.flushed(with_newest(&self.tree.tables(), table), kept_from);
        fault::point("after-flush");
        Ok(())
    }

    /// Looks at the room on the disk, and advances the merges a little. Returns false when there is nothing to merge now.
    pub(super) fn advance(&mut self) -> anyhow::Result<bool> {
        self.room.look();
        self.begin_merge()?;
        let Some(mut merge) = self.merges.pop() else { return Ok(false) };
        if self.room.is_full() {
            self.abandon(merge)?;
            return Ok(true);
        }
        fault::point("before-merge-step");
        if merge.advance()? {
            self.merges.push(merge);
        } else {
            self.end_merge(merge)?;
        }
        Ok(true)
    }

    /// Begins to merge the tables that should be one, if there are any newer than those in merges, and the disk has
    /// room.
    fn begin_merge(&mut self) -> anyhow::Result<()> {
        let tables = self.tree.tables();
        let is_free = |table: &&Arc<Table>| self.merges.iter().all(|merge| !merge.has_input(table));
        let free = tables.iter().take_while(is_free);
        let sizes: Vec<_> = free.map(|table| (table.entry.bytes, table.plants)).collect();
        let Some(inputs) = tables_to_merge(&sizes, self.manifest.totals.plants) else {
            return Ok(());
        };
        let is_oldest = inputs.end == tables.len();
        let inputs: Tables = tables[inputs].into();
        let bytes = inputs.iter().map(|table| table.entry.bytes).sum();
        if !self.room.has_room_for(bytes) {
            return Ok(());
        }
        let number = self.manifest.next_table;
        self.manifest.next_table += 1;
        let plants: u64 = inputs.iter().map(|table| table.plants).sum();
        let file = self.files.create_table(number)?;
        self.merges.push(MergeUnderWay {
            entries: Merge::of_all(&inputs),
            output: TableWriter::new(file, usize::try_from(plants)?),
            inputs,
            number,
            is_oldest,
            kept_from: self.manifest.totals.kept_from,
        });
        Ok(())
    }

    /// Puts the result of a merge in the place of its inputs.
    fn end_merge(&mut self, merge: MergeUnderWay) -> anyhow::Result<()> {
        let mut tables = self.tree.tables().to_vec();
        let place = tables.iter().position(|table| merge.has_input(table)).unwrap_or(0);
        tables.retain(|table| !merge.has_input(table));
        let MergeUnderWay { inputs, output, number, .. } = merge;
        let first = inputs.last().map_or(0, |oldest| oldest.sequences.0);
        let last = inputs.first().map_or(0, |newest| newest.sequences.1);
        let ended = end_table(&self.files, output, number, (first, last), &self.cache);
        tables.insert(place, Arc::new(ended.context("merging tables")?));

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

    /// Gives the room of an unfinished merge back.
    fn abandon(&self, merge: MergeUnderWay) -> anyhow::Result<()> {
        let number = merge.number;
        drop(merge);
        self.files.remove_table(number)
    }

    /// Gives the room of all unfinished merges back.
    pub(super) fn abandon_all(&mut self) -> anyhow::Result<()> {
        std::mem::take(&mut self.merges).into_iter().try_for_each(|merge| self.abandon(merge))
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
    let table = end_table(files, table, number, memtable.sequences(), cache)?;
    manifest.next_table += 1;
    manifest.totals = totals;
    manifest.tables.insert(0, table.entry);
    files.write_manifest(manifest)?;
    Ok(table)
}

/// Ends a table and opens it. Returns when its file and the name of the file are on disk.
fn end_table(
    files: &Files,
    table: TableWriter<TableFile>,
    number: u64,
    sequences: (u64, u64),
    cache: &Arc<BlockCache>,
) -> anyhow::Result<Table> {
    let (file, entry) = table.finish(number, sequences)?;
    let path = file.finish()?;
    fault::point("after-table-sync");
    files.sync_tables_directory()?;
    Table::open(number, Content::of_file(&path)?, Some(&entry), Arc::clone(cache))
}

/// A merge of which some entries are written.
pub(super) struct MergeUnderWay {
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
    fn has_input(&self, table: &Table) -> bool {
        self.inputs.iter().any(|input| input.entry.number == table.entry.number)
    }

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
