//! The cache of blocks that readers share.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// About how many bytes a block takes, for the cache's first allocation.
const BLOCK_BYTES: u64 = 4096;

/// A table's number, and the index of a block.
type Key = (u64, usize);

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Key, Arc<[u8]>> for Bytes {
    fn weight(&self, _key: &Key, block: &Arc<[u8]>) -> u64 {
        block.len() as u64
    }
}

/// Recently used blocks, whose checksums are checked.
#[derive(Debug)]
pub(super) struct BlockCache(Cache<Key, Arc<[u8]>, Bytes>);

impl BlockCache {
    /// A cache of this many bytes of blocks.
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        let blocks = usize::try_from(bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        Arc::new(Self(Cache::with_weighter(blocks, bytes, Bytes)))
    }

    /// The block, from the cache or by `read`.
    pub(super) fn get(
        &self,
        table: u64,
        index: usize,
        read: impl FnOnce() -> anyhow::Result<Arc<[u8]>>,
    ) -> anyhow::Result<Arc<[u8]>> {
        if let Some(block) = self.0.get(&(table, index)) {
            return Ok(block);
        }
        let block = read()?;
        self.0.insert((table, index), Arc::clone(&block));
        Ok(block)
    }
}
