//! Memtables: the newest changes, which are in the write-ahead log on disk and in no table yet.
//!
//! Changes go to the active memtable until it, or its log segment, is full. It then becomes immutable and is flushed to
//! a table, while the next memtable fills along with the other segment.

pub(crate) mod level;
mod sorted_map;
pub(crate) mod tag_counts;

use anyhow::ensure;
use plant_domain::PlantId;

use self::sorted_map::SortedMap;
use self::tag_counts::TagCounts;
use crate::record::{EncodedPlant, PlantRecord};
use crate::sled::commit::change::{ChangeGroup, EventRecord};
use crate::sled::keys;
use crate::sled::search::text_log::TextLog;
use crate::sled::tables::{EntrySink, Map};

/// The changes of consecutive groups.
#[derive(Clone, Debug)]
pub(crate) struct Memtable {
    /// The sequence number of the first event, or of the next one while there is none.
    pub(crate) first_sequence: u64,
    /// Each changed plant in its newest state; `None` when it was deleted.
    pub(crate) plants: SortedMap<Option<EncodedPlant>>,
    /// By how much the changes alter the number of plants with each tag.
    pub(crate) tag_counts: TagCounts,
    /// The texts of the changed plants, for searches.
    pub(crate) texts: TextLog,
    pub(crate) events: Vec<EventRecord>,
}

impl Memtable {
    /// An empty memtable for the events after this one.
    pub(crate) fn after(last_sequence: u64) -> Self {
        Self {
            first_sequence: last_sequence + 1,
            plants: SortedMap::default(),
            tag_counts: TagCounts::new(),
            texts: TextLog::default(),
            events: Vec::new(),
        }
    }

    /// Adds the next group. `plants` are the plants after its changes.
    pub(crate) fn apply(
        &mut self,
        group: &ChangeGroup,
        plants: &[Option<PlantRecord<'_>>],
    ) -> anyhow::Result<()> {
        let next = self.first_sequence + self.events.len() as u64;
        ensure!(group.first_sequence == next, "a group is out of order");
        for (change, plant) in group.changes.iter().zip(plants) {
            let id = PlantId::from(change.id);
            self.events.push(change.event(group.at_ms));
            let tag = plant.and_then(|plant| plant.tag);
            if tag != change.tag_before.as_deref() {
                tag.into_iter().for_each(|gained| self.count_tag(gained, 1));
                change.tag_before.iter().for_each(|lost| self.count_tag(lost, -1));
            }
            if let Some(plant) = plant {
                self.texts.add(id, plant.name, plant.tag);
            }
            self.plants.insert(id, change.record.clone());
        }
        Ok(())
    }

    fn count_tag(&mut self, tag: &str, more: i64) {
        // The tag is almost always present, and `entry` would copy it.
        match self.tag_counts.get_mut(tag) {
            Some(count) => *count += more,
            None => drop(self.tag_counts.insert(tag.into(), more)),
        }
    }

    /// Writes all entries except events before `stored_from`.
    pub(crate) fn write_to(
        &self,
        sink: &mut impl EntrySink,
        stored_from: u64,
    ) -> anyhow::Result<()> {
        for (tag, count) in self.tag_counts.iter().filter(|(_, count)| **count != 0) {
            sink.add(Map::Tags, tag.as_bytes(), Some(&postcard::to_stdvec(count)?))?;
        }
        for (sequence, event) in (self.first_sequence..).zip(&self.events) {
            if sequence >= stored_from {
                sink.add(Map::Events, &keys::event_key(sequence), Some(&event.encode()?))?;
            }
        }
        for (id, record) in self.plants.iter() {
            let record = record.as_ref().map(EncodedPlant::bytes);
            sink.add(Map::Plants, &keys::plant_key(id), record)?;
        }
        Ok(())
    }

    /// The numbers of the first and the last event.
    pub(crate) fn sequences(&self) -> (u64, u64) {
        (self.first_sequence, self.first_sequence + self.events.len() as u64 - 1)
    }

    pub(crate) fn event(&self, sequence: u64) -> Option<EventRecord> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        self.events.get(place).copied()
    }
}

/// Changed plants from an id on, in their newest state.
pub(crate) struct Run {
    pub(crate) entries: Vec<(PlantId, Option<EncodedPlant>)>,
    /// The first id after the run, if there may be more.
    pub(crate) next: Option<PlantId>,
}

/// The changed plants from an id on, about `about` of them. `memtables` are newest first.
pub(crate) fn run<'a>(
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
    // The sort is stable: the newest change of each plant comes first, and `dedup` keeps it.
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    Run { entries, next }
}
