//! A group of writes: its plan for the plants, and the writes that are answered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Instant;

use anyhow::Context as _;
use plant_domain::PlantId;
use plant_store::decision::{Decision, KeptPlant, Write};
use plant_store::{EventKind, IdempotencyDigest, Revision, StoreError};
use tokio_postgres::Row;

use crate::sessions::{Session, SessionError};
use crate::statements::{EVENTS_IN_A_BLOCK, PLANTS_WITH_IDS, stored_plant};

/// How many writes a group has at most.
pub(super) const MAX_GROUP: usize = 512;
const _: () = assert!(MAX_GROUP as u64 <= EVENTS_IN_A_BLOCK.unsigned_abs());

/// The first of the placeholder revisions that a group plans with before it has a block. Real revisions are smaller.
const PLANNED_REVISIONS: u64 = 1 << 62;

/// The known state of a plant that a group writes.
struct Present {
    /// The revision in the row, if there is a row. A removed plant may have a row too.
    revision: Option<i64>,
    plant: Option<KeptPlant>,
}

/// Writes that are carried out together.
pub(super) struct WriteGroup<'a> {
    /// The writes without an outcome, each at its place.
    writes: Vec<Option<Write>>,
    /// Takes the outcome of the write at a place, as soon as it is known.
    answer: &'a mut (dyn FnMut(usize, Result<Decision, StoreError>) + Send),
    /// The positions of the writes that are tried now.
    pub(super) part: Range<usize>,
    /// The plants that must be read before a write of them is decided.
    to_read: BTreeSet<PlantId>,
    present: HashMap<PlantId, Present>,
    /// Rows that were not written, each with the revision that was expected.
    not_written: HashMap<PlantId, Option<i64>>,
    /// When a write last got its outcome; at first, when the group began.
    pub(super) last_answer: Instant,
    /// Whether other writes were carried out since something was refused.
    pub(super) others_are_taken: Option<bool>,
}

/// The plan of a group for its plants.
pub(super) struct Plan {
    /// The outcomes, by place.
    pub(super) decided: Vec<(usize, Result<Decision, StoreError>)>,
    pub(super) rows: BTreeMap<PlantId, PlannedRow>,
    pub(super) events: Vec<PlannedEvent>,
}

pub(super) struct PlannedRow {
    /// The revision in the row, if there is a row.
    pub(super) before: Option<i64>,
    /// `None` removes the plant.
    pub(super) after: Option<KeptPlant>,
    /// Its place among the revisions of the block.
    pub(super) number: i64,
}

pub(super) struct PlannedEvent {
    pub(super) number: i64,
    pub(super) kind: EventKind,
    pub(super) id: PlantId,
}

/// The committed part of a group.
#[derive(Default)]
pub(super) struct Committed {
    pub(super) block: i64,
    /// The plants whose rows were written.
    pub(super) written: BTreeSet<PlantId>,
}

impl<'a> WriteGroup<'a> {
    pub(super) fn new(
        writes: Vec<Write>,
        to_read: BTreeSet<PlantId>,
        answer: &'a mut (dyn FnMut(usize, Result<Decision, StoreError>) + Send),
    ) -> Self {
        Self {
            part: 0..writes.len(),
            writes: writes.into_iter().map(Some).collect(),
            answer,
            to_read,
            present: HashMap::new(),
            not_written: HashMap::new(),
            last_answer: Instant::now(),
            others_are_taken: None,
        }
    }

    /// The pending writes: those of the current part that have no outcome.
    pub(super) fn pending(&self) -> impl Iterator<Item = (usize, &Write)> {
        self.part.clone().filter_map(|place| Some((place, self.writes[place].as_ref()?)))
    }

    pub(super) fn is_done(&self) -> bool {
        self.pending().next().is_none()
    }

    /// The plants of pending writes.
    pub(super) fn pending_ids(&self) -> BTreeSet<PlantId> {
        self.pending().map(|(_, write)| write.id()).collect()
    }

    /// Two parts with half of the pending writes each, unless only one is pending.
    pub(super) fn halves(&self) -> Option<[Range<usize>; 2]> {
        let places: Vec<usize> = self.pending().map(|(place, _)| place).collect();
        let middle = *places.get(places.len() / 2).filter(|_| places.len() > 1)?;
        Some([self.part.start..middle, middle..self.part.end])
    }

