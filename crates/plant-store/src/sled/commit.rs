//! Group commit: the one thread that writes.
//!
//! It takes what waits in the queue as one group, decides each write in turn, applies the group as
//! one batch, flushes it, syncs the file, and only then answers. Nothing waits for a group to fill.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use plant_domain::{NewPlant, PlantId};
use sled::Batch;
use tokio::sync::{mpsc, oneshot};

use super::layout::{
    self, EVENT_RECORD_BYTES, Event, EventKind, EventRecord, PlantRecord, event_key, plant_key,
};
use super::progress::Progress;
use super::tag_index::TagIndex;
use crate::{IdempotencyDigest, Revision, StoreError, StoredPlant};

/// How many writes a group has at most. A write never waits for more than its group's sync and the
/// one before.
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

/// What the newest event record says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) last_sequence: u64,
    pub(super) plants: u64,
}

/// Everything that a commit needs. It belongs to the commit thread.
pub(super) struct Committer {
    pub(super) db: sled::Db,
    /// Our own handle on the file that sled writes to, for syncs that sled does not make: its flush
    /// is `sync_file_range` on Linux, which leaves the data in the disk's volatile cache and the
    /// file's length unwritten.
    pub(super) database_file: File,
    pub(super) state: State,
    pub(super) tag_index: TagIndex,
    pub(super) progress: Arc<Progress>,
}

/// Starts the commit thread, and the one that watches over it.
pub(super) fn spawn(
    mut committer: Committer,
    mut messages: mpsc::Receiver<Message>,
) -> anyhow::Result<JoinHandle<()>> {
    let progress = Arc::clone(&committer.progress);
    let (alive, commit_thread_alive) = std::sync::mpsc::channel::<()>();
    let commit_thread = thread::Builder::new()
        .name("plant-commit".to_owned())
        .spawn(move || {
            let _alive = alive;
            committer.run(&mut messages);
        })
        .context("cannot start the commit thread")?;
    thread::Builder::new()
        .name("plant-watchdog".to_owned())
        .spawn(move || {
            // The other end is dropped when the commit thread ends.
            while let Err(RecvTimeoutError::Timeout) =
                commit_thread_alive.recv_timeout(WATCH_INTERVAL)
            {
                progress.watch();
            }
        })
        .context("cannot start the thread that watches over the commit thread")?;
    Ok(commit_thread)
}

impl Committer {
    fn run(&mut self, messages: &mut mpsc::Receiver<Message>) {
        let mut received = Vec::with_capacity(MAX_GROUP);
        let mut closing = Vec::new();
        while messages.blocking_recv_many(&mut received, MAX_GROUP) > 0 {
            let mut group = Vec::with_capacity(received.len());
            for message in received.drain(..) {
                match message {
                    Message::Create(create) => group.push(create),
                    Message::Close(done) => {
                        messages.close();
                        closing.push(done);
                    }
                }
            }
            self.commit_and_answer(group);
            if self.progress.failure().is_some() {
                // Whoever still waits in the queue is told of the failure when it is dropped.
                return;
            }
        }
    }

