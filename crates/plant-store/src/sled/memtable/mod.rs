//! Memtables: the newest changes, which are in the write-ahead log on disk and in no table yet.
//!
//! Changes go to the active memtable until it, or its log segment, is full. It then becomes immutable and is flushed to
//! a table, while the next memtable fills along with the other segment.

pub(crate) mod level;
pub(crate) mod sorted_map;
pub(crate) mod tag_counts;

use std::collections::BTreeMap;
use std::iter::successors;

use anyhow::ensure;
use plant_domain::PlantId;

use self::sorted_map::SortedMap;
use self::tag_counts::TagCounts;
use crate::record::EncodedPlant;
use crate::sled::commit::change::{BatchOutcome, ChangeGroup};
use crate::sled::events::record::{EventCore, EventRecord};
use crate::sled::keys;
use crate::sled::search::text_log::TextLog;
use crate::sled::tables::{EntrySink, Map};
use crate::{Author, IdempotencyDigest};

/// The changes of consecutive groups.
#[derive(Clone, Debug)]
pub(crate) struct Memtable {
    /// The sequence number of the first event, or of the next one while there is none.
    pub(crate) first_sequence: u64,
    /// Each changed plant in its newest state.
    pub(crate) plants: SortedMap<NewestState>,
    /// By how much the changes alter the number of plants with each tag.
    pub(crate) tag_counts: TagCounts,
    /// The texts of the changed plants, for searches.
    pub(crate) texts: TextLog,
    pub(crate) events: Vec<RecentEvent>,
    /// The outcomes of batches, by their digests.
    outcomes: BTreeMap<[u8; IdempotencyDigest::BYTES], BatchOutcome>,
}

/// The newest state of a plant in a memtable.
#[derive(Clone, Debug)]
pub(crate) struct NewestState {
    /// `None` when the plant was deleted.
    pub(crate) record: Option<EncodedPlant>,
    /// The place of its event in the memtable.
    event: usize,
}

/// An event in a memtable.
#[derive(Clone, Debug)]
pub(crate) struct RecentEvent {
    core: EventCore,
    by: Option<Author>,
    /// The plant after the change.
    record: Option<EncodedPlant>,
    /// The place of the previous event of the plant in the memtable.
    previous: Option<usize>,
}

impl RecentEvent {
    pub(crate) fn record(&self) -> anyhow::Result<EventRecord<'_>> {
        let plant = self.record.as_ref().map(EncodedPlant::decode).transpose()?;
        Ok(EventRecord {
            core: self.core,
            by: self.by.as_ref().map(Author::name),
            plant: plant.map(|plant| (plant.name, plant.tag)),
        })
    }
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
            outcomes: BTreeMap::new(),
        }
    }

    /// Adds the next group.
    pub(crate) fn apply(&mut self, group: &ChangeGroup) -> anyhow::Result<()> {
        let next = self.first_sequence + self.events.len() as u64;
        ensure!(group.first_sequence == next, "a group is out of order");
        for (change, by) in group.changes.iter().zip(&group.by) {
            let (id, plant) = (PlantId::from(change.id), change.plant()?);
            let tag = plant.and_then(|plant| plant.tag);
            if tag != change.tag_before.as_deref() {
                tag.into_iter().for_each(|gained| self.count_tag(gained, 1));
                change.tag_before.iter().for_each(|lost| self.count_tag(lost, -1));
            }
            if let Some(plant) = plant {
                self.texts.add(id, plant.name, plant.tag);
            }
            let state = NewestState { record: change.record.clone(), event: self.events.len() };
            let before = self.plants.insert(id, state);
            self.events.push(RecentEvent {
                core: EventCore { kind: change.kind, id: change.id, at_ms: group.at_ms },
                by: by.clone(),
                record: change.record.clone(),
                previous: before.map(|before| before.event),
            });
        }
        for outcome in &group.outcomes {
            self.outcomes.insert(outcome.digest, outcome.clone());
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
                let event = event.record()?.encode()?;
                sink.add(Map::Events, &keys::event_key(sequence), Some(&event))?;
            }
        }
        for (id, state) in self.plants.iter() {
            for (sequence, _) in self.events_back_from(Some(state.event)) {
                if sequence >= stored_from {
                    sink.add(Map::Events, &keys::history_key(id, sequence), Some(&[]))?;
                }
            }
        }
        for BatchOutcome { digest, sequence, results } in self.outcomes.values() {
            if *sequence >= stored_from {
                sink.add(Map::Events, &keys::batch_key(digest, *sequence), Some(results))?;
            }
        }
        for (id, state) in self.plants.iter() {
            let record = state.record.as_ref().map(EncodedPlant::bytes);
            sink.add(Map::Plants, &keys::plant_key(id), record)?;
        }
        Ok(())
    }

    /// The numbers of the first and the last event.
    pub(crate) fn sequences(&self) -> (u64, u64) {
        (self.first_sequence, self.first_sequence + self.events.len() as u64 - 1)
    }

    pub(crate) fn event(&self, sequence: u64) -> Option<&RecentEvent> {
        self.events.get(self.place_of(sequence)?)
    }

    /// The events of a plant before a sequence number, newest first.
    pub(crate) fn history(
        &self,
        id: PlantId,
        before: u64,
    ) -> impl Iterator<Item = (u64, &RecentEvent)> {
        // Usually, `before` is an event of the plant itself, so that no newer ones are passed.
        let known = self.event(before).filter(|event| event.core.id == id.get());
        let newest = || self.plants.get(id).map(|state| state.event);
        let start = known.map_or_else(newest, |event| event.previous);
        self.events_back_from(start).skip_while(move |(sequence, _)| *sequence >= before)
    }

    /// The event at a place, and the earlier ones of its plant.
    fn events_back_from(&self, place: Option<usize>) -> impl Iterator<Item = (u64, &RecentEvent)> {
        let event = |place: usize| Some((place, self.events.get(place)?));
        let all =
            successors(place.and_then(event), move |(_, later)| later.previous.and_then(event));
        all.map(|(place, event)| (self.first_sequence + place as u64, event))
    }

    /// The outcome of a batch.
    pub(crate) fn outcome(&self, digest: &[u8; IdempotencyDigest::BYTES]) -> Option<&BatchOutcome> {
        self.outcomes.get(digest)
    }

    fn place_of(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()
    }
}
