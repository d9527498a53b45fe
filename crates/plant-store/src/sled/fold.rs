//! Folding: a frozen generation goes into sled, and sled to the disk, so that the journal may forget it.

use std::fs::File;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow, ensure};

use super::blocks::{self, BlocksLock};
use super::generation::{Generation, Presence};
use super::health::{LOOK_INTERVAL, StoreHealth};
use super::layout::{
    self, EVENT_PREFIX, EVENTS_IN_A_RECORD, EventRecord, PLANT_PREFIX, STATE_KEY, SYNCED_KEY,
    State, decode_events, event_key, event_sequence, first_of_record, tag_blocks_prefix,
};
use super::ordered_map::Db;
use super::ordered_map::paced::PacedDb;
use super::room::Room;
use super::shared::Shared;
use crate::fault;
use crate::plant_record::EncodedPlant;

/// The one that writes to sled.
pub(super) struct FoldWorker {
    pub(super) db: PacedDb,
    /// Our own handle on the file that sled writes to.
    pub(super) file: File,
    pub(super) shared: Arc<Shared>,
    /// How many of the newest events are kept at least.
    pub(super) keep_events: u64,
    pub(super) room: Arc<Room>,
}

impl FoldWorker {
    fn fold(
        &self,
        generation: &Generation,
        state: State,
        health: &StoreHealth,
    ) -> anyhow::Result<()> {
        let step = || health.fold_goes_on();
        self.db.wait_for_room().context("waiting for room on the disk")?;
        let state = fold(&self.db, &self.shared.blocks, generation, state, self.keep_events, step)?;
        step();
        checkpoint(&self.db, &self.file)?;
        write_synced(&self.db, &state)?;
        fault::point("before-folded");
        self.shared.generations.folded(state.kept_from);
        fault::point("after-folded");
        Ok(())
    }
}

/// The thread that folds while commits go on, and looks how much room the disk has when there is nothing to fold. It
/// is started once: a commit must not fail because there are no threads or file descriptors left.
#[derive(Debug)]
pub(super) struct FoldThread {
    orders: SyncSender<(Arc<Generation>, State)>,
    /// One for each that has ended well. It is cut off by one that has failed.
    reports: Receiver<()>,
    is_under_way: bool,
}

