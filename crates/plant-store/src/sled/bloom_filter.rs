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

/// A set that contains every added id, and reports a few others as contained. The id of a deleted plant stays until the
/// next start.
#[derive(Debug)]
pub(super) struct BloomFilter {
    /// A full part is followed by a new one.
    parts: Vec<Part>,
    room: usize,
}

impl BloomFilter {
    /// A filter for about this many ids. It grows when more are added.
    pub(super) fn with_room_for(ids: u64) -> Self {
        let room = usize::try_from(ids).unwrap_or(usize::MAX).max(LEAST_ROOM);
        Self { parts: vec![Part::with_room_for(room)], room }
    }

    pub(super) fn add(&mut self, id: PlantId) {
        if self.room == 0 {
            // Doubling keeps the number of parts small.
            self.room = LEAST_ROOM << self.parts.len();
            self.parts.push(Part::with_room_for(self.room));
        }
        if let Some(last) = self.parts.last_mut() {
            last.add(hash(id));
        }
        self.room -= 1;
    }

    pub(super) fn join(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        Self { room: other.room, ..self }
    }

    /// Whether the id may have been added. No false negatives.
    pub(super) fn may_contain(&self, id: PlantId) -> bool {
        let hash = hash(id);
        self.parts.iter().any(|part| part.may_contain(hash))
    }
}

fn hash(id: PlantId) -> u64 {
    xxh3_64(&ordered(id))
}

#[derive(Debug)]
struct Part {
    words: Vec<u64>,
}

impl Part {
    fn with_room_for(ids: usize) -> Self {
        Self { words: vec![0; (ids / 64 + 1).saturating_mul(BITS_FOR_AN_ID)] }
    }

    fn add(&mut self, hash: u64) {
        let place = self.place(hash);
        self.words[place] |= bits(hash);
    }

    fn may_contain(&self, hash: u64) -> bool {
        let bits = bits(hash);
        self.words[self.place(hash)] & bits == bits
    }

    /// The index of a hash's word: the upper bits of the hash, scaled to the number of words.
    fn place(&self, hash: u64) -> usize {
        let place = (u128::from(hash) * self.words.len() as u128) >> u64::BITS;
        // The place is less than the number of words, so it fits.
        usize::try_from(place).unwrap_or(0)
    }
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
