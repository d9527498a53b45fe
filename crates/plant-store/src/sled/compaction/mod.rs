//! Compaction: flushes immutable memtables to tables, and merges tables of similar size.

pub(crate) mod merge;
mod merge_under_way;
pub(crate) mod size_tiers;
pub(crate) mod table_builder;
pub(crate) mod thread;

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;

use self::merge::Tables;
use self::merge_under_way::MergeUnderWay;
use self::size_tiers::tables_to_merge;
use crate::fault;
use crate::sled::commit::change::Totals;
use crate::sled::events::EventLog;
use crate::sled::files::Files;
use crate::sled::health::disk_space::DiskSpace;
use crate::sled::health::metrics::EngineMetrics;
use crate::sled::manifest::Manifest;
use crate::sled::memtable::Memtable;
use crate::sled::tables::Table;
use crate::sled::tree::{MergeTree, with_newest};

/// The interval between checks of the running merges.
pub(crate) const MERGE_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The only writer of the manifest of an open database. Only its thread and those of its merges write tables.
pub(crate) struct Compactor {
    pub(crate) files: Files,
    pub(crate) manifest: Manifest,
    pub(crate) tree: Arc<MergeTree>,
    events: EventLog,
    disk_space: Arc<DiskSpace>,
    metrics: Arc<EngineMetrics>,
    /// Several, because a merge of older tables may take minutes, and newer tables must not pile up meanwhile.
    merges: Vec<MergeUnderWay>,
}

impl Compactor {
    /// A compactor of the tables that the manifest names and the tree holds.
    pub(crate) fn new(
        files: Files,
        manifest: Manifest,
        events: EventLog,
        disk_space: Arc<DiskSpace>,
        metrics: Arc<EngineMetrics>,
    ) -> Self {
        let tree = Arc::clone(&events.tree);
        Self { files, manifest, tree, events, disk_space, metrics, merges: Vec::new() }
    }

    /// Flushes a memtable. `totals` are those after its last event.
    pub(crate) fn flush(&mut self, memtable: &Memtable, totals: Totals) -> anyhow::Result<()> {
        // On a full disk, this wait may last for days. A failure of the store ends it.
        loop {
            self.look_at_merges()?;
            if !self.disk_space.is_full() {
                break;
            }
            self.disk_space.pause().context("waiting for room on the disk")?;
        }
        let begun = Instant::now();
        let stored_from = self.events.stored_from(&totals, SystemTime::now())?;
        let totals = totals.forgetting_before(stored_from);
        let table = write_table(&self.files, &mut self.manifest, memtable, totals)?;
        self.tree.flushed(with_newest(&self.tree.tables(), table), stored_from);
        self.metrics.flush_seconds.inc_by(begun.elapsed().as_secs_f64());
        fault::point("after-flush");
        Ok(())
    }

    /// Checks the disk space and the merges: ends a finished one, and begins one that is due. On a full disk, abandons
    /// all others, whose files must not keep the disk full. Returns whether there are merges.
    pub(crate) fn look_at_merges(&mut self) -> anyhow::Result<bool> {
        if let Some(done) = self.merges.iter().position(MergeUnderWay::is_done) {
            let merge = self.merges.remove(done);
            self.end_merge(merge)?;
        }
        self.disk_space.look();
        if self.disk_space.is_full() {
            self.merges.iter().for_each(MergeUnderWay::abandon);
        } else {
            self.begin_merge()?;
        }
        Ok(!self.merges.is_empty())
    }

    /// Begins a merge if one is due among the tables newer than those being merged, and the disk has room.
    fn begin_merge(&mut self) -> anyhow::Result<()> {
        let tables = self.tree.tables();
        let is_free = |table: &&Arc<Table>| self.merges.iter().all(|merge| !merge.has_input(table));
        let free: Vec<_> = tables.iter().take_while(is_free).collect();
        let size = |table: &&Arc<Table>| (table.block_bytes(), table.summary.plant_entries);
        let sizes: Vec<_> = free.iter().map(size).collect();
        let Some(mut inputs) = tables_to_merge(&sizes, self.manifest.totals.plants) else {
            return Ok(());
        };
        let bytes_of = |inputs: &[&Arc<Table>]| -> u64 {
            inputs.iter().map(|input| input.metadata.bytes).sum()
        };
        let of_merges: Vec<_> = self.merges.iter().flat_map(|merge| merge.inputs.iter()).collect();
        // On a small disk, only the newer inputs may fit.
        while !self.disk_space.has_room_for(bytes_of(&of_merges) + bytes_of(&free[inputs.clone()]))
        {
            inputs.end -= 1;
            if inputs.len() < 2 {
                return Ok(());
            }
        }
        let is_oldest = inputs.end == tables.len();
        let inputs: Tables = tables[inputs].into();
        let number = self.manifest.next_table;
        self.manifest.next_table += 1;
        let history_from = self.manifest.totals.history_from;
        let (files, metrics) = (self.files.clone(), Arc::clone(&self.metrics));
        match MergeUnderWay::begin(files, metrics, number, inputs, is_oldest, history_from) {
            Ok(merge) => self.merges.push(merge),
            // The system has no thread left for now.
            Err(cause) => log::warn!("tables are merged later: {cause:#}"),
        }
        Ok(())
    }

