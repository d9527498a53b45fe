//! A group of writes. Each is answered as soon as its outcome is known.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::time::Instant;

use plant_domain::PlantId;
use plant_store::write::{Decision, Write};
use plant_store::{StoreError, StoreFailure};
use tokio::sync::oneshot;

use crate::plan::{Committed, Plan, PresentRow};
use crate::sessions::{Session, SessionError};
use crate::statements::{EVENTS_IN_A_BLOCK, PLANTS_WITH_IDS};

/// The most writes of a group.
pub(super) const MAX_GROUP: usize = 512;
const _: () = assert!(MAX_GROUP as u64 <= EVENTS_IN_A_BLOCK.unsigned_abs());

/// What can keep a row from being changed without an error.
pub(super) const KEPT: &str = "a trigger, a rule or a policy keeps it as it is";

/// A write that waits, and the sender for its outcome.
pub(super) type WaitingWrite = (Write, oneshot::Sender<Result<Decision, StoreError>>);

/// Writes that are committed together.
pub(super) struct WriteGroup {
    /// The unanswered writes of the part being tried, in order.
    pub(super) pending: Vec<WaitingWrite>,
    /// The plants to read before the decision. All other ids are assumed to be free.
    to_read: BTreeSet<PlantId>,
    /// Rows that were not written, with the expected revision of each.
    not_written: HashMap<PlantId, Option<i64>>,
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
            not_written: HashMap::new(),
            last_answer: Instant::now(),
            was_refused: false,
            others_are_taken: false,
            is_rehearsal_refused: false,
            refused: Vec::new(),
        }
    }

    pub(super) fn pending_ids(&self) -> BTreeSet<PlantId> {
        self.pending.iter().map(|(write, _)| write.id()).collect()
    }

    /// Gives this outcome to all pending writes.
    pub(super) fn answer_pending(&mut self, error: &StoreError) {
        for (_, answer) in self.pending.drain(..) {
            // The client may have disconnected.
            let _ = answer.send(Err(error.clone()));
        }
        self.last_answer = Instant::now();
    }

    /// Whether any id is assumed to be free, without a read.
    pub(super) fn assumes_free_ids(&self) -> bool {
        self.pending.iter().any(|(write, _)| !self.to_read.contains(&write.id()))
    }

    /// Stops assuming that ids are free.
    pub(super) fn read_all_next_time(&mut self) {
        self.to_read.append(&mut self.pending_ids());
    }

    /// Reads the plants of pending writes, except those whose ids are assumed to be free, and decides the writes.
    pub(super) async fn plan(&self, session: &Session) -> Result<Plan, SessionError> {
        let mut present = HashMap::new();
        let ids = self.pending_ids();
        let ids: Vec<i64> = ids.intersection(&self.to_read).map(|id| id.get()).collect();
        if !ids.is_empty() {
            for row in session.rows(PLANTS_WITH_IDS, &[&ids]).await? {
                let row = PresentRow::of_row(&row);
                let (id, row) = row.map_err(|cause| SessionError::Refused(format!("{cause:#}")))?;
                present.insert(id, row);
            }
        }
        Ok(Plan::of(self.pending.iter().map(|(write, _)| write), &present))
    }

    /// Answers the committed writes. Writes whose rows were not written stay pending for another read, because another
    /// client has changed their plants. Fails if a row was not written twice although it has not changed.
    pub(super) fn accept(&mut self, plan: Plan, committed: &Committed) -> Result<(), SessionError> {
        let Plan { decided, mut rows, .. } = plan;
        rows.retain(|id, _| !committed.written.contains(id));
        for ((write, answer), decided) in mem::take(&mut self.pending).into_iter().zip(decided) {
            if rows.contains_key(&write.id()) {
                self.to_read.insert(write.id());
                self.pending.push((write, answer));
            } else {
                // The client may have disconnected.
                let _ = answer.send(decided.map(|decision| committed.with_revision(decision)));
                self.last_answer = Instant::now();
            }
        }
        let mut kept = None;
        for (id, row) in rows {
            if self.not_written.insert(id, row.before) == Some(row.before) {
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
