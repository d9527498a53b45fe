//! Group commit: the one thread that writes.
//!
//! It takes what waits in the queue as one group, decides each write in turn, brings the group to
//! the disk as one journal record, applies it to sled, and only then answers. Nothing waits for a
//! group to fill.
//!
//! Readers see sled only, so what they see is on disk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow};
use sled::IVec;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::checkpoint::Checkpointer;
use super::database::Database;
use super::journal::{self, Journal};
use super::layout::{self, Change, Group, PlantRecord, plant_key};
use super::progress::{LOOK_INTERVAL, Progress, Watch};
use super::write::{Decision, Outcome, Write, Written};
use crate::fault;

/// How many writes a group has at most.
const MAX_GROUP: usize = 1024;

#[derive(Debug)]
pub(super) enum Message {
    Write(Write, oneshot::Sender<Outcome>),
    /// Many writes, and the turn that they take until they are carried out. Their outcomes come in the
    /// same order; when there are fewer, the store failed.
    Import(Vec<Write>, mpsc::UnboundedSender<Outcome>, OwnedSemaphorePermit),
    /// Carry out what waits, then end, and say so.
    Close(oneshot::Sender<()>),
}

struct Waiting {
    write: Write,
    answer: Answer,
}

/// Where the outcome of a write goes.
enum Answer {
    Single(oneshot::Sender<Outcome>),
    Import(Arc<ImportAnswers>),
}

struct ImportAnswers {
    outcomes: mpsc::UnboundedSender<Outcome>,
    /// Given back with the last answer.
    _turn: OwnedSemaphorePermit,
}

