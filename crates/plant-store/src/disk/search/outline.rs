//! What the tail of a table says of its search index.

use std::ops::Range;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// Where the granules and the chunks of a table are. Granules are numbered from the beginning of the table.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct IndexOutline {
    /// For each block of entries, how many granules are before the block.
    pub(super) granules_before: Vec<u32>,
    /// The first granule of each chunk.
    pub(super) chunks: Vec<u32>,
    /// How many granules there are.
    pub(super) granules: u32,
}

impl IndexOutline {
    /// Checks the outline of a table with so many blocks and plant entries. The other methods rely on this.
    pub(in super::super) fn check(&self, blocks: usize, plant_entries: u64) -> anyhow::Result<()> {
        let Self { granules_before, chunks, granules } = self;
        let are_right = granules_before.len() == blocks
            && granules_before.is_sorted()
            && granules_before.last().is_none_or(|last| last <= granules)
            && chunks.is_sorted_by(|one, next| one < next)
            && chunks.last().is_none_or(|last| last < granules)
            && u64::from(*granules) <= plant_entries;
        ensure!(are_right, "the outline of its search index is damaged");
        Ok(())
    }

    /// How many granules are before a block of entries.
    pub(super) fn granules_before_block(&self, index: usize) -> u32 {
        self.granules_before.get(index).copied().unwrap_or_default()
    }

    /// The granules of the chunk with this number. The chunk behind the last one is empty.
    pub(super) fn chunk(&self, number: usize) -> Range<u32> {
        let begin = |number| self.chunks.get(number).copied().unwrap_or(self.granules);
        begin(number)..begin(number + 1)
    }

    /// The number of the chunk with this granule.
    pub(super) fn chunk_of(&self, granule: u32) -> usize {
        self.chunks.partition_point(|begin| *begin <= granule).saturating_sub(1)
    }

    /// The index of the block with this granule, and how many granules of the block are before.
    pub(super) fn block_of(&self, granule: u32) -> Option<(usize, u32)> {
        let index = self.granules_before.partition_point(|before| *before <= granule);
        let index = index.checked_sub(1)?;
        Some((index, granule - self.granules_before[index]))
    }
}
