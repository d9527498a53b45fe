//! Compaction: an immutable memtable becomes a table, and tables of similar size are merged into one.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, bail};

use super::cache::BlockCache;
use super::change::Totals;
use super::event_log::EventLog;
use super::files::Files;
use super::keys;
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::merge::{Merge, Tables};
use super::metrics::DiskMetrics;
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
    pub(super) events: EventLog,
    pub(super) room: Arc<Room>,
    pub(super) metrics: Arc<DiskMetrics>,
    /// The merges under way; the last one advances. A merge of newer tables interrupts one of older tables, which may take
    /// minutes, so that small tables do not pile up behind it.
    pub(super) merges: Vec<MergeUnderWay>,
}

impl Compactor {
    /// Writes a memtable, whose last event leads to `totals`, as a table.
    pub(super) fn flush(&mut self, memtable: &Memtable, totals: Totals) -> anyhow::Result<()> {
        if self.disk_is_full()? {
            self.room.wait().context("waiting for room on the disk")?;
        }
        let begun = Instant::now();
        let stored_from = self.events.stored_from(&totals, SystemTime::now())?;
        let totals = Totals { stored_from, ..totals };
        let table = write_table(&self.files, &mut self.manifest, memtable, totals, &self.cache)?;
        self.tree.flushed(with_newest(&self.tree.tables(), table), stored_from);
        self.metrics.flush_seconds.inc_by(begun.elapsed().as_secs_f64());
        fault::point("after-flush");
        Ok(())
    }

    /// Looks at the room on the disk, and advances the merges a little. Returns false when there is nothing to merge now.
    pub(super) fn advance(&mut self) -> anyhow::Result<bool> {
        if self.disk_is_full()? {
            return Ok(false);
        }
        let begun = Instant::now();
        self.begin_merge()?;
        let Some(mut merge) = self.merges.pop() else { return Ok(false) };
        fault::point("before-merge-step");
        if merge.advance()? {
            self.merges.push(merge);
        } else {
            self.end_merge(merge)?;
        }
        self.metrics.merge_seconds.inc_by(begun.elapsed().as_secs_f64());
        Ok(true)
    }

    /// Begins to merge the tables that should be one, if there are any newer than those in merges, and the disk has
    /// room.
    fn begin_merge(&mut self) -> anyhow::Result<()> {
        let tables = self.tree.tables();
        let is_free = |table: &&Arc<Table>| self.merges.iter().all(|merge| !merge.has_input(table));
        let free = tables.iter().take_while(is_free);
        let sizes: Vec<_> = free.map(|table| (table.metadata.bytes, table.plant_entries)).collect();
        let Some(mut inputs) = tables_to_merge(&sizes, self.manifest.totals.plants) else {
            return Ok(());
        };
        // On a small disk, the newer ones alone may fit.
        while !self.room.has_room_for(sizes[inputs.clone()].iter().map(|(bytes, _)| bytes).sum()) {
            inputs.end -= 1;
            if inputs.len() < 2 {
                return Ok(());
            }
        }
        let is_oldest = inputs.end == tables.len();
        let inputs: Tables = tables[inputs].into();
        let number = self.manifest.next_table;
        self.manifest.next_table += 1;
        let plants: u64 = inputs.iter().map(|table| table.plant_entries).sum();
        let file = self.files.create_table(number)?;
        self.merges.push(MergeUnderWay {
            entries: Merge::of_all(&inputs),
            output: TableWriter::new(file, usize::try_from(plants)?),
            inputs,
            number,
            is_oldest,
            stored_from: self.manifest.totals.stored_from,
        });
        Ok(())
    }

