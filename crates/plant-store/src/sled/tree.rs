//! The log-structured merge tree that readers, the commit thread and the compaction thread share.

use std::mem;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::ensure;
use plant_domain::{Plant, PlantId};
use tokio::sync::watch;

use crate::IdempotencyDigest;
use crate::record::{EncodedPlant, Version};
use crate::sled::commit::change::{ChangeGroup, Totals};
use crate::sled::compaction::merge::{Merge, Tables};
use crate::sled::events::record::EventRecord;
use crate::sled::keys::{self, EventKey};
use crate::sled::memtable::Memtable;
use crate::sled::memtable::tag_counts::{TagCountRun, TagCounts};
use crate::sled::plant_view::{PlantView, plant_in};
use crate::sled::search::text_log::TextLog;
use crate::sled::tables::{Map, Table};

#[derive(Debug)]
pub(crate) struct MergeTree {
    levels: RwLock<Levels>,
    /// The sequence number of the newest visible event. Readers of events wait for a greater one.
    shown: watch::Sender<u64>,
}

/// Newer levels override older ones: the active memtable, the immutable one, and the tables.
#[derive(Debug)]
pub(crate) struct Levels {
    /// The totals after all changes.
    pub(crate) totals: Totals,
    active: Memtable,
    immutable: Option<Arc<Memtable>>,
    pub(crate) tables: Tables,
}

impl MergeTree {
    /// A tree with empty memtables, over tables that have everything up to `totals`.
    pub(crate) fn new(tables: Tables, totals: Totals) -> Self {
        let active = Memtable::after(totals.last_sequence);
        let levels = RwLock::new(Levels { totals, active, immutable: None, tables });
        Self { levels, shown: watch::Sender::new(totals.last_sequence) }
    }

    /// Hold the lock only briefly: commits wait for it.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Levels> {
        // A panic may leave a group half applied, but then the group is in the log on disk, and the store has failed.
        self.levels.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Levels> {
        self.levels.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current tables. They stay readable while compaction replaces them.
    pub(crate) fn tables(&self) -> Tables {
        Arc::clone(&self.read().tables)
    }

    /// A snapshot of all levels. Commits wait some milliseconds while the active memtable is copied.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let levels = self.read();
        Snapshot {
            totals: levels.totals,
            immutable: levels.immutable.clone(),
            active: levels.active.clone(),
            tables: Arc::clone(&levels.tables),
        }
    }

    pub(crate) fn record(&self, id: PlantId) -> anyhow::Result<Option<EncodedPlant>> {
        let tables = {
            let levels = self.read();
            if let Some(record) = levels.plant_in_memory(id) {
                return Ok(record.clone());
            }
            Arc::clone(&levels.tables)
        };
        plant_in(&tables, id)
    }

    /// All plants of this moment. A search needs texts.
    pub(crate) fn plants(&self, with_texts: bool) -> PlantView {
        let levels = self.read();
        PlantView {
            active: levels.active.plants.clone(),
            immutable: levels.immutable.clone(),
            recent_texts: if with_texts { levels.active.texts.clone() } else { TextLog::default() },
            tables: Arc::clone(&levels.tables),
        }
    }

    /// Makes a group visible to readers once it is in the write-ahead log on disk.
    pub(crate) fn apply(&self, group: &ChangeGroup) -> anyhow::Result<()> {
        let mut levels = self.write();
        let totals = levels.totals.after(group)?;
        levels.active.apply(group)?;
        levels.totals = totals;
        drop(levels);
        self.shown.send_replace(totals.last_sequence);
        Ok(())
    }

    /// Waits until an event after this sequence number is visible.
    pub(crate) async fn shows_after(&self, sequence: u64) {
        // The sender lives as long as the tree.
        let _ = self.shown.subscribe().wait_for(|shown| *shown > sequence).await;
    }

    /// An event, if it is still stored.
    pub(crate) fn event(&self, sequence: u64) -> anyhow::Result<Option<EventRecord>> {
        let tables = {
            let levels = self.read();
            if let Some(event) = levels.event(sequence) {
                return Ok(Some(event.clone()));
            }
            Arc::clone(&levels.tables)
        };
        let key = keys::event_key(sequence);
        for table in tables.iter().filter(|table| table.has_event(sequence)) {
            if let Some(event) = table.get(Map::Events, &key)?.flatten() {
                return EventRecord::decode(&event).map(Some);
            }
        }
        Ok(None)
    }

    /// The plant that an event has made: the current one, or one that was replaced or deleted since, if it is still
    /// stored.
    pub(crate) fn version(&self, id: PlantId, sequence: u64) -> anyhow::Result<Option<Plant>> {
        if let Some(current) = self.record(id)?
            && current.decode()?.revision == sequence
        {
            return current.to_plant().map(Some);
        }
        match self.event(sequence)? {
            Some(event) if event.id() == id => self.replaced(sequence),
            _ => Ok(None),
        }
    }

    /// The plant that an event has made, if it was replaced or deleted since and is still stored.
    pub(crate) fn replaced(&self, sequence: u64) -> anyhow::Result<Option<Plant>> {
        let tables = {
            let levels = self.read();
            if let Some(version) = levels.memtables().find_map(|it| it.version(sequence)) {
                return version.to_plant().map(Some);
            }
            Arc::clone(&levels.tables)
        };
        let key = keys::version_key(sequence);
        for table in &*tables {
            if let Some(version) = table.get(Map::Events, &key)?.flatten() {
                return Version::decode(&version).map(Some);
            }
        }
        Ok(None)
    }

