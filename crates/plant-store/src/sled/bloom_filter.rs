//! A Bloom filter over the ids in use.
//!
//! A create must check that its id is free. In a store larger than sled's cache, a lookup in sled would read a page
//! from the disk for each create.
//!
//! The filter is blocked: all bits of an id are in one word, so an id costs one memory access, and a start can add every
//! plant (Putze, Sanders and Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007).

use plant_domain::PlantId;
use xxhash_rust::xxh3::xxh3_64;

use super::layout::ordered;

/// For about one in thirty free ids, the filter says that it may be in use, and the id is looked up in sled.
const BITS_FOR_AN_ID: usize = 12;

/// The least capacity of a filter, in ids: 1.5 MB.
const LEAST_ROOM: usize = 1_000_000;

/// The greatest capacity of a new filter, in ids: 150 MB. The expected number may come from a damaged manifest, and a
/// filter that turns out too small grows.
const FIRST_ROOM_MAX: usize = 100_000_000;

/// A set that contains every added id, and reports a few others as contained. The id of a deleted plant stays until the
/// next start.
#[derive(Debug)]
pub(super) struct BloomFilter {
    /// The bits of each part. A full part is followed by a new one.
    parts: Vec<Vec<u64>>,
    /// How many ids fit into the last part.
    room: usize,
}

impl BloomFilter {
    /// A filter for about this many ids. It grows when more are added.
    pub(super) fn with_room_for(ids: u64) -> Self {
        let room = usize::try_from(ids).unwrap_or(usize::MAX).clamp(LEAST_ROOM, FIRST_ROOM_MAX);
        Self { parts: vec![part_for(room)], room }
    }

    pub(super) fn add(&mut self, id: PlantId) {
        self.add_all(&[id]);
    }

    /// Adds many ids faster than one by one, because their memory accesses overlap.
    pub(super) fn add_all(&mut self, mut ids: &[PlantId]) {
        while !ids.is_empty() {
            if self.room == 0 {
                // Doubling keeps the number of parts small.
                self.room = LEAST_ROOM << self.parts.len();
                self.parts.push(part_for(self.room));
            }
            let (fitting, later) = ids.split_at(ids.len().min(self.room));
            if let Some(words) = self.parts.last_mut() {
                for hash in fitting.iter().map(|id| hash(*id)) {
                    let place = place(hash, words.len());
                    words[place] |= bits(hash);
                }
            }
            self.room -= fitting.len();
            ids = later;
        }
    }

    pub(super) fn join(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        Self { room: other.room, ..self }
    }

    /// Whether the id may have been added. No false negatives.
    pub(super) fn may_contain(&self, id: PlantId) -> bool {
        let hash = hash(id);
        let bits = bits(hash);
        self.parts.iter().any(|words| words[place(hash, words.len())] & bits == bits)
    }
}

fn part_for(ids: usize) -> Vec<u64> {
    vec![0; (ids / 64 + 1).saturating_mul(BITS_FOR_AN_ID)]
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

/// Three bits, chosen by the lower bits of a hash.
const fn bits(hash: u64) -> u64 {
    1 << (hash % 64) | 1 << (hash / 64 % 64) | 1 << (hash / 64 / 64 % 64)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn add(filter: &mut BloomFilter, ids: Range<i64>) {
        ids.for_each(|id| filter.add(PlantId::from(id)));
    }

    fn check(filter: &BloomFilter, used: i64) {
        let may_contain = |id: &i64| filter.may_contain(PlantId::from(*id));
        assert!((0..used).all(|id| may_contain(&id)));
        let strangers = (-100_000..0).filter(may_contain).count();
        assert!(strangers < 5_000, "{strangers} of 100,000 were false positives");
    }

    #[test]
    fn every_added_id_is_contained_and_few_others_are() {
        let mut filter = BloomFilter::with_room_for(1_000);
        add(&mut filter, 0..1_000);
        check(&filter, 1_000);
        let later = i64::try_from(LEAST_ROOM).expect("small") + 300_000;
        add(&mut filter, 1_000..later);
        assert_eq!(filter.parts.len(), 2, "it has grown");
        check(&filter, later);
    }
}