impl FoldThread {
    /// Starts the thread, which ends when this is dropped. A fold that fails, or panics, fails the store at
    /// once: the commit thread may not look at it for long.
    pub(super) fn start(
        worker: FoldWorker,
        health: Arc<StoreHealth>,
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        let (orders, ordered) = sync_channel::<(Arc<Generation>, State)>(1);
        let (report, reports) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("plant-fold".to_owned())
            .spawn(move || {
                loop {
                    let (generation, state) = match ordered.recv_timeout(LOOK_INTERVAL) {
                        Ok(order) => order,
                        Err(RecvTimeoutError::Timeout) => {
                            worker.room.look();
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                    let fold = || worker.fold(&generation, state, &health);
                    let ended = panic::catch_unwind(AssertUnwindSafe(fold))
                        .unwrap_or_else(|_| Err(anyhow!("it panicked")));
                    if let Err(cause) = ended {
                        health.fail(cause.context("bringing what was written to sled failed"));
                        break;
                    }
                    if report.send(()).is_err() {
                        break;
                    }
                }
                if health.failure().is_some() {
                    // As when the repository is dropped: sled would flush when the last handle goes.
                    mem::forget(worker);
                }
            })
            .context("cannot start the thread that brings changes to sled")?;
        Ok((Self { orders, reports, is_under_way: false }, thread))
    }

    /// Begins to fold a generation, the last event of which led to this state. None may be under way.
    pub(super) fn begin(
        &mut self,
        generation: Arc<Generation>,
        state: State,
    ) -> anyhow::Result<()> {
        self.orders.send((generation, state)).map_err(|_| thread_is_gone())?;
        self.is_under_way = true;
        Ok(())
    }

    /// Waits for the fold that is under way, if one is. Returns false, without waiting to the end, when the disk is
    /// full: the fold may then take days.
    pub(super) fn wait(&mut self, room: &Room) -> anyhow::Result<bool> {
        while self.is_under_way {
            match self.reports.recv_timeout(LOOK_INTERVAL) {
                Ok(()) => self.is_under_way = false,
                Err(RecvTimeoutError::Timeout) if room.is_full() => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread_is_gone()),
            }
        }
        Ok(true)
    }
}

fn thread_is_gone() -> anyhow::Error {
    anyhow!("the thread that brings changes to sled has ended")
}

/// Puts what a generation changes into sled, and at last the state that it leads to, which is returned: it
/// keeps fewer events.
///
/// A kill leaves the first of the writes, in order. To fold the generation once more then, or one that has
/// its changes and those of older ones, writes what is missing and nothing else. `after_step` is called now
/// and then meanwhile.
pub(super) fn fold(
    db: &PacedDb,
    lock: &BlocksLock,
    generation: &Generation,
    state: State,
    keep_events: u64,
    after_step: impl Fn(),
) -> anyhow::Result<State> {
    let plants = generation.plants.iter();
    let plants = plants.map(|(id, record)| (*id, record.as_ref().map(EncodedPlant::bytes)));
    blocks::fold(db, lock, PLANT_PREFIX, plants, &after_step).context("folding plants")?;
    fault::point("after-plants");
    for (tag, plants) in &generation.tags {
        let plants = plants.iter().map(|(id, presence)| match presence {
            Presence::Present => (*id, Some(&[][..])),
            Presence::Absent => (*id, None),
        });
        blocks::fold(db, lock, &tag_blocks_prefix(tag), plants, &after_step)
            .with_context(|| format!("folding the plants with tag {tag:?}"))?;
    }
    fault::point("before-events");
    fold_events(db, generation, state.kept_from, &after_step)?;
    fault::point("after-events");
    let shown_from = (state.last_sequence + 1).saturating_sub(keep_events).max(1);
    let state = State { kept_from: state.kept_from.max(first_of_record(shown_from)), ..state };
    fault::point("before-state");
    db.insert(STATE_KEY, layout::encode(&state)?).context("writing the state")?;
    forget_events(db, state.kept_from, &after_step)?;
    Ok(state)
}

/// Writes the records of a generation's events from `kept_from` on: the older ones are gone.
fn fold_events(
    db: &PacedDb,
    generation: &Generation,
    kept_from: u64,
    after_step: impl Fn(),
) -> anyhow::Result<()> {
    let first = generation.first_sequence.max(kept_from);
    let skipped = usize::try_from(first - generation.first_sequence)?;
    let mut rest = generation.events.get(skipped..).unwrap_or_default();
    let mut begin = first_of_record(first);
    let mut events = Vec::new();
    // The first record may begin with events of the generations before.
    if !rest.is_empty() && begin < first {
        let record = db.get(event_key(first))?;
        events = record.map_or(Ok(Vec::new()), |record| decode_events(begin, &record))?;
        let before = usize::try_from(first - begin)?;
        ensure!(events.len() >= before, "the events before number {first} are lost");
        events.truncate(before);
    }
    while !rest.is_empty() {
        let room = usize::try_from(EVENTS_IN_A_RECORD)? - events.len();
        let (of_record, later) = rest.split_at(room.min(rest.len()));
        events.extend_from_slice(of_record);
        let record = EventRecord { events: mem::take(&mut events) };
        db.insert(event_key(begin), layout::encode(&record)?).context("writing events")?;
        after_step();
        rest = later;
        begin += EVENTS_IN_A_RECORD;
    }
    Ok(())
}

/// Removes records with events before `kept_from` alone.
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

/// Notes that all that led to this state is on disk, so that it need not be folded again.
pub(super) fn write_synced(db: &PacedDb, state: &State) -> anyhow::Result<()> {
    let synced = state.last_sequence.to_be_bytes().to_vec();
    db.insert(SYNCED_KEY, synced).context("writing how much is synced")
}

/// Brings everything that sled has been given to the disk. sled's flush alone does not: on Linux it
/// is `sync_file_range`, which leaves the data in the disk's volatile cache and the file's length
/// unwritten.
pub(super) fn checkpoint(db: &Db, file: &File) -> anyhow::Result<()> {
    fault::point("before-checkpoint-flush");
    db.flush().context("flushing the database")?;
    fault::point("before-checkpoint-sync");
    file.sync_data().context("syncing the database")?;
    fault::point("after-checkpoint-sync");
    Ok(())
}