    fn commit_and_answer(&mut self, group: Vec<Create>) {
        self.progress.group_begins();
        let committed = panic::catch_unwind(AssertUnwindSafe(|| self.commit(&group)))
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the commit thread panicked")));
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
    fn commit(&mut self, group: &[Create]) -> anyhow::Result<Vec<Outcome>> {
        let mut changes = GroupChanges::default();
        let mut outcomes = Vec::with_capacity(group.len());
        for create in group {
            outcomes.push(self.create(create, &mut changes)?);
        }
        if !changes.events.is_empty() {
            self.write(changes)?;
        }
        Ok(outcomes)
    }

    fn create<'group>(
        &self,
        create: &'group Create,
        changes: &mut GroupChanges<'group>,
    ) -> anyhow::Result<Outcome> {
        let Create { new_plant, idempotency, answer: _ } = create;
        let id = new_plant.id();
        let plant = new_plant.plant();
        let revision = match self.existing(id, changes)? {
            None => {
                let revision = self.state.last_sequence + changes.events.len() as u64 + 1;
                let record = PlantRecord {
                    revision,
                    idempotency: idempotency.map(IdempotencyDigest::to_bytes),
                    name: plant.name(),
                    tag: plant.tag(),
                };
                changes.batch.insert(&plant_key(id), layout::encode(&record)?);
                changes.plants.insert(id, Existing { revision, idempotency: *idempotency });
                let kind = EventKind::Created;
                changes.events.push(Event { kind, id: id.get(), tag: plant.tag() });
                revision
            }
            Some(existing) if idempotency.is_some() && existing.idempotency == *idempotency => {
                existing.revision
            }
            Some(_) => return Ok(Err(StoreError::IdTaken(id))),
        };
        let revision = Revision::from(revision);
        Ok(Ok(StoredPlant { id, plant: plant.clone(), revision }))
    }

    /// The plant as it is after the writes before this one.
    fn existing(
        &self,
        id: PlantId,
        changes: &GroupChanges<'_>,
    ) -> anyhow::Result<Option<Existing>> {
        if let Some(existing) = changes.plants.get(&id) {
            return Ok(Some(*existing));
        }
        let value = self.db.get(plant_key(id)).with_context(|| format!("reading plant {id}"))?;
        value
            .map(|value| {
                let record: PlantRecord<'_> = layout::decode(&value)
                    .with_context(|| format!("the record of plant {id} is damaged"))?;
                let idempotency = record.idempotency();
                Ok(Existing { revision: record.revision, idempotency })
            })
            .transpose()
    }

    fn write(&mut self, changes: GroupChanges<'_>) -> anyhow::Result<()> {
        let GroupChanges { mut batch, events, plants: _ } = changes;
        let last_sequence = self.state.last_sequence + events.len() as u64;
        for event in &events {
            if let Some(tag) = event.tag {
                self.tag_index.add(tag, PlantId::from(event.id));
            }
        }
        self.tag_index.fold(&self.db, &mut batch, events.len(), last_sequence)?;
        self.put_events(&mut batch, events)?;

        self.progress.applying(last_sequence);
        self.db.apply_batch(batch).context("writing a group")?;
        self.db.flush().context("flushing a group")?;
        self.database_file.sync_data().context("syncing a group")?;
        self.progress.is_synced(last_sequence);
        Ok(())
    }

    /// Puts the events into as many records as their sizes ask for, and moves the state on.
    fn put_events(&mut self, batch: &mut Batch, events: Vec<Event<'_>>) -> anyhow::Result<()> {
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let mut record = EventRecord {
                plants: self.state.plants,
                indexed_through: self.tag_index.indexed_through(),
                events: Vec::with_capacity(events.len()),
            };
            let mut bytes = 0;
            while let Some(event) =
                events.next_if(|next| bytes + next.max_bytes() <= EVENT_RECORD_BYTES)
            {
                bytes += event.max_bytes();
                record.plants += match event.kind {
                    EventKind::Created => 1,
                };
                record.events.push(event);
            }
            batch.insert(&event_key(self.state.last_sequence + 1), layout::encode(&record)?);
            self.state.last_sequence += record.events.len() as u64;
            self.state.plants = record.plants;
        }
        Ok(())
    }
}

/// What the writes of a group have changed so far.
#[derive(Default)]
struct GroupChanges<'group> {
    batch: Batch,
    events: Vec<Event<'group>>,
    /// The plants that the group has written, which are not in the tree yet.
    plants: HashMap<PlantId, Existing>,
}

/// What a create has to know of a plant that is there already.
#[derive(Clone, Copy)]
struct Existing {
    revision: u64,
    idempotency: Option<IdempotencyDigest>,
}
