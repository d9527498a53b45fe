//! A group of writes. Each is answered as soon as its outcome is known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::time::Instant;

use plant_domain::PlantId;
use plant_store::write::{Decision, Write};
use plant_store::{Author, StoreError, StoreFailure};
use tokio::sync::oneshot;
use tokio_postgres::Row;

use crate::plan::{Committed, Plan, PlannedRow, PresentRow};
use crate::sessions::{Session, SessionError};
use crate::statements::{EVENTS_IN_A_BLOCK, PLANTS_WITH_IDS};

/// The most writes of a group.
pub(super) const MAX_GROUP: usize = 512;
const _: () = assert!(MAX_GROUP as u64 <= EVENTS_IN_A_BLOCK.unsigned_abs());

/// What can keep a row from being changed without an error.
pub(super) const KEPT: &str = "a trigger, a rule or a policy keeps it as it is";

/// A write that waits.
#[derive(Debug)]
pub(super) struct WaitingWrite {
    pub(super) write: Write,
    /// The author of the change.
    pub(super) by: Option<Author>,
    answer: oneshot::Sender<Result<Decision, StoreError>>,
}

impl WaitingWrite {
    /// A write, and the receiver for its outcome.
    pub(super) fn new(
        write: Write,
        by: Option<Author>,
    ) -> (Self, oneshot::Receiver<Result<Decision, StoreError>>) {
        let (answer, outcome) = oneshot::channel();
        (Self { write, by, answer }, outcome)
    }

    pub(super) fn answer(self, outcome: Result<Decision, StoreError>) {
        // The client may have disconnected.
        let _ = self.answer.send(outcome);
    }
}

/// Rows that were not written, with the expected revision of each.
#[derive(Default)]
pub(super) struct NotWritten(HashMap<PlantId, Option<i64>>);

impl NotWritten {
    /// Fails if one of these rows was not written before either, although it has not changed.
    pub(super) fn note(&mut self, rows: BTreeMap<PlantId, PlannedRow>) -> Result<(), SessionError> {
        let mut kept = None;
        for (id, row) in rows {
            if self.0.insert(id, row.before) == Some(row.before) {
                kept = Some((id, row.before));
            }
        }
        let Some((id, expected)) = kept else { return Ok(()) };
        Err(SessionError::Refused(match expected {
            Some(revision) => format!(
                "the row of plant {id} cannot be changed: its revision {revision} is not less than the next one, or \
                 {KEPT}"
            ),
            None => format!("the row of plant {id} cannot be made: {KEPT}"),
        }))
    }
}

/// Writes that are committed together.
pub(super) struct WriteGroup {
    /// The unanswered writes of the part being tried, in order.
    pub(super) pending: Vec<WaitingWrite>,
    /// The plants to read before the decision. All other ids are assumed to be free.
    to_read: BTreeSet<PlantId>,
    not_written: NotWritten,
    /// When a write last got its outcome; before that, when the group began.
    pub(super) last_answer: Instant,
    /// Whether PostgreSQL has refused a part of the group.
    pub(super) was_refused: bool,
    /// Whether PostgreSQL took other writes after that.
    pub(super) others_are_taken: bool,
    pub(super) is_rehearsal_refused: bool,
    /// Single writes that PostgreSQL has refused, and why.
    pub(super) refused: Vec<(WaitingWrite, StoreFailure)>,
}

impl WriteGroup {
    pub(super) fn new(to_read: BTreeSet<PlantId>) -> Self {
        Self {
            pending: Vec::new(),
            to_read,
            not_written: NotWritten::default(),
            last_answer: Instant::now(),
            was_refused: false,
            others_are_taken: false,
            is_rehearsal_refused: false,
            refused: Vec::new(),
        }
    }

    pub(super) fn pending_ids(&self) -> BTreeSet<PlantId> {
        self.pending.iter().map(|waiting| waiting.write.id()).collect()
    }

    /// Gives this outcome to all pending writes.
    pub(super) fn answer_pending(&mut self, error: &StoreError) {
        for waiting in self.pending.drain(..) {
            waiting.answer(Err(error.clone()));
        }
        self.last_answer = Instant::now();
    }

    /// Whether any id is assumed to be free, without a read.
    pub(super) fn assumes_free_ids(&self) -> bool {
        self.pending.iter().any(|waiting| !self.to_read.contains(&waiting.write.id()))
    }

    /// Stops assuming that ids are free.
    pub(super) fn read_all_next_time(&mut self) {
        self.to_read.append(&mut self.pending_ids());
    }

    /// Reads the plants of pending writes, except those whose ids are assumed to be free, and decides the writes.
    pub(super) async fn plan(&self, session: &Session) -> Result<Plan, SessionError> {
        let ids = self.pending_ids();
        let ids: Vec<i64> = ids.intersection(&self.to_read).map(|id| id.get()).collect();
        let present = if ids.is_empty() {
            HashMap::new()
        } else {
            present_rows(&session.rows(PLANTS_WITH_IDS, &[&ids]).await?)?
        };
        let writes = self.pending.iter().map(|waiting| (&waiting.write, waiting.by.as_ref()));
        Ok(Plan::of(writes, &present))
    }

    /// Answers the committed writes. Writes whose rows were not written stay pending for another read, because another
    /// client has changed their plants. Fails if a row was not written twice although it has not changed.
    pub(super) fn accept(&mut self, plan: Plan, committed: &Committed) -> Result<(), SessionError> {
        let Plan { decided, mut rows, .. } = plan;
        rows.retain(|id, _| !committed.written.contains(id));
        for (waiting, decided) in mem::take(&mut self.pending).into_iter().zip(decided) {
            if rows.contains_key(&waiting.write.id()) {
                self.to_read.insert(waiting.write.id());
                self.pending.push(waiting);
            } else {
                waiting.answer(decided.map(|decision| committed.with_revision(decision)));
                self.last_answer = Instant::now();
            }
        }
        self.not_written.note(rows)
    }
}

/// The rows that [`PLANTS_WITH_IDS`] has read.
pub(super) fn present_rows(rows: &[Row]) -> Result<HashMap<PlantId, PresentRow>, SessionError> {
    let present = rows.iter().map(PresentRow::of_row).collect::<anyhow::Result<_>>();
    present.map_err(|cause| SessionError::Refused(format!("{cause:#}")))
}
