//! The entries of a memtable in blocks, in memory: what a backup and an inspection read of the newest changes.

use std::sync::Arc;

use super::Memtable;
use crate::sled::tables::{
    BlockBuilder, BlockEntries, BlockSource, Contents, Entries, EntrySink, Level, Map,
};

/// The blocks of each map.
#[derive(Debug, Default)]
pub(crate) struct MemoryRun {
    blocks: [Vec<Arc<[u8]>>; Map::ALL.len()],
    contents: [Contents; Map::ALL.len()],
    unfinished: [BlockBuilder; Map::ALL.len()],
}

impl MemoryRun {
    /// The entries of a memtable, without the events before `stored_from`.
    pub(crate) fn of(memtable: &Memtable, stored_from: u64) -> anyhow::Result<Self> {
        let mut run = Self::default();
        memtable.write_to(&mut run, stored_from)?;
        for map in Map::ALL {
            run.end_block(map);
        }
        Ok(run)
    }

    pub(crate) const fn contents(&self, map: Map) -> Contents {
        self.contents[map as usize]
    }

    /// The blocks of a map in turn.
    pub(crate) fn blocks(&self, map: Map) -> &[Arc<[u8]>] {
        &self.blocks[map as usize]
    }

    fn end_block(&mut self, map: Map) {
        let unfinished = &mut self.unfinished[map as usize];
        if !unfinished.is_empty() {
            let (first_key, block) = unfinished.take();
            self.contents[map as usize].add(&first_key, &block);
            self.blocks[map as usize].push(block.into());
        }
    }
}

impl EntrySink for MemoryRun {
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        if self.unfinished[map as usize].is_complete() {
            self.end_block(map);
        }
        self.unfinished[map as usize].add(key, value)
    }
}

impl Level for MemoryRun {
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries> {
        Box::new(BlockEntries::new(BlocksOfRun { run: self, map, next: 0 }, from))
    }
}

#[derive(Debug)]
struct BlocksOfRun {
    run: Arc<MemoryRun>,
    map: Map,
    next: usize,
}

impl BlockSource for BlocksOfRun {
    type Bytes = Arc<[u8]>;

    fn next(&mut self) -> anyhow::Result<Option<Arc<[u8]>>> {
        let block = self.run.blocks(self.map).get(self.next).cloned();
        self.next += 1;
        Ok(block)
    }
}