impl Answer {
    /// A client that has gone away does not listen: that is no error.
    fn send(self, outcome: Outcome) {
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

/// Everything that a commit needs. It belongs to the commit thread.
pub(super) struct Committer {
    database: Database,
    journal: Journal,
    /// Makes the journal's other segment free.
    checkpointer: Checkpointer,
    progress: Arc<Progress>,
}

/// Starts the commit thread, and the one that watches over it and over sled. That one ends with it.
pub(super) fn spawn(
    mut committer: Committer,
    mut messages: mpsc::Receiver<Message>,
) -> anyhow::Result<[JoinHandle<()>; 2]> {
    let watched = Arc::clone(&committer.progress);
    let db = sled::Db::clone(&committer.database.db);
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
                    && let Err(cause) = db.context.global_error()
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
    Ok([commit_thread, watchdog])
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
        let mut waiting = Vec::with_capacity(MAX_GROUP);
        let mut closing = Vec::new();
        while messages.blocking_recv_many(&mut received, MAX_GROUP) > 0 {
            for message in received.drain(..) {
                match message {
                    Message::Write(write, answer) => {
                        waiting.push(Waiting { write, answer: Answer::Single(answer) });
                    }
                    Message::Import(writes, outcomes, turn) => {
                        let answers = Arc::new(ImportAnswers { outcomes, _turn: turn });
                        waiting.extend(writes.into_iter().map(|write| Waiting {
                            write,
                            answer: Answer::Import(Arc::clone(&answers)),
                        }));
                    }
                    Message::Close(done) => {
                        messages.close();
                        closing.push(done);
                    }
                }
            }
            while !waiting.is_empty() {
                self.commit_and_answer(&mut waiting);
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

    /// Carries out as many of those who wait, from the first one on, as make a group.
    fn commit_and_answer(&mut self, waiting: &mut Vec<Waiting>) {
        self.progress.group_begins();
        let committed = panic::catch_unwind(AssertUnwindSafe(|| self.commit(waiting)))
            .unwrap_or_else(|_| Err(anyhow!("a commit panicked")));
        self.progress.group_ends();

        match committed {
            Ok(outcomes) => {
                fault::point("before-answers");
                let group = waiting.drain(..outcomes.len());
                for (waiting, outcome) in group.zip(outcomes) {
                    waiting.answer.send(outcome);
                }
            }
            Err(cause) => {
                let failure = self.progress.fail(cause);
                for waiting in waiting.drain(..) {
                    waiting.answer.send(Err(failure.clone().into()));
                }
            }
        }
    }

    /// Decides the first writes, each as it finds the plants after those before it, and brings them
    /// to the disk. An error means that what the disk holds is not known any more.
    fn commit(&mut self, waiting: &[Waiting]) -> anyhow::Result<Vec<Outcome>> {
        fault::point("before-decision");
        let ended = self.checkpointer.look()?;
        self.checkpoint_ended(ended);
        let waiting = &waiting[..waiting.len().min(MAX_GROUP)];
        let values = self.read_plants(waiting)?;
        let mut plants = HashMap::with_capacity(waiting.len());
        let state = self.database.shared.state();
        let mut group = Group {
            first_sequence: state.last_sequence + 1,
            plants_before: state.plants,
            digest_before: state.digest,
            changes: Vec::with_capacity(waiting.len()),
        };
        let mut outcomes = Vec::with_capacity(waiting.len());
        for (Waiting { write, .. }, value) in waiting.iter().zip(&values) {
            let id = write.id();
            let plant: &mut Option<PlantRecord<'_>> = match plants.entry(id) {
                Entry::Occupied(plant) => plant.into_mut(),
                Entry::Vacant(place) => {
                    let value = value.as_deref().map(layout::decode).transpose();
                    let damaged = || format!("the record of plant {id} is damaged");
                    place.insert(value.with_context(damaged)?)
                }
            };
            let revision = group.first_sequence + group.changes.len() as u64;
            let (told, after) = match write.decide(*plant, revision) {
                Decision::Refuse(refusal) => {
                    outcomes.push(Err(refusal));
                    continue;
                }
                Decision::Keep(record) => (record, *plant),
                Decision::Store(record) => (record, Some(record)),
                Decision::Remove(record) => (record, None),
            };
            let change = (after != *plant).then(|| Change::new(id, plant.as_ref(), after));
            let change = change.transpose()?;
            let kind = change.map(|change| change.kind);
            let is_current = after.is_some_and(|after| told.is_same_plant(&after));
            let stored = write.stored_plant(&told)?;
            outcomes.push(Ok(Written { kind, stored, is_current }));
            group.changes.extend(change);
            *plant = after;
        }
        if !group.changes.is_empty() {
            self.append(journal::Record::new(&group)?)?;
            fault::point("after-journal");
            self.database.apply(&group)?;
        }
        Ok(outcomes)
    }

    /// What sled has of the plant of each write.
    fn read_plants(&self, waiting: &[Waiting]) -> anyhow::Result<Vec<Option<IVec>>> {
        let read = |waiting: &Waiting| {
            let id = waiting.write.id();
            self.database.db.get(plant_key(id)).with_context(|| format!("reading plant {id}"))
        };
        waiting.iter().map(read).collect()
    }

    fn append(&mut self, record: journal::Record) -> anyhow::Result<()> {
        if !self.journal.has_room_for(&record) {
            let ended = self.checkpointer.wait()?;
            self.checkpoint_ended(ended);
            fault::point("before-segment-switch");
            self.journal.switch_segment();
            fault::point("after-segment-switch");
            self.checkpointer.begin(self.database.shared.tag_index.folded_through())?;
        }
        self.journal.append(record)
    }

    fn checkpoint_ended(&self, folded_through: Option<u64>) {
        if let Some(folded_through) = folded_through {
            self.database.shared.tag_index.checkpointed(folded_through);
        }
    }

    /// What was carried out is on disk in sled too when the database is closed. (The next start applies
    /// the journal again all the same.)
    fn last_checkpoint(&mut self) -> anyhow::Result<()> {
        fault::point("before-last-checkpoint");
        self.checkpointer.wait()?;
        self.checkpointer.begin(self.database.shared.tag_index.folded_through())?;
        self.checkpointer.wait().map(drop)
    }
}
