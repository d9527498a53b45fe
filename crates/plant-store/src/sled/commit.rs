//! Group commit: the one thread that writes.
//!
//! It takes what waits in the queue as one group, decides each write in turn, brings the group to
//! the disk as one journal record, shows it to readers, and answers. Nothing waits for a group to fill.
//! When a segment of the journal is full, what it has is folded into sled by another thread.
//!
//! Readers see what is in the journal, so what they see is on disk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use plant_domain::PlantId;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::fold::FoldThread;
use super::health::{LOOK_INTERVAL, StoreHealth, Watch};
use super::journal::{self, Journal};
use super::layout::{Change, ChangeGroup};
use super::ordered_map::Db;
use super::ordered_map::guarded::failure_in_background;
use super::room::Room;
use super::shared::Shared;
use crate::decision::{Decision, Write};
use crate::fault;
use crate::plant_record::{EncodedPlant, PlantRecord};
use crate::{Revision, StoreError};

/// How many writes a group has at most.
const MAX_GROUP: usize = 1024;

/// For how long the thread stays awake when nothing waits any more, for someone who writes alone: to be woken takes
/// a part of the time that the disk takes. It lets everyone else run meanwhile. Where several write, they need the
/// processors more than it does.
const AWAKE: Duration = Duration::from_micros(200);

/// Someone writes alone when so many writes in a row were each the only one.
const ALONE_AFTER: u32 = 8;

#[derive(Debug)]
pub(super) enum Message {
    Write(Write, oneshot::Sender<Result<Decision, StoreError>>),
    /// Many writes, and the turn that they take until they are carried out. Their outcomes come in the
    /// same order; when there are fewer, the store failed.
    Import(Vec<Write>, mpsc::UnboundedSender<Result<Decision, StoreError>>, OwnedSemaphorePermit),
    /// Carry out what waits, then end, and say so.
    Close(oneshot::Sender<()>),
}

/// Where the outcome of a write goes.
enum Recipient {
    Single(oneshot::Sender<Result<Decision, StoreError>>),
    Import(Arc<ImportAnswers>),
}

struct ImportAnswers {
    outcomes: mpsc::UnboundedSender<Result<Decision, StoreError>>,
    /// Given back with the last answer.
    _turn: OwnedSemaphorePermit,
}

impl Recipient {
    /// A client that has gone away does not listen: that is no error.
    fn send(self, outcome: Result<Decision, StoreError>) {
        match self {
            Self::Single(answer) => {
                let _ = answer.send(outcome);
            }
            Self::Import(answers) => {
                let _ = answers.outcomes.send(outcome);
            }
        }
    }
}

/// Takes what waits, at least one message, unless there will be none any more. Sleeps when nothing has come for
/// so long.
fn receive(
    messages: &mut mpsc::Receiver<Message>,
    received: &mut Vec<Message>,
    awake: Duration,
) -> bool {
    let begun = Instant::now();
    loop {
        match messages.try_recv() {
            Ok(message) => {
                received.push(message);
                while received.len() < MAX_GROUP
                    && let Ok(message) = messages.try_recv()
                {
                    received.push(message);
                }
                return true;
            }
            Err(TryRecvError::Disconnected) => return false,
            Err(TryRecvError::Empty) if begun.elapsed() < awake => thread::yield_now(),
            Err(TryRecvError::Empty) => {
                return messages.blocking_recv_many(received, MAX_GROUP) > 0;
            }
        }
    }
}

/// Everything that a commit needs. It belongs to the commit thread.
pub(super) struct Committer {
    pub(super) db: Db,
    pub(super) shared: Arc<Shared>,
    pub(super) journal: Journal,
    /// Makes the journal's other segment free.
    pub(super) fold_thread: FoldThread,
    /// How many changes gather in memory before they are folded.
    pub(super) changes_in_memory: usize,
    pub(super) health: Arc<StoreHealth>,
    pub(super) room: Arc<Room>,
}

