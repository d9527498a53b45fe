//! The tag index: which plants have a tag.
//!
//! On disk it stands in blocks: a key for a tag and a run of ids, the ids as the value. Writing a
//! block for each plant would double what sled has to do, so additions gather in memory first and are
//! folded into the blocks in bulk, a few blocks with each group. Those that are not folded yet are in
//! the event records as well, from which they are read again when the database is opened.
//!
//! There are two generations of additions in memory: the active one, which takes new ones, and the
//! frozen one, which is being folded. When the frozen one is empty, all events up to a known
//! sequence number are in the blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Bound;

use anyhow::Context as _;
use plant_domain::PlantId;
use sled::{IVec, Tree};

use super::layout::{
    decode_tag_block, encode_tag_block, tag_block_first_id, tag_block_key, tag_block_keys,
};

/// The active generation is frozen when it has this many ids. The more there are, the more of them
/// share a block when it is written; the fewer there are, the less is read again at the start.
const ADDITIONS_UNTIL_FROZEN: usize = 65_536;

/// How many additions one step of a fold takes at most: it bounds how long a group waits for it.
const ADDITIONS_IN_A_STEP: usize = 256;

/// How many ids a block has at most. Larger blocks make more work of a change in the middle.
const MAX_BLOCK_IDS: usize = 128;

/// Plants that have the tag, and that are not in its blocks yet.
type Additions = BTreeMap<String, BTreeSet<PlantId>>;

#[derive(Debug)]
pub(super) struct TagIndex {
    active: Additions,
    /// How many ids there are in the active generation.
    active_additions: usize,
    frozen: Additions,
    /// The last event whose addition is in the frozen generation or in the blocks.
    frozen_through: u64,
    /// The last event up to which all additions are in the blocks.
    indexed_through: u64,
}

impl TagIndex {
    pub(super) const fn new(indexed_through: u64) -> Self {
        Self {
            active: Additions::new(),
            active_additions: 0,
            frozen: Additions::new(),
            frozen_through: indexed_through,
            indexed_through,
        }
    }

    pub(super) const fn indexed_through(&self) -> u64 {
        self.indexed_through
    }

    /// Remembers that the plant has the tag now.
    pub(super) fn add(&mut self, tag: &str, id: PlantId) {
        let ids = match self.active.get_mut(tag) {
            Some(ids) => ids,
            None => self.active.entry(tag.to_owned()).or_default(),
        };
        if ids.insert(id) {
            self.active_additions += 1;
        }
    }

    /// Folds additions into the blocks, in up to `max_steps` small steps. Called with at least as many as
    /// were added since, the frozen generation is empty before the active one is full again.
    /// `last_sequence` is the event of the last addition.
    pub(super) fn fold(
        &mut self,
        tree: &Tree,
        max_steps: usize,
        last_sequence: u64,
    ) -> anyhow::Result<()> {
        if self.frozen.is_empty() && self.active_additions >= ADDITIONS_UNTIL_FROZEN {
            self.frozen = mem::take(&mut self.active);
            self.active_additions = 0;
            self.frozen_through = last_sequence;
        }
        for _ in 0..max_steps {
            let Some((tag, block)) = self.take_block(tree)? else { break };
            block.write(tree, &tag)?;
        }
        if self.frozen.is_empty() {
            // It may be behind while a journal is applied again.
            self.indexed_through = self.indexed_through.max(self.frozen_through);
        }
        Ok(())
    }

    /// Takes the first frozen addition and the next ones that go into the same block, up to
    /// [`ADDITIONS_IN_A_STEP`].
    fn take_block(&mut self, tree: &Tree) -> anyhow::Result<Option<(String, Block)>> {
        let Some((tag, mut additions)) = self.frozen.pop_first() else { return Ok(None) };
        let Some(first) = additions.first() else { return Ok(None) };

        let mut block = Block::around(tree, &tag, *first)
            .with_context(|| format!("reading the index of tag {tag:?}"))?;
        let end = additions.iter().nth(ADDITIONS_IN_A_STEP).copied();
        let end = end.into_iter().chain(block.end).min();
        let later = end.map_or_else(BTreeSet::new, |end| additions.split_off(&end));
        if !later.is_empty() {
            self.frozen.insert(tag.clone(), later);
        }
        block.ids.append(&mut additions);
        Ok(Some((tag, block)))
    }
}

/// A block as it stands in the tree, or the place where a tag's first block will stand.
///
/// A kill may leave a block half written: the new blocks are there and the old one still is, too. The
/// ids of a block from the next block's first id on are that one's, so what was left does no harm.
struct Block {
    key: Option<IVec>,
    ids: BTreeSet<PlantId>,
    /// The first id of the tag's next block: what comes from there on is not for this one.
    end: Option<PlantId>,
}

impl Block {
    /// The block that `id` belongs into: the last one that starts at or before it, else the first.
    fn around(tree: &Tree, tag: &str, id: PlantId) -> anyhow::Result<Self> {
        let (first_key, end_key) = tag_block_keys(tag);
        let key_of_id = tag_block_key(tag, id);
        let at_or_before = tree.range(first_key..=key_of_id.clone()).next_back();
        let mut after = tree.range((Bound::Excluded(key_of_id), Bound::Excluded(end_key)));
        let found = at_or_before.or_else(|| after.next()).transpose()?;
        let next = after.next().transpose()?;

        let end = next.map(|(key, _)| tag_block_first_id(&key)).transpose()?;
        let (key, ids) = match found {
            Some((key, value)) => {
                let mut ids = BTreeSet::from_iter(decode_tag_block(&key, &value)?);
                if let Some(end) = end {
                    ids.split_off(&end);
                }
                (Some(key), ids)
            }
            None => (None, BTreeSet::new()),
        };
        Ok(Self { key, ids, end })
    }

