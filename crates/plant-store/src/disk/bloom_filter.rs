//! A Bloom filter over the ids of a table.
//!
//! A read of a plant, and the check of a create that its id is free, skip the tables whose filter does not contain the id.
//!
//! The filter is blocked: all bits of an id are in one word, so a lookup costs one memory access (Putze, Sanders and
//! Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007).

use anyhow::ensure;
use plant_domain::PlantId;
use xxhash_rust::xxh3::xxh3_64;

use super::keys::ordered;

/// With four bits of these set for an id, about one in a hundred other ids seems to be contained.
const BITS_FOR_AN_ID: usize = 16;

const WORD_BYTES: usize = size_of::<u64>();

/// A set that contains every added id, and reports a few others as contained.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BloomFilter(Vec<u64>);

impl BloomFilter {
    /// A filter for this many ids.
    pub(super) fn with_room_for(ids: usize) -> Self {
        Self(vec![0; ids.saturating_mul(BITS_FOR_AN_ID) / 64 + 1])
    }

    /// A filter that seems to contain every id.
    pub(super) fn of_all() -> Self {
        Self(vec![u64::MAX])
    }

    pub(super) fn add(&mut self, id: PlantId) {
        let hash = hash(id);
        let place = place(hash, self.0.len());
        self.0[place] |= bits(hash);
    }

    /// Whether the id may have been added. No false negatives.
    pub(super) fn may_contain(&self, id: PlantId) -> bool {
        let hash = hash(id);
        let bits = bits(hash);
        self.0[place(hash, self.0.len())] & bits == bits
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        ensure!(!words.is_empty() && rest.is_empty(), "a Bloom filter of {} bytes", bytes.len());
        Ok(Self(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
    }
}

fn hash(id: PlantId) -> u64 {
    xxh3_64(&ordered(id))
}

/// The index of a hash's word: the upper bits of the hash, scaled to the number of words.
fn place(hash: u64, words: usize) -> usize {
    let place = (u128::from(hash) * words as u128) >> u64::BITS;
    // The place is less than the number of words, so it fits.
    usize::try_from(place).unwrap_or(0)
}

/// Four bits, chosen by the lower bits of a hash.
const fn bits(hash: u64) -> u64 {
    (1 << (hash % 64))
        | (1 << ((hash >> 6) % 64))
        | (1 << ((hash >> 12) % 64))
        | (1 << ((hash >> 18) % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_added_id_is_contained_and_few_others_are() {
        const IDS: usize = 100_000;
        let mut filter = BloomFilter::with_room_for(IDS);
        let ids = |from: i64| (from..).take(IDS).map(PlantId::from);
        ids(0).for_each(|id| filter.add(id));
        let filter = BloomFilter::from_bytes(&filter.to_bytes()).expect("its bytes");
        assert!(ids(0).all(|id| filter.may_contain(id)));
        let others = ids(-1_000_000).filter(|id| filter.may_contain(*id)).count();
        assert!(others < IDS / 50, "{others} of {IDS} were false positives");
    }
}
