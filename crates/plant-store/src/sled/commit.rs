//! Group commit: the one thread that writes.
//!
//! It takes what waits in the queue as one group, decides each write in turn, brings the group to
//! the disk as one journal record, applies it to sled, and only then answers. Nothing waits for a
//! group to fill.
//!
//! Readers see sled only, so what they see is on disk.

use std::collections::HashMap;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use plant_domain::{NewPlant, PlantId};
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Checkpointer;
use super::database::Database;
use super::journal::{self, Journal};
use super::layout::{self, Change, EventKind, GROUP_EVENT_BYTES, Group, PlantRecord, plant_key};
use super::progress::Progress;
use crate::{IdempotencyDigest, Revision, StoreError, StoredPlant};

/// How many writes a group has at most. A write never waits for more than its own group and the one
/// before.
const MAX_GROUP: usize = 1024;

/// How often the disk is checked for being stuck.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) enum Message {
    Create(Create),
    /// Carry out what waits, then end, and say so.
    Close(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(super) struct Create {
    pub(super) new_plant: NewPlant,
    pub(super) idempotency: Option<IdempotencyDigest>,
    pub(super) answer: oneshot::Sender<Outcome>,
}

type Outcome = Result<StoredPlant, StoreError>;

/// Everything that a commit needs. It belongs to the commit thread.
pub(super) struct Committer {
    database: Database,
    journal: Journal,
    /// Makes the journal's other segment free.
    checkpointer: Checkpointer,
    progress: Arc<Progress>,
}

/// Starts the commit thread, and the one that watches over it.
pub(super) fn spawn(
    mut committer: Committer,
    mut messages: mpsc::Receiver<Message>,
) -> anyhow::Result<JoinHandle<()>> {
    let watched = Arc::clone(&committer.progress);
    let (alive, commit_thread_alive) = std::sync::mpsc::channel::<()>();
    let commit_thread = thread::Builder::new()
        .name("plant-commit".to_owned())
        .spawn(move || {
            let _alive = alive;
            let ended = panic::catch_unwind(AssertUnwindSafe(|| committer.run(&mut messages)));
            if ended.is_err() {
                committer.progress.fail(anyhow!("the commit thread panicked"));
            }
        })
        .context("cannot start the commit thread")?;
    thread::Builder::new()
        .name("plant-watchdog".to_owned())
        .spawn(move || {
            // The other end is dropped when the commit thread ends.
            while let Err(RecvTimeoutError::Timeout) =
                commit_thread_alive.recv_timeout(WATCH_INTERVAL)
            {
                watched.watch();
            }
        })
        .context("cannot start the thread that watches over the commit thread")?;
    Ok(commit_thread)
}

impl Committer {
    pub(super) fn new(
        database: Database,
        journal: Journal,
        checkpointer: Checkpointer,
        progress: Arc<Progress>,
    ) -> Self {
        Self { database, journal, checkpointer, progress }
    }

    /// Carries out what comes until the queue is closed and empty, or the store has failed.
    fn run(&mut self, messages: &mut mpsc::Receiver<Message>) {
        let mut received = Vec::with_capacity(MAX_GROUP);
        let mut closing = Vec::new();
        while messages.blocking_recv_many(&mut received, MAX_GROUP) > 0 {
            let mut waiting = Vec::with_capacity(received.len());
            for message in received.drain(..) {
                match message {
                    Message::Create(create) => waiting.push(create),
                    Message::Close(done) => {
                        messages.close();
                        closing.push(done);
                    }
                }
            }
            while let Some(group) = take_group(&mut waiting) {
                self.commit_and_answer(group);
                if self.progress.failure().is_some() {
                    // Whoever still waits is told of the failure when the queue is dropped.
                    return;
                }
            }
        }
        self.progress.group_begins();
        let ended = self.last_checkpoint();
        self.progress.group_ends();
        if let Err(cause) = ended {
            self.progress.fail(cause);
        }
        for done in closing {
            let _ = done.send(());
        }
    }

    fn commit_and_answer(&mut self, group: Vec<Create>) {
        self.progress.group_begins();
        let committed = panic::catch_unwind(AssertUnwindSafe(|| self.commit(&group)))
            .unwrap_or_else(|_| Err(anyhow!("a commit panicked")));
        self.progress.group_ends();

        // A client that has gone away does not listen: that is no error.
        match committed {
            Ok(outcomes) => {
                for (create, outcome) in group.into_iter().zip(outcomes) {
                    let _ = create.answer.send(outcome);
                }
            }
            Err(cause) => {
                let failure = self.progress.fail(cause);
                for create in group {
                    let _ = create.answer.send(Err(failure.clone().into()));
                }
            }
        }
    }

    /// Decides each write and brings the group to the disk. An error means that what the disk holds
    /// is not known any more.
    fn commit(&mut self, creates: &[Create]) -> anyhow::Result<Vec<Outcome>> {
        self.checkpointer.look()?;
        let mut decisions = Decisions {
            group: Group {
                first_sequence: self.database.state.last_sequence + 1,
                plants_before: self.database.state.plants,
                changes: Vec::with_capacity(creates.len()),
            },
            plants: HashMap::with_capacity(creates.len()),
        };
        let mut outcomes = Vec::with_capacity(creates.len());
        for create in creates {
            outcomes.push(self.create(create, &mut decisions)?);
        }
        let group = decisions.group;
        if !group.changes.is_empty() {
            self.append(journal::Record::new(&group)?)?;
            self.database.apply(&group)?;
        }
        Ok(outcomes)
    }

    fn create<'group>(
        &self,
        create: &'group Create,
        decisions: &mut Decisions<'group>,
    ) -> anyhow::Result<Outcome> {
        let Create { new_plant, idempotency, answer: _ } = create;
        let id = new_plant.id();
        let plant = new_plant.plant();
        let revision = match self.existing(id, decisions)? {
            None => decisions.add(
                id,
                Change {
                    kind: EventKind::Created,
                    id: id.get(),
                    idempotency: idempotency.map(IdempotencyDigest::to_bytes),
                    name: plant.name(),
                    tag: plant.tag(),
                },
            ),
            Some(existing)
                if idempotency.is_some()
                    && existing.idempotency == idempotency.map(IdempotencyDigest::to_bytes) =>
            {
                existing.revision
            }
            Some(_) => return Ok(Err(StoreError::IdTaken(id))),
        };
        Ok(Ok(StoredPlant { id, plant: plant.clone(), revision: Revision::from(revision) }))
    }

    /// The plant as it is after the writes before this one.
    fn existing(&self, id: PlantId, decisions: &Decisions<'_>) -> anyhow::Result<Option<Existing>> {
        if let Some(existing) = decisions.plants.get(&id) {
            return Ok(Some(*existing));
        }
        let value = self.database.db.get(plant_key(id));
        let value = value.with_context(|| format!("reading plant {id}"))?;
        value
            .map(|value| {
                let record: PlantRecord<'_> = layout::decode(&value)
                    .with_context(|| format!("the record of plant {id} is damaged"))?;
                Ok(Existing { revision: record.revision, idempotency: record.idempotency })
            })
            .transpose()
    }

    fn append(&mut self, record: journal::Record) -> anyhow::Result<()> {
        if !self.journal.has_room_for(&record) {
            self.checkpointer.wait()?;
            self.journal.switch_segment();
            self.checkpointer.begin()?;
        }
        self.journal.append(record)
    }

    /// It spares the next start what the journal has.
    fn last_checkpoint(&mut self) -> anyhow::Result<()> {
        self.checkpointer.wait()?;
        self.checkpointer.begin()?;
        self.checkpointer.wait()
    }
}