    /// Gives all pending writes this outcome.
    pub(super) fn answer_pending(&mut self, error: &StoreError) {
        for place in self.part.clone() {
            if self.writes[place].take().is_some() {
                (self.answer)(place, Err(error.clone()));
            }
        }
        self.last_answer = Instant::now();
    }

    /// Whether an id is assumed to be free, without a read.
    pub(super) fn counts_on_ids(&self) -> bool {
        self.pending().any(|(_, write)| !self.to_read.contains(&write.id()))
    }

    /// Stops assuming that ids are free.
    pub(super) fn read_all_next_time(&mut self) {
        self.to_read.append(&mut self.pending_ids());
    }

    /// Reads the plants of pending writes, except those whose ids are assumed to be free.
    pub(super) async fn read(&mut self, session: &Session) -> Result<(), SessionError> {
        self.present.clear();
        let ids = self.pending_ids();
        let ids: Vec<i64> = ids.intersection(&self.to_read).map(|id| id.get()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for row in session.rows(PLANTS_WITH_IDS, &[&ids]).await? {
            let present = Present::of_row(&row);
            let (id, present) =
                present.map_err(|cause| SessionError::Refused(format!("{cause:#}")))?;
            self.present.insert(id, present);
        }
        Ok(())
    }

    /// Decides the pending writes in order; each sees the effect of those before it.
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan { decided: Vec::new(), rows: BTreeMap::new(), events: Vec::new() };
        let mut number = 0_i64;
        for (place, write) in self.pending() {
            let id = write.id();
            let present = self.present.get(&id);
            let current = match plan.rows.get(&id) {
                Some(row) => row.after.clone(),
                None => present.and_then(|present| present.plant.clone()),
            };
            let planned = Revision::from(PLANNED_REVISIONS + number.cast_unsigned());
            let decided = write.clone().decide(current, planned);
            if let Ok(decision) = &decided
                && let Some(kind) = decision.change
            {
                plan.events.push(PlannedEvent { number, kind, id });
                let row = plan.rows.entry(id).or_insert_with(|| PlannedRow {
                    before: present.and_then(|present| present.revision),
                    after: None,
                    number,
                });
                (row.after, row.number) = (decision.after().cloned(), number);
                number += 1;
            }
            plan.decided.push((place, decided));
        }
        plan
    }

    /// Answers the committed writes. Writes of rows that were not written stay pending, and their plants are read
    /// again, because another client has changed them. Fails when a row was twice not written although no client has
    /// changed it.
    pub(super) fn accept(&mut self, plan: Plan, committed: &Committed) -> Result<(), SessionError> {
        let Plan { decided, rows, .. } = plan;
        let first_revision = (committed.block * EVENTS_IN_A_BLOCK).cast_unsigned();
        let real = |mut decision: Decision| {
            let revision = &mut decision.plant.stored.revision;
            if let Some(number) = revision.get().checked_sub(PLANNED_REVISIONS) {
                *revision = Revision::from(first_revision + number);
            }
            decision
        };
        for (place, decided) in decided {
            let Some(write) = self.writes[place].take() else { continue };
            let id = write.id();
            if rows.contains_key(&id) && !committed.written.contains(&id) {
                self.to_read.insert(id);
                self.writes[place] = Some(write);
                continue;
            }
            (self.answer)(place, decided.map(real));
            self.last_answer = Instant::now();
        }
        let mut kept = None;
        for (id, row) in rows.into_iter().filter(|(id, _)| !committed.written.contains(id)) {
            let expected = row.before;
            if self.not_written.insert(id, expected) == Some(expected) {
                kept = Some((id, expected));
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

/// What prevents the change of a row without an error.
pub(super) const KEPT: &str = "a trigger, a rule or a policy keeps it as it is";

impl Present {
    fn of_row(row: &Row) -> anyhow::Result<(PlantId, Self)> {
        let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let idempotency: Option<&[u8]> = row.try_get(4)?;
        let idempotency = idempotency.map(<[u8; IdempotencyDigest::BYTES]>::try_from).transpose();
        let idempotency = idempotency.with_context(|| format!("the row of plant {id}"))?;
        let plant = stored_plant(row)?.map(|stored| KeptPlant {
            stored,
            idempotency: idempotency.map(IdempotencyDigest::from_bytes),
        });
        Ok((PlantId::from(id), Self { revision: Some(revision), plant }))
    }
}
