//! A group of writes: what it makes of the plants, and which of its writes have their answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Instant;

use anyhow::Context as _;
use plant_domain::{Plant, PlantId};
use plant_store::decision::{Decision, KeptPlant, Write};
use plant_store::{EventKind, IdempotencyDigest, Revision, StoreError, StoredPlant};
use tokio_postgres::Row;

use crate::sessions::{Session, SessionError};
use crate::statements::{EVENTS_IN_A_BLOCK, Statements};

/// How many writes a group has at most.
pub(super) const MAX_GROUP: usize = 512;
const _: () = assert!(MAX_GROUP as u64 <= EVENTS_IN_A_BLOCK.unsigned_abs());

/// Where the revisions begin that a group plans with before it has any. No real one is so great.
const PLANNED_REVISIONS: u64 = 1 << 62;

/// Takes the outcome of the write at a place in its group, as soon as it is known.
pub(super) type AnswerWrite<'a> = &'a mut (dyn FnMut(usize, Result<Decision, StoreError>) + Send);

/// What there is of a plant.
#[derive(Clone, Debug, Default)]
pub(super) struct Present {
    /// The revision in the row, if there is one. A plant that was removed has one too.
    pub(super) revision: Option<i64>,
    pub(super) plant: Option<KeptPlant>,
}

/// Writes that are carried out together.
pub(super) struct WriteGroup<'a> {
    /// Those that have no answer yet, each at its place.
    writes: Vec<Option<Write>>,
    answer: AnswerWrite<'a>,
    /// The places that are tried now.
    pub(super) part: Range<usize>,
    /// The plants that have to be read before anything is decided of them.
    to_read: BTreeSet<PlantId>,
    present: HashMap<PlantId, Present>,
    /// The revisions of rows that were expected and not found.
    not_found: HashMap<PlantId, Option<i64>>,
    /// When it was begun, or a write had its answer last.
    pub(super) last_answer: Instant,
    /// Since something of it was refused: whether other writes were carried out after that.
    pub(super) others_are_taken: Option<bool>,
}

/// What a group would make of its plants.
pub(super) struct Plan {
    /// What is decided of writes, by their place in the group.
    pub(super) decided: Vec<(usize, Result<Decision, StoreError>)>,
    pub(super) rows: BTreeMap<PlantId, PlannedRow>,
    pub(super) events: Vec<PlannedEvent>,
}

pub(super) struct PlannedRow {
    pub(super) before: Present,
    pub(super) after: Option<KeptPlant>,
    /// Its place among the revisions of the block.
    pub(super) number: i64,
}

pub(super) struct PlannedEvent {
    pub(super) number: i64,
    pub(super) kind: EventKind,
    pub(super) id: PlantId,
}

/// What is committed of a group.
pub(super) struct Committed {
    pub(super) block: i64,
    /// The plants whose rows were written.
    pub(super) written: BTreeSet<PlantId>,
}

impl<'a> WriteGroup<'a> {
    pub(super) fn new(
        writes: Vec<Write>,
        to_read: BTreeSet<PlantId>,
        answer: AnswerWrite<'a>,
    ) -> Self {
        Self {
            part: 0..writes.len(),
            writes: writes.into_iter().map(Some).collect(),
            answer,
            to_read,
            present: HashMap::new(),
            not_found: HashMap::new(),
            last_answer: Instant::now(),
            others_are_taken: None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.pending().next().is_none()
    }

    /// What has no answer of the part that is tried now, in two parts, unless that is a single write.
    pub(super) fn halves(&self) -> Option<[Range<usize>; 2]> {
        let places: Vec<usize> = self.pending().map(|(place, _)| place).collect();
        let middle = *places.get(places.len() / 2).filter(|_| places.len() > 1)?;
        Some([self.part.start..middle, middle..self.part.end])
    }

    /// Answers those of the part that is tried now that have no answer yet.
    pub(super) fn answer_pending(&mut self, error: &StoreError) {
        for place in self.part.clone() {
            if self.writes[place].take().is_some() {
                (self.answer)(place, Err(error.clone()));
            }
        }
        self.last_answer = Instant::now();
    }

    /// Whether it takes for granted, without a look, that some id is free.
    pub(super) fn counts_on_ids(&self) -> bool {
        self.pending().any(|(_, write)| !self.to_read.contains(&write.id()))
    }

    /// No longer counts on any id being free.
    pub(super) fn read_all_next_time(&mut self) {
        self.to_read.append(&mut self.pending_ids());
    }

    /// The plants of pending writes.
    pub(super) fn pending_ids(&self) -> BTreeSet<PlantId> {
        self.pending().map(|(_, write)| write.id()).collect()
    }

    /// The writes of the part that is tried now that have no answer yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = (usize, &Write)> {
        self.part.clone().filter_map(|place| Some((place, self.writes[place].as_ref()?)))
    }

    /// Reads the plants of pending writes, except those whose ids are counted on to be free.
    pub(super) async fn read(
        &mut self,
        session: &Session,
        statements: &Statements,
    ) -> Result<(), SessionError> {
        self.present.clear();
        let ids = self.pending_ids();
        let ids: Vec<i64> = ids.intersection(&self.to_read).map(|id| id.get()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for row in session.rows(&statements.plants_with_ids, &[&ids]).await? {
            let (id, present) = Present::of_row(&row).map_err(refused)?;
            self.present.insert(id, present);
        }
        Ok(())
    }

    /// Decides the writes in turn, each as it finds the plants after those before it.
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
                    before: present.cloned().unwrap_or_default(),
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

    /// What was planned is done, but for plants whose rows were not written. Somebody else has changed those, and they
    /// are read again; where it is found then that nobody has, PostgreSQL keeps them from being written.
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
            let expected = row.before.revision;
            if self.not_found.insert(id, expected) == Some(expected) {
                kept = Some((id, expected));
            }
        }
        kept.map_or(Ok(()), |(id, expected)| Err(kept_as_it_is(id, expected)))
    }
}

/// Nobody else changes a row, and yet it was not written.
fn kept_as_it_is(id: PlantId, revision: Option<i64>) -> SessionError {
    SessionError::Refused(match revision {
        Some(revision) => format!(
            "the row of plant {id} cannot be changed: its revision {revision} is not less than the next one, or {KEPT}"
        ),
        None => format!("the row of plant {id} cannot be made: {KEPT}"),
    })
}

/// What keeps a row as it is without an error.
pub(super) const KEPT: &str = "a trigger, a rule or a policy keeps it as it is";

impl Present {
    fn of_row(row: &Row) -> anyhow::Result<(PlantId, Self)> {
        let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (name, tag): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
        let idempotency: Option<&[u8]> = row.try_get(4)?;
        let id = PlantId::from(id);
        let to_plant = |name: &str| -> anyhow::Result<KeptPlant> {
            let idempotency =
                idempotency.map(<[u8; IdempotencyDigest::BYTES]>::try_from).transpose()?;
            // What breaks a rule was not written by a server.
            let plant = Plant::new(name, tag.map(str::to_owned))?;
            let revision = Revision::from(revision.cast_unsigned());
            Ok(KeptPlant {
                stored: StoredPlant { id, plant, revision },
                idempotency: idempotency.map(IdempotencyDigest::from_bytes),
            })
        };
        let plant =
            name.map(to_plant).transpose().with_context(|| format!("the row of plant {id}"))?;
        Ok((id, Self { revision: Some(revision), plant }))
    }
}

fn refused(cause: anyhow::Error) -> SessionError {
    SessionError::Refused(format!("{cause:#}"))
}
