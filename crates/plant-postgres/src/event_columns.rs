//! The events of a group, column by column, as parameters of statements.

use plant_domain::{PlantId, PlantRef};
use plant_store::{Author, EventKind};
use tokio_postgres::types::ToSql;

use crate::statements::kind_number;

#[derive(Default)]
pub(super) struct EventColumns<'a> {
    /// The places of the revisions in the block.
    numbers: Vec<i64>,
    kinds: Vec<i16>,
    ids: Vec<i64>,
    authors: Vec<Option<&'a str>>,
    /// The name of each plant after its event; `None` after a deletion.
    names: Vec<Option<&'a str>>,
    tags: Vec<Option<&'a str>>,
    /// The revision of each plant before its event, or the placeholder of that revision.
    before: Vec<Option<i64>>,
    /// By how much the count of plants grows if all rows are written.
    pub(super) more_plants: i64,
}

impl<'a> EventColumns<'a> {
    /// Adds the event with the next place in the block. `after` is the plant after the event.
    pub(super) fn push(
        &mut self,
        kind: EventKind,
        id: PlantId,
        after: Option<PlantRef<'a>>,
        by: Option<&'a Author>,
        before: Option<i64>,
    ) {
        let (name, tag) = after.map(|PlantRef { name, tag }| (name, tag)).unzip();
        self.numbers.push(i64::from(self.count()));
        self.kinds.push(kind_number(kind));
        self.ids.push(id.get());
        self.authors.push(by.map(Author::name));
        self.names.push(name);
        self.tags.push(tag.flatten());
        self.before.push(before);
        self.more_plants += match kind {
            EventKind::Created => 1,
            EventKind::Updated => 0,
            EventKind::Deleted => -1,
        };
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 7] {
        let Self { numbers, kinds, ids, authors, names, tags, before, .. } = self;
        [numbers, kinds, ids, or_null(authors), names, or_null(tags), or_null(before)]
    }

    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.ids.len()).unwrap_or(i32::MAX)
    }
}

/// A column without values is NULL as a whole, because that takes no space.
fn or_null<T: ToSql + Sync>(column: &Vec<Option<T>>) -> &(dyn ToSql + Sync) {
    if column.iter().any(Option::is_some) { column } else { &None::<Vec<Option<T>>> }
}