    /// Writes the ids, as several blocks when there are too many for one.
    fn write(self, tree: &Tree, tag: &str) -> anyhow::Result<()> {
        let ids = Vec::from_iter(self.ids);
        // Blocks of about the same size leave room in each for what comes between.
        let blocks = ids.len().div_ceil(MAX_BLOCK_IDS).max(1);
        let mut old_key = self.key;
        // The last block comes first, and the first one last: until that is written, the old block
        // still has the ids.
        for block in ids.chunks(ids.len().div_ceil(blocks).max(1)).rev() {
            let key = tag_block_key(tag, block[0]);
            tree.insert(&key, encode_tag_block(block)?)?;
            old_key = old_key.filter(|old_key| *old_key != key);
        }
        // The first id is in the key, so another one may have taken the old block's place.
        if let Some(old_key) = old_key {
            tree.remove(old_key)?;
        }
        Ok(())
    }
}

#[cfg(test)]
impl TagIndex {
    /// All plants that have the tag: those in the blocks and those in memory.
    pub(super) fn ids_with_tag(&self, tree: &Tree, tag: &str) -> anyhow::Result<BTreeSet<PlantId>> {
        let (first_key, end_key) = tag_block_keys(tag);
        let mut ids = BTreeSet::<PlantId>::new();
        for entry in tree.range(first_key..end_key) {
            let (key, value) = entry?;
            // What is left of a half written block is not its own.
            ids.split_off(&tag_block_first_id(&key)?);
            let block = decode_tag_block(&key, &value)?;
            anyhow::ensure!(block.len() <= 2 * MAX_BLOCK_IDS, "a block holds too many ids");
            ids.extend(block);
        }
        for generation in [&self.active, &self.frozen] {
            ids.extend(generation.get(tag).into_iter().flatten());
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: usize = 1_000;
    const GROUPS: u64 = 150;
    const TAGS: [&str; 4] = ["Rosa", "Rosaceae", "Rosaceae, cultivated", "木"];

    /// Adds plants in groups, as the commit thread does, with ids in the order that `id_of` gives.
    fn check(id_of: impl Fn(u64) -> i64) {
        let folder = tempfile::tempdir().expect("a folder");
        let db = sled::open(folder.path()).expect("a database");
        let mut index = TagIndex::new(0);
        let mut expected = BTreeMap::<&str, BTreeSet<PlantId>>::new();
        let mut sequence = 0;
        let mut most_in_memory = 0;
        for _ in 0..GROUPS {
            for _ in 0..GROUP {
                sequence += 1;
                let id = PlantId::from(id_of(sequence));
                let tag = TAGS[usize::try_from(sequence % 4).expect("small")];
                index.add(tag, id);
                expected.entry(tag).or_default().insert(id);
            }
            index.fold(&db, GROUP, sequence).expect("folds");
            most_in_memory = most_in_memory.max(sequence - index.indexed_through());
        }
        for (tag, ids) in expected {
            assert_eq!(index.ids_with_tag(&db, tag).expect("reads"), ids, "{tag}");
        }
        assert!(index.indexed_through() > 0, "something was folded");
        let bound = 2 * (ADDITIONS_UNTIL_FROZEN + GROUP);
        assert!(most_in_memory <= u64::try_from(bound).expect("small"), "{most_in_memory}");
    }

    #[test]
    fn a_block_that_was_half_written_does_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = sled::open(folder.path()).expect("a database");
        let mut index = TagIndex::new(0);
        let mut add_and_fold = |ids: std::ops::Range<i64>, sequence| {
            ids.clone().for_each(|id| index.add("Rosa", PlantId::from(2 * id)));
            index.fold(&db, usize::MAX, sequence).expect("folds");
            index.ids_with_tag(&db, "Rosa").expect("reads")
        };
        let count = i64::try_from(ADDITIONS_UNTIL_FROZEN).expect("small");
        let whole = add_and_fold(0..count, 1);

        // The second half of a split is there, and the block that was split still is as it was.
        let (first_key, end_key) = tag_block_keys("Rosa");
        let mut blocks = db.range(first_key..end_key).skip(7).map(|block| block.expect("reads"));
        let (key, value) = blocks.next().expect("a block");
        let (next_key, next_value) = blocks.next().expect("a block");
        let mut both = decode_tag_block(&key, &value).expect("decodes");
        both.extend(decode_tag_block(&next_key, &next_value).expect("decodes"));
        db.insert(&key, encode_tag_block(&both).expect("small")).expect("writes");

        assert_eq!(add_and_fold(0..0, 1), whole);
        let more = add_and_fold(count..2 * count, 2);
        assert_eq!(more.len(), 2 * ADDITIONS_UNTIL_FROZEN);
        assert!(more.is_superset(&whole));
    }

    #[test]
    fn ids_that_ascend_are_all_found_under_their_tag() {
        check(u64::cast_signed);
    }

    #[test]
    fn ids_that_descend_are_all_found_under_their_tag() {
        check(|sequence| -sequence.cast_signed());
    }

    #[test]
    fn ids_in_random_order_are_all_found_under_their_tag() {
        check(|sequence| sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15).cast_signed());
    }
}