    /// The newest deletion of a plant before a sequence number, if it is still stored.
    pub(crate) fn deletion_before(
        &self,
        id: PlantId,
        sequence: u64,
    ) -> anyhow::Result<Option<u64>> {
        let tables = {
            let levels = self.read();
            let deletion = levels.memtables().find_map(|it| it.deletion_before(id, sequence));
            if deletion.is_some() {
                return Ok(deletion);
            }
            Arc::clone(&levels.tables)
        };
        let key = keys::deletion_key(id, sequence - 1);
        let mut entries = Merge::new(&tables, Map::Events, &key);
        let Some((key, _)) = entries.next()? else { return Ok(None) };
        Ok(match EventKey::of(key)? {
            EventKey::Deletion(of, deletion) if of == id => Some(deletion),
            _ => None,
        })
    }

    /// The encoded results of a batch, if they are still stored.
    pub(crate) fn batch(
        &self,
        digest: &[u8; IdempotencyDigest::BYTES],
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let tables = {
            let levels = self.read();
            if let Some(batch) = levels.memtables().find_map(|memtable| memtable.batch(digest)) {
                return Ok(Some(batch.results.clone()));
            }
            Arc::clone(&levels.tables)
        };
        let from = keys::batch_key(digest, u64::MAX);
        let mut entries = Merge::new(&tables, Map::Events, &from);
        let Some((key, Some(results))) = entries.next()? else { return Ok(None) };
        let is_it = matches!(EventKey::of(key)?, EventKey::Batch(found, _) if found == *digest);
        Ok(is_it.then(|| results.to_vec()))
    }

    /// Makes the active memtable immutable, and begins the next one. The previous immutable one must be flushed.
    pub(crate) fn freeze(&self) -> anyhow::Result<(Arc<Memtable>, Totals)> {
        let mut levels = self.write();
        ensure!(levels.immutable.is_none(), "there is an immutable memtable already");
        let next = Memtable::after(levels.totals.last_sequence);
        let immutable = Arc::new(mem::replace(&mut levels.active, next));
        levels.immutable = Some(Arc::clone(&immutable));
        Ok((immutable, levels.totals))
    }

    /// Replaces the immutable memtable by its table.
    pub(crate) fn flushed(&self, tables: Tables, stored_from: u64) {
        let mut levels = self.write();
        levels.tables = tables;
        levels.totals = levels.totals.forgetting_before(stored_from);
        let immutable = levels.immutable.take();
        drop(levels);
        // Freeing the memtable takes a while, so the lock is released before.
        drop(immutable);
    }

    /// Replaces the inputs of a merge by its result.
    pub(crate) fn merged(&self, tables: Tables) {
        self.write().tables = tables;
    }
}

/// The state of a tree in one moment.
pub(crate) struct Snapshot {
    pub(crate) totals: Totals,
    pub(crate) immutable: Option<Arc<Memtable>>,
    pub(crate) active: Memtable,
    pub(crate) tables: Tables,
}

impl Levels {
    /// The state of a plant in memory: `None` when no memtable has the plant, `Some(None)` when the plant was
    /// deleted.
    fn plant_in_memory(&self, id: PlantId) -> Option<&Option<EncodedPlant>> {
        self.memtables().find_map(|memtable| memtable.plants.get(id))
    }

    pub(crate) fn active_changes(&self) -> usize {
        self.active.events.len()
    }

    pub(crate) fn changes_in_memory(&self) -> usize {
        self.memtables().map(|memtable| memtable.events.len()).sum()
    }

    /// The counts of tags from a tag on, for at most `most` tags of each memtable.
    pub(crate) fn tag_counts_from(&self, start: &str, most: usize) -> TagCountRun {
        let from_start = (Bound::Included(start), Bound::Unbounded);
        let changed =
            self.memtables().map(|memtable| memtable.tag_counts.range::<str, _>(from_start));
        let end = changed.clone().filter_map(|mut tags| tags.nth(most)).map(|(tag, _)| tag).min();
        let is_in_run = |tag: &str| end.is_none_or(|end| tag < &**end);
        let mut counts = TagCounts::new();
        for (tag, count) in changed.flat_map(|tags| tags.take_while(|(tag, _)| is_in_run(tag))) {
            *counts.entry(tag.clone()).or_default() += count;
        }
        TagCountRun { counts, end: end.cloned() }
    }

    /// The sequence number of the first event in memory, or of the next event if there is none.
    pub(crate) fn first_sequence(&self) -> u64 {
        self.immutable
            .as_ref()
            .map_or(self.active.first_sequence, |immutable| immutable.first_sequence)
    }

    pub(crate) fn event(&self, sequence: u64) -> Option<&EventRecord> {
        self.memtables().find_map(|memtable| memtable.event(sequence))
    }

    /// Newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Memtable> + Clone {
        [&self.active].into_iter().chain(self.immutable.as_deref())
    }
}

/// Adds a table that is newer than all others.
pub(crate) fn with_newest(tables: &[Arc<Table>], newest: Table) -> Tables {
    [Arc::new(newest)].into_iter().chain(tables.iter().cloned()).collect()
}
