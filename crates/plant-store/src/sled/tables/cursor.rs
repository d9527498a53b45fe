//! Reads the entries of a map of a table in turn.

use std::sync::Arc;

use super::database::{Blocks, Map, SharedBytes};
use super::entries::{BlockEntries, BlockSource, Entries, Level};
use super::table::Table;

impl Level for Table {
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries> {
        let blocks = BlocksOfTable { table: self, map, last_block: from.into(), blocks: None };
        Box::new(BlockEntries::new(blocks, from))
    }
}

/// The blocks of a map from the one that has a key on.
#[derive(Debug)]
struct BlocksOfTable {
    /// `None` until the first block was looked for. Dropped before the table, whose guard must drop the last handle of sled.
    blocks: Option<Blocks>,
    table: Arc<Table>,
    map: Map,
    /// The first key of the block read last; at first, the key.
    last_block: SharedBytes,
}

impl BlocksOfTable {
    fn blocks(&mut self) -> anyhow::Result<&mut Blocks> {
        if self.blocks.is_none() {
            let database = &self.table.database;
            let begin = database.block_of(self.map, &self.last_block, false)?;
            let begin = begin.map(|(first_key, _)| first_key).unwrap_or_default();
            self.blocks = Some(database.blocks_from(self.map, &begin)?);
        }
        Ok(self.blocks.get_or_insert_default())
    }
}

impl BlockSource for BlocksOfTable {
    type Bytes = SharedBytes;

    fn next(&mut self) -> anyhow::Result<Option<SharedBytes>> {
        match self.blocks().and_then(Blocks::next) {
            Ok(None) => Ok(None),
            Ok(Some((first_key, block))) => {
                self.last_block = first_key;
                Ok(Some(block))
            }
            Err(error) => {
                self.blocks = Some(self.table.readable_after(self.map, &self.last_block)?);
                Err(self.table.unreadable(error, self.map, &self.last_block))
            }
        }
    }
}