    /// Puts the result of a merge in the place of its inputs.
    fn end_merge(&mut self, merge: MergeUnderWay) -> anyhow::Result<()> {
        let mut tables = self.tree.tables().to_vec();
        let place = tables.iter().position(|table| merge.has_input(table));
        let place = place.context("the inputs of a merge are not in the tree")?;
        tables.retain(|table| !merge.has_input(table));
        let MergeUnderWay { inputs, output, number, .. } = merge;
        let (Some(newest), Some(oldest)) = (inputs.first(), inputs.last()) else {
            bail!("a merge without inputs");
        };
        let sequences = (oldest.sequences.0, newest.sequences.1);
        let ended = end_table(&self.files, output, number, sequences, &self.cache);
        tables.insert(place, Arc::new(ended.context("merging tables")?));

        self.manifest.tables = tables.iter().map(|table| table.metadata).collect();
        self.files.write_manifest(&self.manifest)?;
        fault::point("before-merge-shown");
        self.tree.merged(tables.into());
        // Oldest first: a removal in a newer input must outlive what it hides, for an export without the manifest.
        for input in inputs.iter().rev() {
            fault::point("before-input-removed");
            // Readers may still have the file open.
            self.files.remove_table(input.metadata.number)?;
        }
        fault::point("after-merge");
        Ok(())
    }

    /// Measures the free space. On a full disk, abandons all unfinished merges: their files must not keep the disk full.
    fn disk_is_full(&mut self) -> anyhow::Result<bool> {
        self.room.look();
        let is_full = self.room.is_full();
        if is_full {
            self.abandon_merges()?;
        }
        Ok(is_full)
    }

    /// Ends all unfinished merges, and removes their files.
    pub(super) fn abandon_merges(&mut self) -> anyhow::Result<()> {
        self.merges.drain(..).try_for_each(|merge| self.files.remove_table(merge.number))
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
    memtable.write_to(&mut table, totals.stored_from).context("writing a table")?;
    let table = end_table(files, table, number, memtable.sequences(), cache)?;
    manifest.next_table += 1;
    manifest.totals = totals;
    manifest.tables.insert(0, table.metadata);
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
    stored_from: u64,
}

impl MergeUnderWay {
    fn has_input(&self, table: &Table) -> bool {
        self.inputs.iter().any(|input| input.metadata.number == table.metadata.number)
    }