/// Starts the commit thread, and the one that watches over it and over sled. That one ends with it.
pub(super) fn spawn(
    mut committer: Committer,
    mut messages: mpsc::Receiver<Message>,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let watched = Arc::clone(&committer.health);
    let db = committer.db.clone();
    let (alive, commit_thread_alive) = std::sync::mpsc::channel::<()>();
    let commit_thread = thread::Builder::new()
        .name("plant-commit".to_owned())
        .spawn(move || {
            let _alive = alive;
            let ended = panic::catch_unwind(AssertUnwindSafe(|| committer.run(&mut messages)));
            if ended.is_err() {
                committer.health.fail(anyhow!("the commit thread panicked"));
            }
        })
        .context("cannot start the commit thread")?;
    let watchdog = thread::Builder::new()
        .name("plant-watchdog".to_owned())
        .spawn(move || {
            let mut watch = Watch::default();
            // The other end is dropped when the commit thread ends.
            while let Err(RecvTimeoutError::Timeout) =
                commit_thread_alive.recv_timeout(LOOK_INTERVAL)
            {
                // Sled writes when it likes, and tells of what failed only to the next write.
                if watched.failure().is_none()
                    && let Err(cause) = failure_in_background(&db)
                {
                    watched.fail(anyhow!(cause).context("sled failed in the background"));
                }
                watch.look(&watched);
            }
            if watched.failure().is_some() {
                // As when the repository is dropped: sled would flush when the last handle goes.
                mem::forget(db);
            }
        })
        .context("cannot start the thread that watches over the commit thread")?;
    Ok(vec![commit_thread, watchdog])
}

impl Committer {
    /// Carries out what comes until the queue is closed and empty, or the store has failed.
    fn run(&mut self, messages: &mut mpsc::Receiver<Message>) {
        let mut received = Vec::with_capacity(MAX_GROUP);
        let mut waiting = Vec::with_capacity(MAX_GROUP);
        let mut closing = Vec::new();
        let (mut alone, mut awake) = (0_u32, Duration::ZERO);
        while receive(messages, &mut received, awake) {
            for message in received.drain(..) {
                match message {
                    Message::Write(write, answer) => {
                        waiting.push((write, Recipient::Single(answer)));
                    }
                    Message::Import(writes, outcomes, turn) => {
                        let answers = Arc::new(ImportAnswers { outcomes, _turn: turn });
                        let recipient = || Recipient::Import(Arc::clone(&answers));
                        waiting.extend(writes.into_iter().map(|write| (write, recipient())));
                    }
                    Message::Close(done) => {
                        messages.close();
                        closing.push(done);
                    }
                }
            }
            alone = if waiting.len() == 1 { alone.saturating_add(1) } else { 0 };
            awake = if alone >= ALONE_AFTER { AWAKE } else { Duration::ZERO };
            while !waiting.is_empty() {
                // Whatever has failed, the group before or something else.
                if self.health.failure().is_some() {
                    // Those who still wait are told of the failure when the queue is dropped.
                    return;
                }
                self.commit_and_answer(&mut waiting);
            }
        }
        if self.health.failure().is_some() {
            // Nothing is begun any more.
            return;
        }
        self.health.group_begins();
        let ended = self.last_fold();
        self.health.group_ends();
        if let Err(cause) = ended {
            self.health.fail(cause);
        }
        for done in closing {
            let _ = done.send(());
        }
    }

    /// Carries out the oldest of the waiting writes, at most [`MAX_GROUP`], as one group.
    fn commit_and_answer(&mut self, waiting: &mut Vec<(Write, Recipient)>) {
        let (writes, recipients): (Vec<Write>, Vec<Recipient>) =
            waiting.drain(..waiting.len().min(MAX_GROUP)).unzip();
        self.health.group_begins();
        let committed = panic::catch_unwind(AssertUnwindSafe(|| self.commit(writes)))
            .unwrap_or_else(|_| Err(anyhow!("a commit panicked")));
        self.health.group_ends();

        match committed {
            Ok(decided) => {
                fault::point("before-answers");
                for (recipient, decided) in recipients.into_iter().zip(decided) {
                    recipient.send(decided);
                }
            }
            // Every caller whose recipient is dropped finds the failure in `health`.
            Err(cause) => self.health.fail(cause),
        }
    }

