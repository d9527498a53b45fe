//! Compaction: an immutable memtable goes into sled's blocks, and a checkpoint brings sled to the disk, so that the
//! segment of the write-ahead log may be overwritten.

use std::fs::File;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow, ensure};

use super::blocks::{self, BlocksLock};
use super::health::{LOOK_INTERVAL, StoreHealth};
use super::layout::{
    self, EVENT_PREFIX, EVENTS_IN_A_RECORD, MANIFEST_KEY, Manifest, PLANT_PREFIX, SYNCED_KEY,
    decode_events, event_key, event_sequence, first_of_record, tag_blocks_prefix,
};
use super::memtable::Memtable;
use super::ordered_map::Db;
use super::ordered_map::paced::PacedDb;
use super::room::Room;
use super::tree::MergeTree;
use crate::fault;
use crate::plant_record::EncodedPlant;

/// The only writer to sled in an open database.
pub(super) struct Compactor {
    pub(super) db: PacedDb,
    pub(super) file: File,
    pub(super) tree: Arc<MergeTree>,
    pub(super) keep_events: u64,
    pub(super) room: Arc<Room>,
}

impl Compactor {
    fn compact(
        &self,
        memtable: &Memtable,
        manifest: Manifest,
        health: &StoreHealth,
    ) -> anyhow::Result<()> {
        let step = || health.compaction_advances();
        self.db.wait_for_room().context("waiting for room on the disk")?;
        let manifest =
            compact(&self.db, &self.tree.blocks, memtable, manifest, self.keep_events, step)?;
        step();
        checkpoint(&self.db, &self.file)?;
        write_synced(&self.db, &manifest)?;
        fault::point("before-folded");
        self.tree.memtables.compacted(manifest.kept_from);
        fault::point("after-folded");
        Ok(())
    }
}

/// The commit thread's end of the compaction thread. The compaction thread starts with the store, because a commit must
/// not fail when the system can start no more threads.
#[derive(Debug)]
pub(super) struct CompactionThread {
    orders: SyncSender<(Arc<Memtable>, Manifest)>,
    /// One report for each finished compaction. Disconnected by a failed one.
    reports: Receiver<()>,
    is_under_way: bool,
}

