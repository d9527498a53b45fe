//! Memtables: the newest changes, which are on disk in the write-ahead log and not in a table yet.
//!
//! Changes gather in the active memtable until it, or its segment of the log, is full. Then it becomes immutable, and is
//! written as a table while the next memtable fills along with the other segment.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::ensure;
use plant_domain::PlantId;

use super::change::{ChangeGroup, EventOfPlant};
use super::keys;
use super::sorted_map::SortedMap;
use super::table_writer::TableWriter;
use crate::plant_record::EncodedPlant;

/// The changes of consecutive groups.
#[derive(Debug)]
pub(super) struct Memtable {
    /// The sequence number of the first event, or of the next one while there is none.
    pub(super) first_sequence: u64,
    /// Each changed plant in its newest state; `None` when it was deleted.
    pub(super) plants: SortedMap<Option<EncodedPlant>>,
    /// For each tag that a changed plant has or has lost: whether the plant has the tag now.
    pub(super) tags: BTreeMap<Box<str>, SortedMap<bool>>,
    pub(super) events: Vec<EventOfPlant>,
}

impl Memtable {
    /// An empty memtable for the events after this one.
    pub(super) fn after(last_sequence: u64) -> Self {
        Self {
            first_sequence: last_sequence + 1,
            plants: SortedMap::default(),
            tags: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Adds the next group.
    pub(super) fn apply(&mut self, group: ChangeGroup) -> anyhow::Result<()> {
        let next = self.first_sequence + self.events.len() as u64;
        ensure!(group.first_sequence == next, "a group is out of order");
        for change in group.changes {
            let id = PlantId::from(change.id);
            self.events.push(change.event(group.at_ms));
            if let Some(left) = &change.left_tag {
                self.set_tag(left, id, false);
            }
            if let Some(record) = &change.record
                && let Some(tag) = record.decode()?.tag
            {
                self.set_tag(tag, id, true);
            }
            self.plants.insert(id, change.record);
        }
        Ok(())
    }

    fn set_tag(&mut self, tag: &str, id: PlantId, has_tag: bool) {
        // Almost always the tag is known, and `entry` would copy it.
        match self.tags.get_mut(tag) {
            Some(plants) => plants.insert(id, has_tag),
            None => self.tags.entry(tag.into()).or_default().insert(id, has_tag),
        }
    }

    /// Writes the memtable as a table, without the events before `stored_from`.
    pub(super) fn write_to(
        &self,
        table: &mut TableWriter<impl Write>,
        stored_from: u64,
    ) -> anyhow::Result<()> {
        for (sequence, event) in (self.first_sequence..).zip(&self.events) {
            if sequence >= stored_from {
                table.add(&keys::event_key(sequence), Some(&postcard::to_stdvec(event)?))?;
            }
        }
        for (id, record) in self.plants.iter() {
            table.add(&keys::plant_key(id), record.as_ref().map(EncodedPlant::bytes))?;
        }
        for (tag, plants) in &self.tags {
            for (id, has_tag) in plants.iter() {
                table.add(&keys::tag_key(tag, id), has_tag.then_some(&[]))?;
            }
        }
        Ok(())
    }

    /// The numbers of the first and the last event.
    pub(super) fn sequences(&self) -> (u64, u64) {
        (self.first_sequence, self.first_sequence + self.events.len() as u64 - 1)
    }

    pub(super) fn event(&self, sequence: u64) -> Option<EventOfPlant> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        self.events.get(place).copied()
    }
}

pub(super) struct Run<T> {
    pub(super) entries: Vec<(PlantId, T)>,
    /// The first id after the run, if there may be more.
    pub(super) next: Option<PlantId>,
}

/// Merges the changes of memtables, newest first, from an id on.
pub(super) fn run<'a, T: Clone + 'a>(
    memtables: impl Iterator<Item = &'a SortedMap<T>> + Clone,
    from: PlantId,
    about: usize,
) -> Run<T> {
    let next =
        memtables.clone().filter_map(|plants| plants.from(from).nth(about)).map(|(id, _)| id);
    let next = next.min();
    let is_in_run = |id| next.is_none_or(|next| id < next);
    let changes =
        memtables.flat_map(|changes| changes.from(from).take_while(|(id, _)| is_in_run(*id)));
    let mut entries: Vec<_> = changes.map(|(id, value)| (id, value.clone())).collect();
    // The sort is stable, so the newest change of each plant comes first, and stays.
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    Run { entries, next }
}