    /// Decides the writes, each on the plants as the writes before it leave them, and brings them to the disk. After an
    /// error, what the disk holds is unknown.
    fn commit(&mut self, writes: Vec<Write>) -> anyhow::Result<Vec<Result<Decision, StoreError>>> {
        fault::point("before-decision");
        let count = writes.len();
        let refuse_all = || (0..count).map(|_| Err(StoreError::DiskFull)).collect();
        if self.room.is_full() {
            return Ok(refuse_all());
        }
        let state = self.shared.generations.read().state;
        let mut group = ChangeGroup {
            first_sequence: state.last_sequence + 1,
            plants_before: state.plants,
            digest_before: state.digest,
            changes: Vec::with_capacity(count),
        };
        let mut plants: HashMap<PlantId, Option<EncodedPlant>> = HashMap::with_capacity(count);
        let mut all_decided = Vec::with_capacity(count);
        for write in writes {
            let id = write.id();
            let plant = match plants.entry(id) {
                Entry::Occupied(plant) => plant.into_mut(),
                Entry::Vacant(place) => {
                    let record = self.shared.record(&self.db, id);
                    place.insert(record.with_context(|| format!("reading plant {id}"))?)
                }
            };
            let revision = group.first_sequence + group.changes.len() as u64;
            let current = plant.as_ref().map(|record| record.decode()?.to_kept_plant(id));
            let current = current
                .transpose()
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            let decision = write.decide(current, Revision::from(revision));
            if let Ok(decision) = &decision
                && decision.change.is_some()
            {
                let after =
                    decision.after().map(|after| PlantRecord::of(after).encode()).transpose()?;
                group.changes.push(Change::new(id, plant.as_ref(), after.clone())?);
                *plant = after;
            }
            all_decided.push(decision);
        }
        if !group.changes.is_empty() {
            if !self.append(journal::JournalRecord::new(&group)?)? {
                return Ok(refuse_all());
            }
            fault::point("after-journal");
            self.shared.generations.apply(group)?;
            fault::point("after-shown");
        }
        Ok(all_decided)
    }

    /// Returns whether the record was appended. It is not when the journal needs its other segment while the disk is
    /// full: what stands in there has not reached sled yet.
    fn append(&mut self, record: journal::JournalRecord) -> anyhow::Result<bool> {
        let is_full = self.shared.generations.read().active_changes() >= self.changes_in_memory;
        if is_full || !self.journal.has_room_for(&record) {
            if !self.fold_thread.wait(&self.room)? {
                return Ok(false);
            }
            // It may have taken so long that those who wait were told of a failure.
            self.health.check()?;
            fault::point("before-segment-switch");
            self.journal.switch_segment();
            fault::point("after-segment-switch");
            self.fold()?;
        }
        self.journal.append(record)?;
        Ok(true)
    }

    fn fold(&mut self) -> anyhow::Result<()> {
        let (frozen, state) = self.shared.generations.freeze()?;
        self.fold_thread.begin(frozen, state)
    }

    /// What was carried out is in sled when the database is closed, so that the next start has little to do.
    fn last_fold(&mut self) -> anyhow::Result<()> {
        fault::point("before-last-fold");
        let mut is_in_sled = self.fold_thread.wait(&self.room)?;
        if is_in_sled && self.shared.generations.read().active_changes() > 0 {
            self.fold()?;
            is_in_sled = self.fold_thread.wait(&self.room)?;
        }
        ensure!(
            is_in_sled,
            "the disk is full; everything acknowledged is in the journal, and the next start with room brings it \
             to sled"
        );
        Ok(())
    }
}
