//! Rows and events as statements take and return them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use plant_domain::{Plant, PlantId, fold_name};
use plant_store::{EventKind, Revision, StoredPlant};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::group::{PlannedEvent, PlannedRow};
use crate::statements::kind_number;

/// The plant in a row that begins with id, revision, name and tag; `None` for a removed plant. It goes through the create
/// rules again: a row that breaks one was not written by this program.
pub(super) fn stored_plant(row: &Row) -> anyhow::Result<Option<StoredPlant>> {
    let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (name, tag): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
    let Some(name) = name else { return Ok(None) };
    let plant = Plant::new(name, tag);
    let plant = plant.with_context(|| format!("the row of plant {id} breaks the rules"))?;
    let revision = Revision::from(revision.cast_unsigned());
    Ok(Some(StoredPlant { id: PlantId::from(id), plant, revision }))
}

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
    /// The rows of a plan: the new ones, and those that are there already.
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