    /// Replaces the inputs of a merge by its result, or removes what an abandoned merge has written.
    fn end_merge(&mut self, mut merge: MergeUnderWay) -> anyhow::Result<()> {
        let Some(table) = merge.end()? else { return self.files.remove_table(merge.number) };
        let mut tables = self.tree.tables().to_vec();
        let place = tables.iter().position(|table| merge.has_input(table));
        let place = place.context("the inputs of a merge are not in the tree")?;
        tables.retain(|table| !merge.has_input(table));
        tables.insert(place, Arc::new(table));

        self.manifest.tables = tables.iter().map(|table| table.metadata).collect();
        self.files.write_manifest(&self.manifest)?;
        fault::point("before-merge-shown");
        self.tree.merged(tables.into());
        // Oldest first: a tombstone in a newer input must outlive what it hides, for an export without the manifest.
        for input in merge.inputs.iter().rev() {
            fault::point("before-input-removed");
            // Readers may still have the table open.
            self.files.remove_table(input.metadata.number)?;
        }
        fault::point("after-merge");
        Ok(())
    }

    /// Abandons all merges, and removes what they have written.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.merges.iter().for_each(MergeUnderWay::abandon);
        mem::take(&mut self.merges).into_iter().try_for_each(|merge| {
            let number = merge.number;
            drop(merge);
            self.files.remove_table(number)
        })
    }
}

