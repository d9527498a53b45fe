//! What sled holds, and what goes with it in memory.

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

use super::layout::{
    self, Event, EventKind, EventRecord, Group, PlantRecord, event_key, plant_key,
};
use super::tag_index::TagIndex;

/// How far the database is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) last_sequence: u64,
    pub(super) plants: u64,
}

pub(super) struct Database {
    pub(super) db: sled::Db,
    pub(super) state: State,
    pub(super) tag_index: TagIndex,
}

impl Database {
    /// Applies a group that is on disk in the journal.
    ///
    /// The writes go to sled one by one, for its batches cost two rolls of its log each. A kill in
    /// between leaves the first of them, in order; the event record comes last, so without it the
    /// group counts as not applied, and is applied again from the journal: each write here may be
    /// made twice.
    pub(super) fn apply(&mut self, group: &Group<'_>) -> anyhow::Result<()> {
        ensure!(group.first_sequence == self.state.last_sequence + 1, "a group is out of order");
        for (revision, change) in (group.first_sequence..).zip(&group.changes) {
            let id = PlantId::from(change.id);
            let record = PlantRecord {
                revision,
                idempotency: change.idempotency,
                name: change.name,
                tag: change.tag,
            };
            self.db.insert(plant_key(id), layout::encode(&record)?).context("writing a plant")?;
            if let Some(tag) = change.tag {
                self.tag_index.add(tag, id);
            }
        }
        let last_sequence = group.last_sequence();
        self.tag_index.fold(&self.db, group.changes.len(), last_sequence)?;

        let mut plants = self.state.plants;
        for change in &group.changes {
            plants += match change.kind {
                EventKind::Created => 1,
            };
        }
        let record = EventRecord {
            plants,
            indexed_through: self.tag_index.indexed_through(),
            events: group.changes.iter().map(Event::of).collect(),
        };
        let key = event_key(group.first_sequence);
        self.db.insert(key, layout::encode(&record)?).context("writing events")?;
        self.state = State { last_sequence, plants };
        Ok(())
    }
}
