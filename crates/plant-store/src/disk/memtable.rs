//! Memtables: the newest changes, which are on disk in the write-ahead log and not in a table yet.
//!
//! Changes gather in the active memtable until it, or its segment of the log, is full. Then it becomes immutable, and is
//! written as a table while the next memtable fills along with the other segment.

use std::io::Write;

use anyhow::ensure;
use plant_domain::PlantId;

use super::change::{ChangeGroup, EventOfPlant};
use super::keys;
use super::search::text_log::TextLog;
use super::sorted_map::SortedMap;
use super::table_writer::TableWriter;
use super::tag_counts::TagCounts;
use crate::plant_record::EncodedPlant;

/// The changes of consecutive groups.
#[derive(Clone, Debug)]
pub(super) struct Memtable {
    /// The sequence number of the first event, or of the next one while there is none.
    pub(super) first_sequence: u64,
    /// Each changed plant in its newest state; `None` when it was deleted.
    pub(super) plants: SortedMap<Option<EncodedPlant>>,
    /// For each tag that a plant has gained or lost: how many more plants have the tag.
    pub(super) tag_counts: TagCounts,
    /// The texts of the changed plants, for searches.
    pub(super) texts: TextLog,
    pub(super) events: Vec<EventOfPlant>,
}

impl Memtable {
    /// An empty memtable for the events after this one.
    pub(super) fn after(last_sequence: u64) -> Self {
        Self {
            first_sequence: last_sequence + 1,
            plants: SortedMap::default(),
            tag_counts: TagCounts::new(),
            texts: TextLog::default(),
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
            let after = change.record.as_ref().map(EncodedPlant::decode).transpose()?;
            let tag = after.and_then(|after| after.tag);
            if tag != change.tag_before.as_deref() {
                tag.into_iter().for_each(|gained| self.count_tag(gained, 1));
                change.tag_before.iter().for_each(|lost| self.count_tag(lost, -1));
            }
            if let Some(after) = after {
                self.texts.add(id, after.name, after.tag);
            }
            self.plants.insert(id, change.record);
        }
        Ok(())
    }

    fn count_tag(&mut self, tag: &str, more: i64) {
        // Almost always the tag is known, and `entry` would copy it.
        match self.tag_counts.get_mut(tag) {
            Some(count) => *count += more,
            None => drop(self.tag_counts.insert(tag.into(), more)),
        }
    }

    /// Writes the memtable as a table, without the events before `stored_from`.
    pub(super) fn write_to(
        &self,
        table: &mut TableWriter<impl Write>,
        stored_from: u64,
    ) -> anyhow::Result<()> {
        for (tag, count) in self.tag_counts.iter().filter(|(_, count)| **count != 0) {
            table.add(&keys::count_key(tag), Some(&postcard::to_stdvec(count)?))?;
        }
        for (sequence, event) in (self.first_sequence..).zip(&self.events) {
            if sequence >= stored_from {
                table.add(&keys::event_key(sequence), Some(&postcard::to_stdvec(event)?))?;
            }
        }
        for (id, record) in self.plants.iter() {
            table.add(&keys::plant_key(id), record.as_ref().map(EncodedPlant::bytes))?;
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

/// Changed plants from an id on, in their newest state.
pub(super) struct Run {
    pub(super) entries: Vec<(PlantId, Option<EncodedPlant>)>,
    /// The first id after the run, if there may be more.
    pub(super) next: Option<PlantId>,
}

/// About `about` changes of memtables, newest first, from an id on.
pub(super) fn run<'a>(
    memtables: impl Iterator<Item = &'a Memtable> + Clone,
    from: PlantId,
    about: usize,
) -> Run {
    let plants = memtables.map(|memtable| &memtable.plants);
    let next = plants.clone().filter_map(|plants| plants.from(from).nth(about)).map(|(id, _)| id);
    let next = next.min();
    let is_in_run = |id| next.is_none_or(|next| id < next);
    let changes =
        plants.flat_map(|changes| changes.from(from).take_while(|(id, _)| is_in_run(*id)));
    let mut entries: Vec<_> = changes.map(|(id, value)| (id, value.clone())).collect();
    // The sort is stable, so the newest change of each plant comes first, and stays.
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    Run { entries, next }
}
