//! A map ordered by id, for memtables. Its lookups touch few cache lines, and a copy shares its leaves.

use std::sync::Arc;

use plant_domain::PlantId;

/// Insertions into larger leaves move more entries; smaller leaves make the array of first ids longer.
const LEAF_MAX_ENTRIES: usize = 64;

/// A B-tree of two levels, enough for some hundred thousand entries. The nodes of `BTreeMap` are small and hold values
/// beside the ids: a lookup passes five of them, mostly cache misses, and a create of a random id takes a tenth more
/// processor time.
#[derive(Clone, Debug)]
pub(crate) struct SortedMap<T> {
    /// The first id of each leaf, in one array. The first leaf also takes smaller ids.
    first_ids: Vec<PlantId>,
    /// Readers keep copies of the map, so an insert copies the leaf that it changes if a reader has it too.
    leaves: Vec<Arc<Leaf<T>>>,
    len: usize,
}

/// Consecutive entries: each id has the value at the same index.
#[derive(Clone, Debug)]
struct Leaf<T> {
    ids: Vec<PlantId>,
    values: Vec<T>,
}

impl<T> Default for SortedMap<T> {
    fn default() -> Self {
        Self { first_ids: Vec::new(), leaves: Vec::new(), len: 0 }
    }
}

impl<T: Clone> SortedMap<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, id: PlantId) -> Option<&T> {
        let leaf = self.leaves.get(self.leaf_of(id))?;
        leaf.ids.binary_search(&id).ok().map(|place| &leaf.values[place])
    }

    /// Adds an entry, or replaces the value of the id.
    pub(crate) fn insert(&mut self, id: PlantId, value: T) {
        let index = self.leaf_of(id);
        let Some(leaf) = self.leaves.get_mut(index).map(Arc::make_mut) else {
            self.first_ids.push(id);
            self.leaves.push(Arc::new(Leaf { ids: vec![id], values: vec![value] }));
            self.len = 1;
            return;
        };
        match leaf.ids.binary_search(&id) {
            Ok(place) => leaf.values[place] = value,
            Err(place) => {
                leaf.ids.insert(place, id);
                leaf.values.insert(place, value);
                self.len += 1;
                if leaf.ids.len() > LEAF_MAX_ENTRIES {
                    // Leaves stay full if ids ascend.
                    let is_appended = place == LEAF_MAX_ENTRIES;
                    self.split(index, if is_appended { place } else { LEAF_MAX_ENTRIES / 2 });
                }
            }
        }
    }

    /// The entries from an id on, in ascending order.
    pub(crate) fn from(&self, id: PlantId) -> impl Iterator<Item = (PlantId, &T)> {
        let index = self.leaf_of(id);
        let skipped =
            self.leaves.get(index).map_or(0, |leaf| leaf.ids.partition_point(|other| *other < id));
        self.leaves.iter().skip(index).flat_map(|leaf| leaf.entries()).skip(skipped)
    }

    /// All entries, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PlantId, &T)> {
        self.leaves.iter().flat_map(|leaf| leaf.entries())
    }

    /// The id that is this many entries before an id, or the first one; `None` if no entry is before the id.
    pub(crate) fn back_from(&self, id: PlantId, mut entries: usize) -> Option<PlantId> {
        let mut index = self.leaf_of(id);
        let mut before = self.leaves.get(index)?.ids.partition_point(|other| *other < id);
        while before < entries && index > 0 {
            entries -= before;
            index -= 1;
            before = self.leaves[index].ids.len();
        }
        self.leaves[index].ids[..before].get(before.saturating_sub(entries)).copied()
    }

    /// The index of the leaf that holds the id, or should.
    fn leaf_of(&self, id: PlantId) -> usize {
        self.first_ids.partition_point(|first| *first <= id).saturating_sub(1)
    }

    /// Moves the entries of a leaf from `at` on to a new leaf.
    fn split(&mut self, index: usize, at: usize) {
        let leaf = Arc::make_mut(&mut self.leaves[index]);
        let right = Leaf { ids: leaf.ids.split_off(at), values: leaf.values.split_off(at) };
        self.first_ids.insert(index + 1, right.ids[0]);
        self.leaves.insert(index + 1, Arc::new(right));
    }
}

impl<T> Leaf<T> {
    fn entries(&self) -> impl Iterator<Item = (PlantId, &T)> {
        self.ids.iter().copied().zip(&self.values)
    }
}
