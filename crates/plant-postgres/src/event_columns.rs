//! The events of a group, column by column, as parameters of statements.

use plant_domain::PlantId;
use plant_store::{Author, EventKind};
use tokio_postgres::types::ToSql;

use crate::statements::kind_number;

/// NULL as a whole if no event has a value, because that takes no space.
type OptionalColumn<T> = Option<Vec<Option<T>>>;

#[derive(Default)]
pub(super) struct EventColumns<'a> {
    /// The places of the revisions in the block.
    numbers: Vec<i64>,
    kinds: Vec<i16>,
    ids: Vec<i64>,
    authors: OptionalColumn<&'a str>,
    /// The name of each plant after its event; `None` after a deletion.
    names: Vec<Option<&'a str>>,
    tags: OptionalColumn<&'a str>,
    /// The revision of each plant before its event, or the placeholder of that revision.
    before: OptionalColumn<i64>,
    /// By how much the count of plants grows if all rows are written.
    pub(super) more_plants: i64,
}

impl<'a> EventColumns<'a> {
    /// Adds the event with the next place in the block. `after` is the name and the tag of the plant after the event.
    pub(super) fn push(
        &mut self,
        kind: EventKind,
        id: PlantId,
        after: Option<(&'a str, Option<&'a str>)>,
        by: Option<&'a Author>,
        before: Option<i64>,
    ) {
        let (name, tag) = after.unzip();
        self.numbers.push(i64::from(self.count()));
        self.kinds.push(kind_number(kind));
        self.ids.push(id.get());
        self.authors.get_or_insert_default().push(by.map(Author::name));
        self.names.push(name);
        self.tags.get_or_insert_default().push(tag.flatten());
        self.before.get_or_insert_default().push(before);
        self.more_plants += match kind {
            EventKind::Created => 1,
            EventKind::Updated => 0,
            EventKind::Deleted => -1,
        };
    }

    /// The same columns, and NULL for those without values.
    pub(super) fn complete(self) -> Self {
        fn with_values<T>(column: OptionalColumn<T>) -> OptionalColumn<T> {
            column.filter(|values| values.iter().any(Option::is_some))
        }

        let (authors, tags) = (with_values(self.authors), with_values(self.tags));
        Self { authors, tags, before: with_values(self.before), ..self }
    }

    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 7] {
        let Self { numbers, kinds, ids, authors, names, tags, before, .. } = self;
        [numbers, kinds, ids, authors, names, tags, before]
    }

    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.ids.len()).unwrap_or(i32::MAX)
    }
}
