//! The plants of one moment: newer levels override older ones. All of them have only changes that are on disk.

use std::sync::Arc;

use anyhow::Context as _;
use itertools::Itertools as _;
use plant_domain::PlantId;

use crate::record::EncodedPlant;
use crate::sled::compaction::merge::{Merge, Tables};
use crate::sled::keys;
use crate::sled::memtable::Memtable;
use crate::sled::memtable::sorted_map::SortedMap;
use crate::sled::search::text_log::{TextChunks, TextLog};
use crate::sled::tables::{Map, Table};

#[derive(Clone, Debug)]
pub(crate) struct PlantView {
    pub(crate) active: SortedMap<Option<EncodedPlant>>,
    pub(crate) immutable: Option<Arc<Memtable>>,
    /// The texts of the active memtable.
    pub(crate) recent_texts: TextLog,
    pub(crate) tables: Tables,
}

impl PlantView {
    pub(crate) fn record(&self, id: PlantId) -> anyhow::Result<Option<EncodedPlant>> {
        match self.memtables().find_map(|plants| plants.get(id)) {
            Some(record) => Ok(record.clone()),
            None => plant_in(&self.tables, id),
        }
    }

    /// Calls `take` with each plant from an id on, by ascending id, until it returns false. A deleted plant may have no
    /// record, or not be there.
    pub(crate) fn each_from(
        &self,
        from: PlantId,
        mut take: impl FnMut(PlantId, Option<&[u8]>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut older = Merge::new(&self.tables, Map::Plants, &keys::plant_key(from));
        let immutable = self.immutable.iter().flat_map(|memtable| memtable.plants.from(from));
        let recent =
            self.active.from(from).merge_join_by(immutable, |(one, _), (other, _)| one.cmp(other));
        let recent = recent.map(|newest| newest.reduce(|newer, _| newer));
        let mut recent =
            recent.map(|(id, record)| (id, record.as_ref().map(EncodedPlant::bytes))).peekable();
        while let Some((key, record)) = older.next().context("cannot read the plants")? {
            let id = keys::plant_of(key)?;
            while let Some((id, record)) = recent.next_if(|(recent, _)| *recent < id) {
                if !take(id, record)? {
                    return Ok(());
                }
            }
            let newer = recent.next_if(|(recent, _)| *recent == id);
            if !take(id, newer.map_or(record, |(_, newer)| newer))? {
                return Ok(());
            }
        }
        for (id, record) in recent {
            if !take(id, record)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where a scan of about `entries` entries in each level begins that ends before an id. Deleted plants count. `None`
    /// if no level has an entry before the id.
    pub(crate) fn back_from(&self, id: PlantId, entries: usize) -> Option<PlantId> {
        let of_memtables = self.memtables().filter_map(|plants| plants.back_from(id, entries));
        let key = keys::plant_key(id);
        let of_tables = self.tables.iter().filter_map(|table| table.back_from(&key, entries));
        let of_tables = of_tables.map(keys::plant_of_key);
        of_memtables.chain(of_tables).max()
    }

    /// The texts of all plants in memtables.
    pub(crate) fn texts(&self) -> TextChunks {
        let immutable = self.immutable.iter().map(|memtable| &memtable.texts);
        [&self.recent_texts].into_iter().chain(immutable).flat_map(TextLog::chunks).collect()
    }

    /// Newest first.
    fn memtables(&self) -> impl Iterator<Item = &SortedMap<Option<EncodedPlant>>> {
        [&self.active].into_iter().chain(self.immutable.iter().map(|memtable| &memtable.plants))
    }
}

/// The newest record of a plant in tables.
pub(crate) fn plant_in(tables: &[Arc<Table>], id: PlantId) -> anyhow::Result<Option<EncodedPlant>> {
    let key = keys::plant_key(id);
    for table in tables {
        if let Some(record) = table.plant(&key)? {
            return Ok(record.map(EncodedPlant::from));
        }
    }
    Ok(None)
}
