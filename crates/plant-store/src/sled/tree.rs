//! The log-structured merge tree that readers and writers share: memtables in memory, blocks in sled.

use plant_domain::PlantId;

use super::blocks::{self, BlocksLock};
use super::bloom_filter::BloomFilter;
use super::layout::{Manifest, PLANT_PREFIX};
use super::memtable::Memtables;
use super::ordered_map::Db;
use crate::plant_record::EncodedPlant;

#[derive(Debug)]
pub(super) struct MergeTree {
    pub(super) db: Db,
    /// The changes that sled does not have yet.
    pub(super) memtables: Memtables,
    /// Held while blocks are read from sled.
    pub(super) blocks: BlocksLock,
}

impl MergeTree {
    /// Empty memtables over a sled that has everything up to `manifest`.
    pub(super) fn new(db: Db, manifest: Manifest, ids: BloomFilter) -> Self {
        Self { db, memtables: Memtables::new(manifest, ids), blocks: BlocksLock::default() }
    }

    pub(super) fn record(&self, id: PlantId) -> anyhow::Result<Option<EncodedPlant>> {
        // Memory comes first: a record leaves a memtable only after sled has it.
        {
            let memtables = self.memtables.read();
            if let Some(record) = memtables.plant(id) {
                return Ok(record.clone());
            }
            if !memtables.ids.may_contain(id) {
                return Ok(None);
            }
        }
        let _reading = self.blocks.read()?;
        blocks::get(&self.db, PLANT_PREFIX, id)
    }
}