/// Writes a memtable as a table, and the manifest that names the table. Both are on disk when this returns.
pub(crate) fn write_table(
    files: &Files,
    manifest: &mut Manifest,
    memtable: &Memtable,
    totals: Totals,
) -> anyhow::Result<Table> {
    let number = manifest.next_table;
    fault::point("before-table-write");
    let mut table = files.create_table(number, memtable.plants.len(), files.advances())?;
    memtable.write_to(&mut table, totals.history_from).context("writing a table")?;
    let metadata = files.seal(table.finish(memtable.sequences())?, number)?;
    let table = files.open_table(metadata)?;
    manifest.next_table += 1;
    manifest.totals = totals;
    manifest.tables.insert(0, metadata);
    files.write_manifest(manifest)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use plant_domain::PlantId;
    use tempfile::TempDir;

    use super::*;
    use crate::record::PlantRecord;
    use crate::sled::commit::change::{Change, ChangeGroup, Origin};
    use crate::sled::health::StoreHealth;
    use crate::sled::health::disk_space::{ENOUGH_BYTES, FreeRoom};
    use crate::sled::reader::PlantReader;
    use crate::{EventKind, EventRetention};

    /// Enough for a merge of four memtables to take some tenths of a second.
    const PLANTS_OF_A_MEMTABLE: usize = 20_000;

    /// Flushes a memtable of new plants.
    fn flush_next(compactor: &mut Compactor) {
        let mut group = ChangeGroup::after(&compactor.tree.read().totals, 0);
        for revision in (group.first_sequence..).take(PLANTS_OF_A_MEMTABLE) {
            let id = PlantId::from(revision.cast_signed());
            let record = PlantRecord { tag: Some("R"), ..PlantRecord::named("Rosa", revision) };
            let record = record.encode().expect("encodes");
            let created = EventKind::Created;
            let change = Change::new(created, id, Origin::default(), None, Some(record));
            group.changes.push(change);
        }
        compactor.tree.apply(&group).expect("it follows");
        let (memtable, totals) = compactor.tree.freeze().expect("the last one is a table");
        compactor.flush(&memtable, totals).expect("writes");
    }

    fn wait_until(is_reached: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_reached() {
            assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain");
            thread::yield_now();
        }
    }

    struct RoomOnDrop(&'static AtomicU64);

    impl Drop for RoomOnDrop {
        fn drop(&mut self) {
            self.0.store(u64::MAX, Ordering::Relaxed);
        }
    }

    fn room_of(free_bytes: &AtomicU64) -> FreeRoom {
        FreeRoom { bytes: free_bytes.load(Ordering::Relaxed), ..FreeRoom::UNKNOWN }
    }

    /// A compactor with four tables, which are due to be merged.
    fn with_four_tables(free_room: fn(&File) -> FreeRoom) -> (TempDir, Compactor) {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().to_owned();
        let tree = Arc::new(MergeTree::new([].into(), Totals::default()));
        let retention = EventRetention::new(1, Duration::ZERO);
        let health = Arc::new(StoreHealth::default());
        let files = Files::in_directory(&directory, 0, Arc::clone(&health));
        files.make().expect("an empty folder");
        let lock = tempfile::tempfile().expect("a file");
        let events = EventLog { tree, id: 7, retention };
        let disk_space = Arc::new(DiskSpace::new(free_room, lock, directory, health));
        let manifest = Manifest::new([0; 16], 7);
        let mut compactor = Compactor::new(files, manifest, events, disk_space, Arc::default());
        (0..4).for_each(|_| flush_next(&mut compactor));
        (folder, compactor)
    }

    #[test]
    fn a_merge_that_does_not_fit_on_the_disk_takes_the_newer_tables_that_do() {
        static FREE: AtomicU64 = AtomicU64::new(u64::MAX);
        let (_folder, mut compactor) = with_four_tables(|_| room_of(&FREE));
        let tables = compactor.tree.tables();
        let two_newest: u64 = tables[..2].iter().map(|table| table.metadata.bytes).sum();
        for (free_bytes, inputs) in [(two_newest - 1, None), (two_newest, Some(2))] {
            FREE.store(ENOUGH_BYTES + free_bytes, Ordering::Relaxed);
            compactor.begin_merge().expect("looks");
            assert_eq!(compactor.merges.first().map(|merge| merge.inputs.len()), inputs);
        }
        assert!(compactor.merges[0].has_input(&tables[0]));
        while compactor.look_at_merges().expect("merges") {}
        assert_eq!(compactor.tree.tables().len(), 3);
        let reader = PlantReader { tree: compactor.tree, plants_scanned_first: 1 };
        let with_tag = reader.count_with_tag("R").expect("reads");
        assert_eq!(with_tag, 4 * PLANTS_OF_A_MEMTABLE as u64, "a count is lost");
    }

    #[test]
    fn a_merge_that_is_done_when_the_disk_fills_frees_the_room_of_its_inputs() {
        static FREE: AtomicU64 = AtomicU64::new(u64::MAX);
        let (_folder, mut compactor) = with_four_tables(|_| room_of(&FREE));
        compactor.begin_merge().expect("begins");
        wait_until(|| compactor.merges[0].is_done());
        FREE.store(0, Ordering::Relaxed);
        assert!(!compactor.look_at_merges().expect("ends"), "the disk is full");
        assert_eq!(compactor.tree.tables().len(), 1);
    }

    #[test]
    fn a_memtable_that_waits_for_room_waits_without_unfinished_merges() {
        static FREE: AtomicU64 = AtomicU64::new(u64::MAX);
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        let free_room = |_: &File| {
            LOOKS.fetch_add(1, Ordering::Relaxed);
            room_of(&FREE)
        };
        let (folder, mut compactor) = with_four_tables(free_room);
        let tables = || fs::read_dir(folder.path().join("tables")).expect("reads").count();
        compactor.begin_merge().expect("begins");
        wait_until(|| tables() > 4);
        FREE.store(0, Ordering::Relaxed);
        thread::scope(|scope| {
            // The scope waits for the flush even if an assertion fails, so the room must come back.
            let _room = RoomOnDrop(&FREE);
            let flushing = scope.spawn(|| flush_next(&mut compactor));
            wait_until(|| tables() <= 4);
            // A waiting flush checks the room again and again.
            let looks = LOOKS.load(Ordering::Relaxed);
            wait_until(|| LOOKS.load(Ordering::Relaxed) >= looks + 3);
            assert!(!flushing.is_finished(), "the memtable was written to a full disk");
            assert_eq!(tables(), 4, "something writes to a full disk");
        });
        assert_eq!(compactor.tree.tables().len(), 5, "the merge went on while the disk was full");
        while compactor.look_at_merges().expect("merges") {}
        assert_eq!(compactor.tree.tables().len(), tables());
    }
}
