//! Rows and events of a group as statements take them: column by column.

use plant_domain::{PlantId, fold_name};
use plant_store::EventKind;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::group::{Plan, PlannedEvent, PlannedRow};
use crate::statements::kind_number;

/// What a group would make of its plants, as statements take it.
pub(super) struct PlanColumns<'a> {
    /// Rows that are not there yet.
    pub(super) new: RowColumns<'a>,
    pub(super) changed: RowColumns<'a>,
    pub(super) events: EventColumns,
}

impl<'a> PlanColumns<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let [mut new, mut changed] = [RowColumns::default(), RowColumns::default()];
        for (id, row) in &plan.rows {
            let columns = if row.before.revision.is_some() { &mut changed } else { &mut new };
            columns.push(*id, row);
        }
        let mut events = EventColumns::default();
        for event in &plan.events {
            events.push(event);
        }
        Self { new, changed, events }
    }
}

/// Events, each column on its own.
#[derive(Default)]
pub(super) struct EventColumns {
    numbers: Vec<i64>,
    kinds: Vec<i16>,
    ids: Vec<i64>,
    /// By how much the counts grow with them. Where rows may not be written, PostgreSQL counts those that are.
    pub(super) more_plants: i64,
    pub(super) more_events: i64,
}

impl EventColumns {
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.numbers, &self.kinds, &self.ids]
    }

    pub(super) fn push(&mut self, event: &PlannedEvent) {
        self.numbers.push(event.number);
        self.kinds.push(kind_number(event.kind));
        self.ids.push(event.id.get());
        self.more_plants += match event.kind {
            EventKind::Created => 1,
            EventKind::Updated => 0,
            EventKind::Deleted => -1,
        };
        self.more_events += 1;
    }
}

/// Rows, each column on its own.
#[derive(Default)]
pub(super) struct RowColumns<'a> {
    pub(super) ids: Vec<i64>,
    pub(super) numbers: Vec<i64>,
    pub(super) names: Vec<Option<&'a str>>,
    pub(super) folded_names: Vec<Option<String>>,
    pub(super) tags: Vec<Option<&'a str>>,
    pub(super) idempotency: Vec<Option<Vec<u8>>>,
    /// The revisions that the rows must have.
    pub(super) expected: Vec<Option<i64>>,
}

impl<'a> RowColumns<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// As a statement takes them, but for what is expected.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 6] {
        let Self { ids, numbers, names, folded_names, tags, idempotency, .. } = self;
        [ids, numbers, names, folded_names, tags, idempotency]
    }

    /// As a statement takes them that changes rows.
    pub(super) fn parameters_of_change(&self) -> Vec<&(dyn ToSql + Sync)> {
        [&self.parameters()[..], &[&self.expected]].concat()
    }

    pub(super) fn of_sample(sample: &'a Sample, number: i64) -> Self {
        Self {
            ids: vec![sample.id],
            numbers: vec![number],
            names: vec![Some(&sample.name)],
            folded_names: vec![Some(fold_name(&sample.name))],
            tags: vec![sample.tag.as_deref()],
            idempotency: vec![None],
            expected: vec![None],
        }
    }

    pub(super) fn push(&mut self, id: PlantId, row: &'a PlannedRow) {
        let after = row.after.as_ref();
        let (name, tag) = after.map(|after| after.stored.plant.members()).unzip();
        let digest = after.and_then(|after| after.idempotency);
        self.ids.push(id.get());
        self.numbers.push(row.number);
        self.names.push(name);
        self.folded_names.push(name.map(fold_name));
        self.tags.push(tag.flatten());
        self.idempotency.push(digest.map(|digest| digest.to_bytes().to_vec()));
        self.expected.push(row.before.revision);
    }
}

/// A plant as it stands in its row.
pub(super) struct Sample {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) tag: Option<String>,
}

impl Sample {
    pub(super) fn of_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { id: row.try_get(0)?, name: row.try_get(1)?, tag: row.try_get(2)? })
    }
}