    /// Merges some entries. Returns false after the last one.
    fn advance(&mut self) -> anyhow::Result<bool> {
        for _ in 0..ENTRIES_IN_A_STEP {
            self.entries.advance().context("merging tables")?;
            let counted = self.entries.tag_count().context("merging tables")?;
            let Some((key, value)) = self.entries.entry() else { return Ok(false) };
            if let Some((_, count)) = counted {
                if count != 0 {
                    let value = postcard::to_stdvec(&count)?;
                    self.output.add(key, Some(&value)).context("merging tables")?;
                }
                continue;
            }
            let is_forgotten =
                keys::event_of(key)?.is_some_and(|sequence| sequence < self.stored_from);
            let hides_nothing = value.is_none() && self.is_oldest;
            if !is_forgotten && !hides_nothing {
                self.output.add(key, value).context("merging tables")?;
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use plant_domain::PlantId;

    use super::super::change::{Change, ChangeGroup};
    use super::super::health::StoreHealth;
    use super::super::reader::DiskReader;
    use super::super::room::ENOUGH_BYTES;
    use super::*;
    use crate::plant_record::PlantRecord;
    use crate::{EventCursor, EventRetention, EventsAfter};

    /// So many that a merge of four memtables takes more than one step.
    const PLANTS_OF_A_MEMTABLE: usize = 1_000;

    /// Writes a memtable of new plants as a table.
    fn flush_next(compactor: &mut Compactor) {
        let mut group = ChangeGroup::after(&compactor.tree.read().totals, 0);
        for revision in (group.first_sequence..).take(PLANTS_OF_A_MEMTABLE) {
            let id = PlantId::from(revision.cast_signed());
            let record = PlantRecord { revision, idempotency: None, name: "Rosa", tag: Some("R") };
            let record = record.encode().expect("encodes");
            group.changes.push(Change::new(id, None, Some(record)).expect("a change"));
        }
        compactor.tree.apply(group).expect("it follows");
        let (memtable, totals) = compactor.tree.freeze().expect("the last one is a table");
        compactor.flush(&memtable, totals).expect("writes");
    }

    fn compactor(directory: &Path, free_bytes: fn(&std::fs::File) -> Option<u64>) -> Compactor {
        let tree = Arc::new(MergeTree::new([].into(), Totals::default()));
        let retention = EventRetention::new(1, Duration::ZERO);
        let health = Arc::new(StoreHealth::default());
        let files = Files::in_directory(directory, Arc::clone(&health));
        files.make().expect("an empty folder");
        let file = tempfile::tempfile().expect("a file");
        Compactor {
            files,
            manifest: Manifest::new([0; 16], 7),
            tree: Arc::clone(&tree),
            cache: BlockCache::new(0),
            events: EventLog { tree, id: 7, retention },
            room: Arc::new(Room::new(free_bytes, file, directory.to_owned(), health)),
            metrics: Arc::default(),
            merges: Vec::new(),
        }
    }

    #[test]
    fn a_lost_cursor_is_refused_also_if_it_is_the_one_before_the_oldest_kept_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut compactor = compactor(folder.path(), |_| Some(u64::MAX));
        (0..2).for_each(|_| flush_next(&mut compactor));
        // Only this event is kept. The one before has the same time.
        let EventCursor { revision, log } = compactor.events.newest();
        let is_known = |log| {
            let cursor = EventCursor { revision: (revision.get() - 1).into(), log };
            compactor.events.page(EventsAfter::Cursor(cursor), 1).expect("reads").is_some()
        };
        assert!(is_known(log));
        assert!(!is_known(log ^ 1), "a cursor of another time is taken");
    }

    #[test]
    fn a_merge_that_does_not_fit_on_the_disk_takes_the_newer_tables_that_do() {
        static FREE: AtomicU64 = AtomicU64::new(u64::MAX);
        let folder = tempfile::tempdir().expect("a folder");
        let mut compactor = compactor(folder.path(), |_| Some(FREE.load(Ordering::Relaxed)));
        (0..4).for_each(|_| flush_next(&mut compactor));
        let tables = compactor.tree.tables();
        let two_newest: u64 = tables[..2].iter().map(|table| table.metadata.bytes).sum();
        for (free_bytes, inputs) in [(two_newest - 1, None), (two_newest, Some(2))] {
            FREE.store(ENOUGH_BYTES + free_bytes, Ordering::Relaxed);
            compactor.begin_merge().expect("looks");
            assert_eq!(compactor.merges.first().map(|merge| merge.inputs.len()), inputs);
        }
        assert!(compactor.merges[0].has_input(&tables[0]) && !compactor.merges[0].is_oldest);
        while compactor.advance().expect("merges") {}
        assert_eq!(compactor.tree.tables().len(), 3);
        let reader = DiskReader { tree: compactor.tree, plants_scanned_first: 1 };
        let with_tag = reader.count_with_tag("R").expect("reads");
        assert_eq!(with_tag, 4 * PLANTS_OF_A_MEMTABLE as u64, "a count is lost");
    }

    #[test]
    fn a_memtable_that_waits_for_room_waits_without_unfinished_merges() {
        static FREE: AtomicU64 = AtomicU64::new(u64::MAX);
        let folder = tempfile::tempdir().expect("a folder");
        let mut compactor = compactor(folder.path(), |_| Some(FREE.load(Ordering::Relaxed)));
        for merges in 1..=2 {
            (0..4).for_each(|_| flush_next(&mut compactor));
            assert!(compactor.advance().expect("merges"));
            assert_eq!(compactor.merges.len(), merges, "the second merge interrupts the first");
        }
        let files = compactor.files.clone();
        let tables = || files.table_numbers().expect("reads").len();
        assert_eq!(tables(), 8 + 2);
        FREE.store(0, Ordering::Relaxed);
        thread::scope(|scope| {
            let flushing = scope.spawn(|| flush_next(&mut compactor));
            let begun = Instant::now();
            while tables() > 8 && begun.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            let (left, is_waiting) = (tables(), !flushing.is_finished());
            // The end of the scope waits for the flush, also when an assertion fails.
            FREE.store(u64::MAX, Ordering::Relaxed);
            assert!(left == 8 && is_waiting, "{left} tables");
        });
        assert_eq!(tables(), 9);
        while compactor.advance().expect("merges") {}
        assert_eq!(compactor.tree.tables().len(), tables(), "the merges begin anew");
        assert!(tables() < 9);
    }
}
