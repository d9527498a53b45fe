//! Iterates over the entries of a map of a table.

use std::sync::Arc;

use anyhow::Context as _;

use super::block::BlockCursor;
use super::database::{Blocks, Map, SharedBytes};
use super::entries::{Entries, Entry, Level};
use super::table::Table;

impl Level for Table {
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries> {
        let blocks = BlocksOfTable { table: self, map, last_block: from.into(), blocks: None };
        Box::new(EntriesOfTable { blocks, from: from.to_vec(), block: None })
    }
}

#[derive(Debug)]
struct EntriesOfTable {
    blocks: BlocksOfTable,
    /// Entries before this key are skipped. Empty once an entry was found.
    from: Vec<u8>,
    block: Option<BlockCursor<SharedBytes>>,
}

impl Entries for EntriesOfTable {
    fn advance(&mut self) -> anyhow::Result<bool> {
        loop {
            let Some(block) = &mut self.block else {
                match self.blocks.next()? {
                    Some(block) => self.block = Some(BlockCursor::new(block)),
                    None => return Ok(false),
                }
                continue;
            };
            match block.advance() {
                Ok(false) => self.block = None,
                Ok(true) if block.key() < &self.from[..] => {}
                Ok(true) => {
                    self.from.clear();
                    return Ok(true);
                }
                Err(error) => {
                    self.block = None;
                    return Err(error).context("a block is damaged");
                }
            }
        }
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.block.as_ref().map(|block| (block.key(), block.value()))
    }
}

/// The blocks of a map, from the one that may have a key.
#[derive(Debug)]
struct BlocksOfTable {
    /// `None` until the first block is needed. Declared, and so dropped, before the table, whose guard must drop sled's
    /// last handle.
    blocks: Option<Blocks>,
    table: Arc<Table>,
    map: Map,
    /// The first key of the last block that was read; before that, the key to begin at.
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

    /// The next block. After an error, the next call continues after the damage.
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
