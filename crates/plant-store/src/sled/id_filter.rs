//! Which ids have never been used: a Bloom filter over those that have.
//!
//! A create has to know that its id is free. Of a store that is larger than sled's cache, each look into sled
//! for that would read a page from the disk.
//!
//! All bits of an id are in one word of the filter, so that it takes one look into memory (Putze, Sanders and
//! Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007): a start has to add every plant.

use plant_domain::PlantId;
use xxhash_rust::xxh3::xxh3_64;

use super::layout::ordered;

/// Of ids that were never used, about one in thirty is looked for in sled all the same.
const BITS_FOR_AN_ID: usize = 12;

/// A filter has room for so many ids at least, which takes a megabyte and a half.
const LEAST_ROOM: usize = 1_000_000;

/// How many ids are hashed before the first of them is looked for in memory.
const HASHES_AT_ONCE: usize = 64;

/// Knows every id that was added, and takes a few others for such. A plant that is gone leaves its id there
/// until the next start.
#[derive(Debug)]
pub(super) struct IdFilter {
    /// What one has no room for is in the next.
    parts: Vec<Part>,
    /// How many more ids the last part has room for.
    room: usize,
}

impl IdFilter {
    /// For about so many ids. When more come, it grows.
    pub(super) fn with_room_for(ids: u64) -> Self {
        let room = usize::try_from(ids).unwrap_or(usize::MAX).max(LEAST_ROOM);
        Self { parts: vec![Part::with_room_for(room)], room }
    }

    /// An id that is used.
    pub(super) fn add(&mut self, id: PlantId) {
        self.add_all(&[id]);
    }

    /// Ids that are used. Many at once take less than one by one: no look into memory waits for the one before.
    pub(super) fn add_all(&mut self, mut ids: &[PlantId]) {
        while !ids.is_empty() {
            if self.room == 0 {
                // So there are never many parts.
                self.room = LEAST_ROOM << self.parts.len();
                self.parts.push(Part::with_room_for(self.room));
            }
            let (fitting, later) = ids.split_at(ids.len().min(self.room));
            if let Some(last) = self.parts.last_mut() {
                last.add_all(fitting);
            }
            self.room -= fitting.len();
            ids = later;
        }
    }

    /// Knows the ids of both.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        Self { room: other.room, ..self }
    }

    /// Whether the id may have been added.
    pub(super) fn may_know(&self, id: PlantId) -> bool {
        let hash = hash(id);
        self.parts.iter().any(|part| part.may_know(hash))
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

    fn add_all(&mut self, ids: &[PlantId]) {
        let mut hashes = [0; HASHES_AT_ONCE];
        for ids in ids.chunks(HASHES_AT_ONCE) {
            let hashes = &mut hashes[..ids.len()];
            hashes.iter_mut().zip(ids).for_each(|(hashed, id)| *hashed = hash(*id));
            for hash in hashes {
                let place = self.place(*hash);
                self.words[place] |= bits(*hash);
            }
        }
    }

    fn may_know(&self, hash: u64) -> bool {
        let bits = bits(hash);
        self.words[self.place(hash)] & bits == bits
    }

    /// The word of a hash: its upper bits say how far it is into all of them.
    fn place(&self, hash: u64) -> usize {
        let place = (u128::from(hash) * self.words.len() as u128) >> u64::BITS;
        // It is less than their number.
        usize::try_from(place).unwrap_or(0)
    }
}

/// Three bits, which the lower bits of a hash choose.
const fn bits(hash: u64) -> u64 {
    1 << (hash % 64) | 1 << (hash / 64 % 64) | 1 << (hash / 64 / 64 % 64)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn add(filter: &mut IdFilter, ids: Range<i64>) {
        ids.for_each(|id| filter.add(PlantId::from(id)));
    }

    fn check(filter: &IdFilter, used: i64) {
        let may_know = |id: &i64| filter.may_know(PlantId::from(*id));
        assert!((0..used).all(|id| may_know(&id)));
        let strangers = (-100_000..0).filter(may_know).count();
        assert!(strangers < 5_000, "{strangers} of 100,000 were taken for others");
    }

    #[test]
    fn every_id_that_was_added_is_known_and_few_others_are() {
        let mut filter = IdFilter::with_room_for(1_000);
        add(&mut filter, 0..1_000);
        check(&filter, 1_000);
        let later = i64::try_from(LEAST_ROOM).expect("small") + 300_000;
        add(&mut filter, 1_000..later);
        assert_eq!(filter.parts.len(), 2, "it has grown");
        check(&filter, later);
    }

    #[test]
    fn two_that_are_joined_know_the_ids_of_both() {
        let [mut lower, mut upper] = [IdFilter::with_room_for(0), IdFilter::with_room_for(0)];
        add(&mut lower, 0..1_000);
        add(&mut upper, 1_000..2_000);
        let mut both = lower.join(upper);
        add(&mut both, 2_000..3_000);
        check(&both, 3_000);
    }
}
