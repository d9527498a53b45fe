//! The plan of a group: the rows and events that its writes lead to. Column by column, these are parameters of
//! statements.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Context as _;
use plant_domain::{PlantId, PlantRef, fold_name};
use plant_store::write::{Decision, KeptPlant, Write};
use plant_store::{Author, EventKind, IdempotencyDigest, Revision, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::event_columns::EventColumns;
use crate::statements::{EVENTS_IN_A_BLOCK, stored_plant};

/// The first placeholder revision of a plan, whose block has no number yet; 4611686018427387904 in the SQL. Real
/// revisions are smaller.
const PLANNED_REVISIONS: u64 = 1 << 62;

/// The row of a plant before a group. A removed plant may still have a row.
pub(super) struct PresentRow {
    revision: i64,
    plant: Option<KeptPlant>,
}

impl PresentRow {
    /// The id and the row, as read by [`PLANTS_WITH_IDS`](crate::statements::PLANTS_WITH_IDS).
    pub(super) fn of_row(row: &Row) -> anyhow::Result<(PlantId, Self)> {
        let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let idempotency: Option<&[u8]> = row.try_get(4)?;
        let idempotency = idempotency.map(<[u8; IdempotencyDigest::BYTES]>::try_from).transpose();
        let idempotency = idempotency.with_context(|| format!("the row of plant {id}"))?;
        let plant = stored_plant(row)?.map(|stored| KeptPlant {
            stored,
            idempotency: idempotency.map(IdempotencyDigest::from_bytes),
        });
        Ok((PlantId::from(id), Self { revision, plant }))
    }

    fn tag(&self) -> Option<&str> {
        self.plant.as_ref()?.stored.plant.tag()
    }
}

/// The decisions on a group's writes, and the changes that follow.
#[derive(Default)]
pub(super) struct Plan {
    /// The outcome of each write. New revisions are placeholders.
    pub(super) decided: Vec<Result<Decision, StoreError>>,
    pub(super) rows: BTreeMap<PlantId, PlannedRow>,
    /// In order. The place of an event is that of its revision in the block.
    events: Vec<PlannedEvent>,
}

struct PlannedEvent {
    kind: EventKind,
    by: Option<Author>,
    /// The revision of the plant before, or its placeholder.
    before: Option<i64>,
    /// The index of the write.
    write: usize,
}

pub(super) struct PlannedRow {
    /// The revision of the existing row, if any.
    pub(super) before: Option<i64>,
    /// The tag in the existing row.
    pub(super) tag_before: Option<String>,
    /// `None` removes the plant.
    pub(super) after: Option<KeptPlant>,
    /// The place of its new revision in the block.
    pub(super) number: i64,
}

impl Plan {
    /// Decides the writes in order; each sees the effect of those before it.
    pub(super) fn of<'a>(
        writes: impl Iterator<Item = (&'a Write, Option<&'a Author>)>,
        present: &HashMap<PlantId, PresentRow>,
    ) -> Self {
        let mut plan = Self::default();
        let mut number = 0_i64;
        for (index, (write, by)) in writes.enumerate() {
            let id = write.id();
            let present = present.get(&id);
            let (current, before) = match plan.rows.get(&id) {
                Some(row) => (row.after.clone(), Some(planned(row.number))),
                None => (
                    present.and_then(|present| present.plant.clone()),
                    present.map(|present| present.revision),
                ),
            };
            let revision = Revision::from(planned(number).cast_unsigned());
            let decided = write.clone().decide(current, revision);
            if let Ok(decision) = &decided
                && let Some(kind) = decision.event
            {
                plan.events.push(PlannedEvent { kind, by: by.cloned(), before, write: index });
                let row = plan.rows.entry(id).or_insert_with(|| PlannedRow {
                    before: present.map(|present| present.revision),
                    tag_before: present.and_then(PresentRow::tag).map(str::to_owned),
                    after: None,
                    number,
                });
                (row.after, row.number) = (decision.after().cloned(), number);
                number += 1;
            }
            plan.decided.push(decided);
        }
        plan
    }

    pub(super) fn events(&self) -> EventColumns<'_> {
        let mut columns = EventColumns::default();
        for event in &self.events {
            if let Some(Ok(decision)) = self.decided.get(event.write) {
                let id = decision.plant.stored.id;
                let after = decision.after().map(|after| after.stored.plant.members());
                columns.push(event.kind, id, after, event.by.as_ref(), event.before);
            }
        }
        columns
    }
}

