//! Postings: the blocks that have a plant with a term, as sets of numbers.
//!
//! The bytes of a set are the gaps between its numbers in LEB128, seven bits a byte, or, when that would not be shorter, one
//! bit for each block of the chunk. The length tells the two apart.

use anyhow::{Context as _, ensure};

/// A set of blocks that is being written; numbers count from the beginning of the chunk.
#[derive(Debug, Default)]
pub(crate) struct PostingsBuilder {
    gaps: Vec<u8>,
    /// The least number that can follow.
    next: u32,
}

impl PostingsBuilder {
    /// Adds a block that is not less than those before. Returns false when it is there already.
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

    /// The bytes of the set in a chunk of this many blocks.
    pub(crate) fn encode(self, blocks: usize) -> anyhow::Result<Vec<u8>> {
        if self.gaps.len() < bitmap_bytes(blocks) {
            return Ok(self.gaps);
        }
        let mut set = BlockSet::none(blocks);
        set.insert_gaps(&self.gaps)?;
        let bytes = set.words.iter().flat_map(|word| word.to_le_bytes());
        Ok(bytes.take(bitmap_bytes(blocks)).collect())
    }
}

fn bitmap_bytes(blocks: usize) -> usize {
    blocks.div_ceil(8)
}

/// A set of blocks of a chunk.
#[derive(Debug)]
pub(crate) struct BlockSet {
    count: usize,
    words: Vec<u64>,
}

impl BlockSet {
    /// No block of a chunk of this many.
    pub(crate) fn none(count: usize) -> Self {
        Self { count, words: vec![0; count.div_ceil(64)] }
    }

    /// Every block of a chunk of this many.
    pub(crate) fn all(count: usize) -> Self {
        let mut all = Self { count, words: vec![u64::MAX; count.div_ceil(64)] };
        if let Some(last) = all.words.last_mut() {
            *last >>= count.wrapping_neg() % 64;
        }
        all
    }

    /// Adds the blocks of encoded postings.
    pub(crate) fn insert(&mut self, postings: &[u8]) -> anyhow::Result<()> {
        if postings.len() < bitmap_bytes(self.count) {
            return self.insert_gaps(postings);
        }
        ensure!(postings.len() == bitmap_bytes(self.count), "postings have a wrong length");
        for (word, bytes) in self.words.iter_mut().zip(postings.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word |= u64::from_le_bytes(whole);
        }
        Ok(())
    }

    fn insert_gaps(&mut self, gaps: &[u8]) -> anyhow::Result<()> {
        let (mut block, mut gap, mut bits) = (0, 0, 0);
        for byte in gaps {
            ensure!(bits < 28, "a gap between postings is too long");
            gap |= usize::from(byte & 0x7f) << bits;
            bits += 7;
            if byte & 0x80 == 0 {
                block += gap;
                let word = self.words.get_mut(block / 64).context("a posting is too great")?;
                *word |= 1 << (block % 64);
                (block, gap, bits) = (block + 1, 0, 0);
            }
        }
        Ok(())
    }

    /// Keeps only the blocks that the other set has too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    pub(crate) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The first block from this one on.
    pub(crate) fn next_from(&self, block: usize) -> Option<usize> {
        let first = self.words.get(block / 64)? & (u64::MAX << (block % 64));
        let later = self.words.iter().enumerate().skip(block / 64 + 1);
        let mut words = [(block / 64, &first)].into_iter().chain(later);
        let (index, word) = words.find(|(_, word)| **word != 0)?;
        Some(index * 64 + word.trailing_zeros() as usize).filter(|found| *found < self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn numbers(set: &BlockSet) -> Vec<usize> {
        let next = |last: &usize| set.next_from(last + 1);
        std::iter::successors(set.next_from(0), next).collect()
    }

    proptest! {
        #[test]
        fn a_set_is_read_as_it_was_written(
            set in btree_set(0..700_u32, 0..700),
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
            let mut read = BlockSet::none(count);
            read.insert(&bytes).expect("decodes");
            prop_assert!(numbers(&read).into_iter().eq(set.iter().map(|it| *it as usize)));
            prop_assert_eq!(read.len(), set.len());
            read.intersect(&BlockSet::all(count));
            prop_assert_eq!(read.len(), set.len());
        }
    }

    #[test]
    fn long_gaps_and_whole_chunks_are_read_as_they_were_written() {
        let mut builder = PostingsBuilder::default();
        for block in [0, 127, 128, 300, 20_000, 65_535] {
            builder.add(block);
        }
        let mut read = BlockSet::none(1 << 16);
        read.insert(&builder.encode(1 << 16).expect("encodes")).expect("decodes");
        assert_eq!(numbers(&read), [0, 127, 128, 300, 20_000, 65_535]);
        for count in [1, 63, 64, 65] {
            assert_eq!(numbers(&BlockSet::all(count)), (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn damaged_postings_are_an_error() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff, 1][..], &[0x80 | 100, 2], &[0; 14]] {
            assert!(BlockSet::none(100).insert(bytes).is_err(), "{bytes:?}");
        }
    }
}
