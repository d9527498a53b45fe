//! Postings: the set of blocks that have a plant with a term.
//!
//! A set is encoded as the gaps between its numbers in LEB128, seven bits a byte. If that would not be shorter, the set
//! is encoded as one bit for each block of the chunk. The length tells the two apart.

use anyhow::ensure;
use fixedbitset::FixedBitSet;

/// Builds a set of blocks, whose numbers count from the beginning of the chunk.
#[derive(Debug, Default)]
pub(crate) struct PostingsBuilder {
    gaps: Vec<u8>,
    /// The least number that can follow.
    next: u32,
}

impl PostingsBuilder {
    /// Adds a block, not less than those before. Returns false if the set has it already.
    pub(crate) fn add(&mut self, block: u32) -> bool {
        let Some(mut gap) = block.checked_sub(self.next) else { return false };
        while gap >= 0x80 {
            let [lowest, ..] = gap.to_le_bytes();
            self.gaps.push(lowest | 0x80);
            gap >>= 7;
        }
        let [lowest, ..] = gap.to_le_bytes();
        self.gaps.push(lowest);
        self.next = block + 1;
        true
    }

    /// Encodes the set, in a chunk of this many blocks.
    pub(crate) fn encode(self, blocks: usize) -> anyhow::Result<Vec<u8>> {
        if self.gaps.len() < bitmap_bytes(blocks) {
            return Ok(self.gaps);
        }
        let mut set = FixedBitSet::with_capacity(blocks);
        insert_gaps(&mut set, &self.gaps)?;
        let bytes = set.as_slice().iter().flat_map(|word| word.to_le_bytes());
        Ok(bytes.take(bitmap_bytes(blocks)).collect())
    }
}

fn bitmap_bytes(blocks: usize) -> usize {
    blocks.div_ceil(8)
}

/// Adds encoded postings to a set of the blocks of a chunk.
pub(crate) fn insert(set: &mut FixedBitSet, postings: &[u8]) -> anyhow::Result<()> {
    if postings.len() < bitmap_bytes(set.len()) {
        return insert_gaps(set, postings);
    }
    ensure!(postings.len() == bitmap_bytes(set.len()), "postings have a wrong length");
    let words = postings.chunks(size_of::<usize>()).map(|bytes| {
        let mut word = [0; size_of::<usize>()];
        word[..bytes.len()].copy_from_slice(bytes);
        usize::from_le_bytes(word)
    });
    set.union_with(&FixedBitSet::with_capacity_and_blocks(set.len(), words));
    Ok(())
}

fn insert_gaps(set: &mut FixedBitSet, gaps: &[u8]) -> anyhow::Result<()> {
    let (mut block, mut gap, mut bits) = (0, 0, 0);
    for byte in gaps {
        ensure!(bits < 28, "a gap between postings is too long");
        gap |= usize::from(byte & 0x7f) << bits;
        bits += 7;
        if byte & 0x80 == 0 {
            block += gap;
            ensure!(block < set.len(), "a posting is too great");
            set.insert(block);
            (block, gap, bits) = (block + 1, 0, 0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_is_read_as_it_was_written(
            set in prop_oneof![btree_set(0..700_u32, 0..700), btree_set(0..65_536_u32, 0..9)],
            more in 1_usize..100,
        ) {
            let count = set.last().map_or(0, |last| *last as usize) + more;
            let mut builder = PostingsBuilder::default();
            for block in &set {
                prop_assert!(builder.add(*block));
                prop_assert!(!builder.add(*block));
            }
            let bytes = builder.encode(count).expect("encodes");
            prop_assert!(bytes.len() <= count.div_ceil(8));
            let mut read = FixedBitSet::with_capacity(count);
            insert(&mut read, &bytes).expect("decodes");
            prop_assert!(read.ones().eq(set.iter().map(|it| *it as usize)));
        }
    }

    #[test]
    fn damaged_postings_are_an_error() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff, 1][..], &[0x80 | 100, 2], &[0; 14]] {
            assert!(insert(&mut FixedBitSet::with_capacity(100), bytes).is_err(), "{bytes:?}");
        }
    }
}
