//! Rows and events as parameters of statements.

use std::collections::BTreeMap;

use plant_domain::{PlantId, fold_name};
use plant_store::EventKind;
use tokio_postgres::types::ToSql;

use crate::group::{PlannedEvent, PlannedRow};
use crate::statements::kind_number;

/// Events, column by column.
#[derive(Default)]
pub(super) struct EventColumns {
    numbers: Vec<i64>,
    kinds: Vec<i16>,
    ids: Vec<i64>,
    /// By how much the count of plants grows if all events are committed.
    pub(super) more_plants: i64,
}

impl EventColumns {
    pub(super) fn of(events: &[PlannedEvent]) -> Self {
        let mut columns = Self::default();
        for event in events {
            columns.numbers.push(event.number);
            columns.kinds.push(kind_number(event.kind));
            columns.ids.push(event.id.get());
            columns.more_plants += match event.kind {
                EventKind::Created => 1,
                EventKind::Updated => 0,
                EventKind::Deleted => -1,
            };
        }
        columns
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.numbers, &self.kinds, &self.ids]
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
    /// The revisions that the rows must have.
    expected: Vec<Option<i64>>,
}

impl<'a> RowColumns<'a> {
    /// The rows of a plan: new rows, and existing rows.
    pub(super) fn of(rows: &'a BTreeMap<PlantId, PlannedRow>) -> [Self; 2] {
        let [mut new, mut changed] = [Self::default(), Self::default()];
        for (id, row) in rows {
            let columns = if row.before.is_some() { &mut changed } else { &mut new };
            columns.push(*id, row);
        }
        [new, changed]
    }

    fn push(&mut self, id: PlantId, row: &'a PlannedRow) {
        let after = row.after.as_ref();
        let (name, tag) = after.map(|after| after.stored.plant.members()).unzip();
        let digest = after.and_then(|after| after.idempotency);
        self.ids.push(id.get());
        self.numbers.push(row.number);
        self.names.push(name);
        self.folded_names.push(name.map(fold_name));
        self.tags.push(tag.flatten());
        self.idempotency.push(digest.map(|digest| digest.to_bytes().to_vec()));
        self.expected.push(row.before);
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