/// The placeholder for the revision with this place in the block.
fn planned(number: i64) -> i64 {
    PLANNED_REVISIONS.cast_signed() + number
}

/// The committed part of a plan.
#[derive(Default)]
pub(super) struct Committed {
    pub(super) block: i64,
    /// The plants whose rows were written.
    pub(super) written: BTreeSet<PlantId>,
}

impl Committed {
    /// Replaces the placeholder of a new revision by the real one, which is in the committed block.
    pub(super) fn with_revision(&self, mut decision: Decision) -> Decision {
        let revision = &mut decision.plant.stored.revision;
        *revision = self.revision(*revision);
        decision
    }

    /// The revision that a placeholder stands for. Other revisions stay the same.
    pub(super) fn revision(&self, planned: Revision) -> Revision {
        let Some(number) = planned.get().checked_sub(PLANNED_REVISIONS) else { return planned };
        let first = (self.block * EVENTS_IN_A_BLOCK).cast_unsigned();
        Revision::from(first + number)
    }
}

/// Rows, column by column.
#[derive(Default)]
pub(super) struct RowColumns<'a> {
    pub(super) ids: Vec<i64>,
    numbers: Vec<i64>,
    names: Vec<Option<&'a str>>,
    folded_names: Vec<Option<String>>,
    tags: Vec<Option<&'a str>>,
    idempotency: Vec<Option<Vec<u8>>>,
    /// The revisions that the rows must still have.
    expected: Vec<Option<i64>>,
    pub(super) tag_changes: TagChanges<'a>,
}

/// By how much each row changes the number of plants with a tag, column by column.
#[derive(Default)]
pub(super) struct TagChanges<'a> {
    ids: Vec<i64>,
    tags: Vec<&'a str>,
    more: Vec<i64>,
}

impl<'a> TagChanges<'a> {
    fn push(&mut self, id: PlantId, before: Option<&'a str>, after: Option<&'a str>) {
        if before == after {
            return;
        }
        for (tag, more) in [(before, -1), (after, 1)] {
            if let Some(tag) = tag {
                self.ids.push(id.get());
                self.tags.push(tag);
                self.more.push(more);
            }
        }
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            ids: [&self.ids[..], &other.ids].concat(),
            tags: [&self.tags[..], &other.tags].concat(),
            more: [&self.more[..], &other.more].concat(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
        let Self { ids, tags, more } = self;
        [ids, tags, more]
    }

    /// Each tag once, with the change of its count if all rows are written.
    pub(super) fn sums(&self) -> (Vec<&'a str>, Vec<i64>) {
        let mut sums = BTreeMap::<&str, i64>::new();
        for (tag, more) in self.tags.iter().zip(&self.more) {
            *sums.entry(tag).or_default() += more;
        }
        sums.into_iter().unzip()
    }
}

impl<'a> RowColumns<'a> {
    /// The new rows and the changed rows of a plan.
    pub(super) fn of(rows: &'a BTreeMap<PlantId, PlannedRow>) -> [Self; 2] {
        let [mut new, mut changed] = [Self::default(), Self::default()];
        for (id, row) in rows {
            let columns = if row.before.is_some() { &mut changed } else { &mut new };
            columns.push(*id, row);
        }
        [new, changed]
    }

    pub(super) fn push(&mut self, id: PlantId, row: &'a PlannedRow) {
        let after = row.after.as_ref();
        let members = after.map(|after| after.stored.plant.members());
        let (name, tag) = members.map(|PlantRef { name, tag }| (name, tag)).unzip();
        let digest = after.and_then(|after| after.idempotency);
        self.ids.push(id.get());
        self.numbers.push(row.number);
        self.names.push(name);
        self.folded_names.push(name.map(fold_name));
        self.tags.push(tag.flatten());
        self.idempotency.push(digest.map(|digest| digest.to_bytes().to_vec()));
        self.expected.push(row.before);
        self.tag_changes.push(id, row.tag_before.as_deref(), tag.flatten());
    }

    /// The parameters of an insert.
    pub(super) fn new_rows(&self) -> [&(dyn ToSql + Sync); 6] {
        let Self { ids, numbers, names, folded_names, tags, idempotency, .. } = self;
        [ids, numbers, names, folded_names, tags, idempotency]
    }

    /// The parameters of an update.
    pub(super) fn changed_rows(&self) -> Vec<&(dyn ToSql + Sync)> {
        [&self.new_rows()[..], &[&self.expected]].concat()
    }
}
