//! Memtables: the newest changes, which are on disk in the write-ahead log and not in sled yet.
//!
//! Writing many changes to sled by ascending id takes much less work than writing the same changes one by one. So
//! changes gather in the active memtable until it, or its segment of the log, is full. Then it becomes immutable, and
//! compaction merges it into sled while the next memtable fills along with the other segment.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::ensure;
use plant_domain::PlantId;

use super::bloom_filter::BloomFilter;
use super::layout::{ChangeGroup, EventOfPlant, Manifest};
use crate::EventKind;
use crate::plant_record::EncodedPlant;

/// The changes of consecutive groups.
#[derive(Debug)]
pub(super) struct Memtable {
    /// The sequence number of the first event, or of the next one while there is none.
    pub(super) first_sequence: u64,
    /// Each changed plant in its newest state; `None` when it was deleted.
    pub(super) plants: BTreeMap<PlantId, Option<EncodedPlant>>,
    /// For each tag that a changed plant has or has lost: whether the plant has the tag now.
    pub(super) tags: BTreeMap<Box<str>, BTreeMap<PlantId, bool>>,
    pub(super) events: Vec<EventOfPlant>,
}

impl Memtable {
    /// An empty memtable for the events after this one.
    pub(super) const fn after(last_sequence: u64) -> Self {
        Self {
            first_sequence: last_sequence + 1,
            plants: BTreeMap::new(),
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
            self.events.push(change.event());
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
            Some(plants) => drop(plants.insert(id, has_tag)),
            None => drop(self.tags.entry(tag.into()).or_default().insert(id, has_tag)),
        }
    }

    fn event(&self, sequence: u64) -> Option<EventOfPlant> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        self.events.get(place).copied()
    }
}

/// The active and the immutable memtable, and the manifest that they lead to.
#[derive(Debug)]
pub(super) struct MemtablePair {
    pub(super) manifest: Manifest,
    /// Contains every id in use, and each one that was in use since the start.
    pub(super) ids: BloomFilter,
    active: Memtable,
    immutable: Option<Arc<Memtable>>,
}

impl MemtablePair {
    /// The state of a plant in memory: `None` when no memtable has the plant, `Some(None)` when the plant was
    /// deleted.
    pub(super) fn plant(&self, id: PlantId) -> Option<&Option<EncodedPlant>> {
        self.newest_first().find_map(|memtable| memtable.plants.get(&id))
    }

    pub(super) fn active_changes(&self) -> usize {
        self.active.events.len()
    }

    pub(super) fn plants_from(&self, from: PlantId, about: usize) -> Run<Option<EncodedPlant>> {
        run(self.newest_first().map(|memtable| &memtable.plants), from, about)
    }

    /// About `about` plants from an id on that have a tag, or have lost it.
    pub(super) fn plants_with_tag(&self, tag: &str, from: PlantId, about: usize) -> Run<bool> {
        run(self.newest_first().filter_map(|memtable| memtable.tags.get(tag)), from, about)
    }

    /// The sequence number of the first event in memory, or of the next one while there is none.
    pub(super) fn first_sequence(&self) -> u64 {
        self.immutable
            .as_ref()
            .map_or(self.active.first_sequence, |immutable| immutable.first_sequence)
    }

    pub(super) fn event(&self, sequence: u64) -> Option<EventOfPlant> {
        self.newest_first().find_map(|memtable| memtable.event(sequence))
    }

    fn newest_first(&self) -> impl Iterator<Item = &Memtable> + Clone {
        [&self.active].into_iter().chain(self.immutable.as_deref())
    }
}

pub(super) struct Run<T> {
    pub(super) entries: Vec<(PlantId, T)>,
    /// The first id after the run, if there may be more.
    pub(super) next: Option<PlantId>,
}

/// Merges the changes of memtables, newest first, from an id on.
fn run<'a, T: Clone + 'a>(
    memtables: impl Iterator<Item = &'a BTreeMap<PlantId, T>> + Clone,
    from: PlantId,
    about: usize,
) -> Run<T> {
    let next =
        memtables.clone().filter_map(|plants| plants.range(from..).nth(about).map(|(id, _)| *id));
    let next = next.min();
    let end = next.map_or(Bound::Unbounded, Bound::Excluded);
    let changes = memtables.flat_map(|changes| changes.range((Bound::Included(from), end)));
    let mut entries: Vec<_> = changes.map(|(id, value)| (*id, value.clone())).collect();
    // The sort is stable, so the newest change of each plant comes first, and stays.
    entries.sort_by_key(|(id, _)| *id);
    entries.dedup_by_key(|(id, _)| *id);
    Run { entries, next }
}

/// The memtables, shared by readers, the commit thread and the compaction thread.
#[derive(Debug)]
pub(super) struct Memtables(RwLock<MemtablePair>);

impl Memtables {
    pub(super) const fn new(manifest: Manifest, ids: BloomFilter) -> Self {
        let active = Memtable::after(manifest.last_sequence);
        Self(RwLock::new(MemtablePair { manifest, ids, active, immutable: None }))
    }

    /// Hold the lock only briefly: writes wait for it.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, MemtablePair> {
        // A group that a panic has left half applied is on disk in the log, and the store has failed.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemtablePair> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows readers a group that is on disk in the write-ahead log.
    pub(super) fn apply(&self, group: ChangeGroup) -> anyhow::Result<()> {
        let mut pair = self.write();
        let manifest = pair.manifest.after(&group.changes)?;
        for change in &group.changes {
            let id = PlantId::from(change.id);
            // An id that is used again must not be added twice, or the filter would fill up.
            if change.kind == EventKind::Created && !pair.ids.may_contain(id) {
                pair.ids.add(id);
            }
        }
        pair.active.apply(group)?;
        pair.manifest = manifest;
        Ok(())
    }

    /// Makes the active memtable immutable and begins the next one. The previous one must be in sled already.
    pub(super) fn freeze(&self) -> anyhow::Result<(Arc<Memtable>, Manifest)> {
        let mut pair = self.write();
        ensure!(pair.immutable.is_none(), "a memtable is immutable already");
        let next = Memtable::after(pair.manifest.last_sequence);
        let immutable = Arc::new(mem::replace(&mut pair.active, next));
        pair.immutable = Some(Arc::clone(&immutable));
        Ok((immutable, pair.manifest))
    }

    /// Drops the immutable memtable: sled has it, and the events from `kept_from` on.
    pub(super) fn compacted(&self, kept_from: u64) {
        let mut pair = self.write();
        pair.manifest.kept_from = kept_from;
        let immutable = pair.immutable.take();
        drop(pair);
        // Freeing it takes a while, so the lock goes first.
        drop(immutable);
    }
}