impl CompactionThread {
    /// Starts the thread, which ends when this is dropped. A compaction that fails or panics fails the store at once:
    /// the commit thread may not ask for a report for a long time.
    pub(super) fn start(
        compactor: Compactor,
        health: Arc<StoreHealth>,
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        let (orders, ordered) = sync_channel::<(Arc<Memtable>, Manifest)>(1);
        let (report, reports) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("plant-compact".to_owned())
            .spawn(move || {
                loop {
                    match ordered.recv_timeout(LOOK_INTERVAL) {
                        Ok((memtable, manifest)) => {
                            let compact = || compactor.compact(&memtable, manifest, &health);
                            let ended = panic::catch_unwind(AssertUnwindSafe(compact))
                                .unwrap_or_else(|_| Err(anyhow!("it panicked")));
                            if let Err(cause) = ended {
                                return health.fail(cause.context("a compaction failed"));
                            }
                            if report.send(()).is_err() {
                                return;
                            }
                        }
                        Err(RecvTimeoutError::Timeout) => compactor.room.look(),
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            })
            .context("cannot start the compaction thread")?;
        Ok((Self { orders, reports, is_under_way: false }, thread))
    }

    /// Begins to compact a memtable, whose last event leads to `manifest`. No other compaction may be under way.
    pub(super) fn begin(
        &mut self,
        memtable: Arc<Memtable>,
        manifest: Manifest,
    ) -> anyhow::Result<()> {
        self.orders.send((memtable, manifest)).map_err(|_| thread_has_ended())?;
        self.is_under_way = true;
        Ok(())
    }

    /// Waits for the compaction under way, if any. Returns false at once when the disk is full: the compaction may then
    /// take days.
    pub(super) fn wait(&mut self, room: &Room) -> anyhow::Result<bool> {
        while self.is_under_way {
            match self.reports.recv_timeout(LOOK_INTERVAL) {
                Ok(()) => self.is_under_way = false,
                Err(RecvTimeoutError::Timeout) if room.is_full() => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread_has_ended()),
            }
        }
        Ok(true)
    }
}

fn thread_has_ended() -> anyhow::Error {
    anyhow!("the compaction thread has ended")
}

/// Writes the changes of a memtable into sled, and last the manifest, which is returned.
///
/// A kill leaves a prefix of the writes. Compacting the same memtable again, or one that has its changes and those of
/// older ones, then writes only what is missing.
pub(super) fn compact(
    db: &PacedDb,
    lock: &BlocksLock,
    memtable: &Memtable,
    manifest: Manifest,
    keep_events: u64,
    after_step: impl Fn(),
) -> anyhow::Result<Manifest> {
    let plants = memtable.plants.iter();
    let plants = plants.map(|(id, record)| (*id, record.as_ref().map(EncodedPlant::bytes)));
    blocks::merge_into(db, lock, PLANT_PREFIX, plants, &after_step).context("compacting plants")?;
    fault::point("after-plants");
    for (tag, plants) in &memtable.tags {
        let plants = plants.iter().map(|(id, has_tag)| (*id, has_tag.then_some(&[][..])));
        blocks::merge_into(db, lock, &tag_blocks_prefix(tag), plants, &after_step)
            .with_context(|| format!("compacting the index of tag {tag:?}"))?;
    }
    fault::point("before-events");
    write_events(db, memtable, manifest.kept_from, &after_step)?;
    fault::point("after-events");
    let shown_from = (manifest.last_sequence + 1).saturating_sub(keep_events).max(1);
    let kept_from = manifest.kept_from.max(first_of_record(shown_from));
    let manifest = Manifest { kept_from, ..manifest };
    fault::point("before-state");
    db.insert(MANIFEST_KEY, layout::encode(&manifest)?).context("writing the manifest")?;
    forget_events(db, kept_from, &after_step)?;
    Ok(manifest)
}

/// Writes the records of a memtable's events from `kept_from` on. Older events are already forgotten.
fn write_events(
    db: &PacedDb,
    memtable: &Memtable,
    kept_from: u64,
    after_step: impl Fn(),
) -> anyhow::Result<()> {
    let first = memtable.first_sequence.max(kept_from);
    let skipped = usize::try_from(first - memtable.first_sequence)?;
    let mut rest = memtable.events.get(skipped..).unwrap_or_default();
    let mut begin = first_of_record(first);
    let mut events = Vec::new();
    // The first record may begin with events of earlier memtables.
    if !rest.is_empty() && begin < first {
        let record = db.get(event_key(first))?;
        events = record.map_or(Ok(Vec::new()), |record| decode_events(begin, &record))?;
        let before = usize::try_from(first - begin)?;
        ensure!(events.len() >= before, "the events before number {first} are missing");
        events.truncate(before);
    }
    while !rest.is_empty() {
        let room = usize::try_from(EVENTS_IN_A_RECORD)? - events.len();
        let (of_record, later) = rest.split_at(room.min(rest.len()));
        events.extend_from_slice(of_record);
        let record = mem::take(&mut events);
        db.insert(event_key(begin), layout::encode(&record)?).context("writing events")?;
        after_step();
        rest = later;
        begin += EVENTS_IN_A_RECORD;
    }
    Ok(())
}

fn forget_events(db: &PacedDb, kept_from: u64, after_step: impl Fn()) -> anyhow::Result<()> {
    for key in db.scan_prefix(EVENT_PREFIX).keys() {
        let key = key.context("reading old events")?;
        if event_sequence(&key)? >= kept_from {
            break;
        }
        fault::point("before-old-events-removed");
        db.remove(key).context("removing old events")?;
        after_step();
    }
    Ok(())
}

/// Records that sled has everything up to this manifest on disk, so that a start need not replay those groups.
pub(super) fn write_synced(db: &PacedDb, manifest: &Manifest) -> anyhow::Result<()> {
    let synced = manifest.last_sequence.to_be_bytes().to_vec();
    db.insert(SYNCED_KEY, synced).context("writing how much is synced")
}

/// A checkpoint: makes everything that was written to sled durable. sled's flush alone does not: on Linux it is
/// `sync_file_range`, which leaves data in the disk's volatile cache, and the file's length unwritten.
pub(super) fn checkpoint(db: &Db, file: &File) -> anyhow::Result<()> {
    fault::point("before-checkpoint-flush");
    db.flush().context("flushing the database")?;
    fault::point("before-checkpoint-sync");
    file.sync_data().context("syncing the database")?;
    fault::point("after-checkpoint-sync");
    Ok(())
}
