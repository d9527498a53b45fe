//! A Bloom filter over the keys of a map.
//!
//! Reads of plants skip the tables whose filter does not contain the key. So does a create when it checks that its id
//! is free.
//!
//! The filter is blocked: all bits of a key are in one word, so a lookup costs one memory access (Putze, Sanders and
//! Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007).

use anyhow::ensure;
use xxhash_rust::xxh3::xxh3_64;

/// With four bits set for each key, about 0.2 % of other keys are false positives.
const BITS_FOR_A_KEY: usize = 24;

const WORD_BYTES: usize = size_of::<u64>();

/// A set that contains every added key, and a few others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BloomFilter(Vec<u64>);

impl BloomFilter {
    /// A filter for this many keys.
    pub(crate) fn with_room_for(keys: usize) -> Self {
        Self(vec![0; keys.saturating_mul(BITS_FOR_A_KEY) / 64 + 1])
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = xxh3_64(key);
        let place = place(hash, self.0.len());
        self.0[place] |= bits(hash);
    }

    /// Whether the key may have been added. No false negatives.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        let hash = xxh3_64(key);
        let bits = bits(hash);
        self.0[place(hash, self.0.len())] & bits == bits
    }

    /// The bytes of the filter, in pieces of this many words.
    pub(crate) fn pieces(&self, words: usize) -> impl Iterator<Item = Vec<u8>> {
        self.0.chunks(words).map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        ensure!(!words.is_empty() && rest.is_empty(), "a Bloom filter of {} bytes", bytes.len());
        Ok(Self(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
    }
}

/// The index of a hash's word: the upper bits of the hash, scaled to the number of words.
fn place(hash: u64, words: usize) -> usize {
    let place = (u128::from(hash) * words as u128) >> u64::BITS;
    // The place is less than `words`, so it fits.
    usize::try_from(place).unwrap_or(0)
}

/// Four bits, chosen by the lower bits of a hash.
const fn bits(hash: u64) -> u64 {
    (1 << (hash % 64))
        | (1 << ((hash >> 6) % 64))
        | (1 << ((hash >> 12) % 64))
        | (1 << ((hash >> 18) % 64))
}
