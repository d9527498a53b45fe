//! Memtables: the newest changes, which are in the write-ahead log on disk and in no table yet.
//!
//! Changes go to the active memtable until it, or its log segment, is full. It then becomes immutable and is flushed to
//! a table, while the next memtable fills along with the other segment.

pub(crate) mod level;
pub(crate) mod sorted_map;
pub(crate) mod tag_counts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use plant_domain::PlantId;

use self::sorted_map::SortedMap;
use self::tag_counts::TagCounts;
use crate::IdempotencyDigest;
use crate::record::{EncodedPlant, Version};
use crate::sled::commit::change::{BatchResults, Change, ChangeGroup};
use crate::sled::events::record::{EventCore, EventRecord};
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
    /// The plants that changes of this memtable replaced or deleted, by the events that had made them.
    versions: BTreeMap<u64, EncodedPlant>,
    /// The deletions of each plant, by their sequence numbers, the newest first.
    deletions: BTreeSet<(PlantId, Reverse<u64>)>,
    /// The results of batches, by their digests.
    batches: BTreeMap<[u8; IdempotencyDigest::BYTES], BatchResults>,
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
            versions: BTreeMap::new(),
            deletions: BTreeSet::new(),
            batches: BTreeMap::new(),
        }
    }

    /// Adds the next group.
    pub(crate) fn apply(&mut self, group: &ChangeGroup) -> anyhow::Result<()> {
        let next = self.first_sequence + self.events.len() as u64;
        ensure!(group.first_sequence == next, "a group is out of order");
        for change in &group.changes {
            let (id, plant) = (PlantId::from(change.id), change.plant()?);
            self.add_event(change, group.at_ms)?;
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
        for batch in &group.batches {
            self.batches.insert(batch.digest, batch.clone());
        }
        Ok(())
    }

    fn add_event(&mut self, change: &Change, at_ms: u64) -> anyhow::Result<()> {
        let mut previous = None;
        if let Some(before) = &change.origin.before {
            let revision = before.decode()?.revision;
            self.versions.insert(revision, before.clone());
            previous = Some(revision);
            if change.record.is_none() {
                let sequence = self.first_sequence + self.events.len() as u64;
                self.deletions.insert((change.id.into(), Reverse(sequence)));
            }
        }
        let core = EventCore { kind: change.kind, id: change.id, at_ms };
        self.events.push(EventRecord { core, by: change.origin.by.clone(), previous });
        Ok(())
    }

    fn count_tag(&mut self, tag: &str, more: i64) {
        // The tag is almost always present, and `entry` would copy it.
        match self.tag_counts.get_mut(tag) {
            Some(count) => *count += more,
            None => drop(self.tag_counts.insert(tag.into(), more)),
        }
    }

    /// Writes all entries except those of events before `history_from`.
    pub(crate) fn write_to(
        &self,
        sink: &mut impl EntrySink,
        history_from: u64,
    ) -> anyhow::Result<()> {
        for (tag, count) in self.tag_counts.iter().filter(|(_, count)| **count != 0) {
            sink.add(Map::Tags, tag.as_bytes(), Some(&postcard::to_stdvec(count)?))?;
        }
        for (sequence, event) in (self.first_sequence..).zip(&self.events) {
            if sequence >= history_from {
                sink.add(Map::Events, &keys::event_key(sequence), Some(&event.encode()?))?;
            }
        }
        for (sequence, record) in self.versions.range(history_from..) {
            let version = Version::encode(record)?;
            sink.add(Map::Events, &keys::version_key(*sequence), Some(&version))?;
        }
        for (id, Reverse(sequence)) in &self.deletions {
            if *sequence >= history_from {
                sink.add(Map::Events, &keys::deletion_key(*id, *sequence), Some(&[]))?;
            }
        }
        for BatchResults { digest, sequence, results } in self.batches.values() {
            if *sequence >= history_from {
                sink.add(Map::Events, &keys::batch_key(digest, *sequence), Some(results))?;
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

    pub(crate) fn event(&self, sequence: u64) -> Option<&EventRecord> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        self.events.get(place)
    }

    /// The plant that an event had made, if this memtable has the event that replaced or deleted it.
    pub(crate) fn version(&self, sequence: u64) -> Option<&EncodedPlant> {
        self.versions.get(&sequence)
    }

    /// The newest deletion of a plant before a sequence number.
    pub(crate) fn deletion_before(&self, id: PlantId, sequence: u64) -> Option<u64> {
        let (of, Reverse(deletion)) = self.deletions.range((id, Reverse(sequence - 1))..).next()?;
        (*of == id).then_some(*deletion)
    }

    /// The results of a batch.
    pub(crate) fn batch(&self, digest: &[u8; IdempotencyDigest::BYTES]) -> Option<&BatchResults> {
        self.batches.get(digest)
    }
}
