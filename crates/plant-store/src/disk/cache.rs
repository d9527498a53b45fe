//! The cache of blocks that readers share.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::block::BLOCK_BYTES;

/// A table's number, and where a block begins in the table.
type Key = (u64, u64);

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Key, Arc<[u8]>> for Bytes {
    fn weight(&self, _key: &Key, block: &Arc<[u8]>) -> u64 {
        block.len() as u64
    }
}

/// Recently used blocks. The checksum of each was checked when the block was read.
#[derive(Debug)]
pub(super) struct BlockCache(Cache<Key, Arc<[u8]>, Bytes>);

impl BlockCache {
    /// A cache of this many bytes of blocks.
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        let blocks = usize::try_from(bytes).unwrap_or(usize::MAX) / BLOCK_BYTES;
        Arc::new(Self(Cache::with_weighter(blocks, bytes, Bytes)))
    }

    /// The size of all blocks in the cache.
    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }

    /// The most bytes of blocks that the cache keeps.
    pub(super) fn max_bytes(&self) -> u64 {
        self.0.capacity()
    }

    /// The block, from the cache or by `read`.
    pub(super) fn get(
        &self,
        table: u64,
        offset: u64,
        read: impl FnOnce() -> anyhow::Result<Arc<[u8]>>,
    ) -> anyhow::Result<Arc<[u8]>> {
        self.0.get_or_insert_with(&(table, offset), read)
    }
}