/// Takes as many creates from the front as make one group; `None` when there are none.
fn take_group(waiting: &mut Vec<Create>) -> Option<Vec<Create>> {
    let mut bytes = 0;
    let fitting = waiting.iter().take_while(|create| {
        bytes += layout::event_max_bytes(create.new_plant.plant().tag());
        bytes <= GROUP_EVENT_BYTES
    });
    let count = fitting.count();
    if count == waiting.len() {
        return Some(mem::take(waiting)).filter(|group| !group.is_empty());
    }
    let later = waiting.split_off(count);
    Some(mem::replace(waiting, later))
}

/// What was decided for a group so far.
struct Decisions<'group> {
    group: Group<'group>,
    /// The plants that the group changes, as they will be; they are not in the tree yet.
    plants: HashMap<PlantId, Existing>,
}

impl<'group> Decisions<'group> {
    /// Adds a change, and returns the revision that it leads to.
    fn add(&mut self, id: PlantId, change: Change<'group>) -> u64 {
        let revision = self.group.first_sequence + self.group.changes.len() as u64;
        self.plants.insert(id, Existing { revision, idempotency: change.idempotency });
        self.group.changes.push(change);
        revision
    }
}

/// What a create has to know of a plant that is there already.
#[derive(Clone, Copy)]
struct Existing {
    revision: u64,
    idempotency: Option<[u8; IdempotencyDigest::BYTES]>,
}
