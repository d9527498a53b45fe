//! What all sorted maps have in common.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use anyhow::Context as _;

use super::block::BlockCursor;
use super::database::Map;

/// A key, and its value; `None` removes the key.
pub(crate) type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

/// Sorted entries that are read in turn.
pub(crate) trait Entries: Debug + Send {
    /// Moves to the next entry. Returns false after the last one. After an error, the next call continues behind the
    /// damage.
    fn advance(&mut self) -> anyhow::Result<bool>;

    /// The current entry.
    fn entry(&self) -> Option<Entry<'_>>;
}

/// Sorted maps of one age: a table, or a part of a backup.
pub(crate) trait Level: Debug + Send + Sync {
    /// The entries of a map from a key on.
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries>;
}

/// Takes entries by ascending key.
pub(crate) trait EntrySink {
    /// Adds an entry whose key is greater than all before in its map; a value of `None` removes the key.
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()>;
}

/// Blocks that are read in turn.
pub(crate) trait BlockSource: Debug + Send {
    type Bytes: Deref<Target = [u8]> + Debug + Send;

    /// The next block. After an error, the next call continues behind the damage.
    fn next(&mut self) -> anyhow::Result<Option<Self::Bytes>>;
}

/// The entries of blocks from a key on.
#[derive(Debug)]
pub(crate) struct BlockEntries<S: BlockSource> {
    source: S,
    /// Entries before this key are skipped; empty once one is found.
    from: Vec<u8>,
    block: Option<BlockCursor<S::Bytes>>,
}

impl<S: BlockSource> BlockEntries<S> {
    pub(crate) fn new(source: S, from: &[u8]) -> Self {
        Self { source, from: from.to_vec(), block: None }
    }
}

impl<S: BlockSource> Entries for BlockEntries<S> {
    fn advance(&mut self) -> anyhow::Result<bool> {
        loop {
            if let Some(block) = &mut self.block {
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
                continue;
            }
            match self.source.next()? {
                Some(block) => self.block = Some(BlockCursor::new(block)),
                None => return Ok(false),
            }
        }
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.block.as_ref().map(|block| (block.key(), block.value()))
    }
}
