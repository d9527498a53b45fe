//! The tag index: which plants have a tag.
//!
//! On disk it stands in blocks: a key for a tag and a run of ids, the ids as the value. Writing a
//! block for each plant would double what sled has to do, so changes gather in memory first and are
//! folded into the blocks in bulk, a few blocks with each group. Those that are not folded yet are in
//! the event records as well, from which they are read again when the database is opened.
//!
//! There are two generations of changes in memory: the active one, which takes new ones, and the
//! frozen one, which is being folded. When the frozen one is empty, all events up to a known sequence
//! number are in the blocks. What a generation says of a plant counts more than what the blocks say,
//! and the active one counts more than the frozen one.
//!
//! Nothing is lost when the process ends between any two writes, because
//! - a step of a fold is one write, or one batch: the blocks of a tag never overlap;
//! - sled keeps its writes in order, so the blocks of a step are there when the event record is that was
//!   written after it;
//! - an event record counts as indexed only what a finished checkpoint has brought to the disk
//!   ([`TagIndex::checkpointed`]), and no later event is forgotten;
//! - to apply a change again, at the open, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::{Bound, Range};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::Context as _;
use plant_domain::PlantId;
use sled::{IVec, Tree};

use super::digest::Digest;
use super::findings::Findings;
use super::layout::{
    Event, TAG_PREFIX, decode_tag_block, encode_tag_block, plant_key, tag_block_first_id,
    tag_block_key, tag_block_keys, tag_of_block,
};
use super::paced::PacedDb;
use crate::fault;

/// How many changes one step of a fold takes at most: it bounds how long readers wait for it.
const CHANGES_IN_A_STEP: usize = 256;

/// How many ids a block has at most. Larger blocks make more work of a change in the middle.
const MAX_BLOCK_IDS: usize = 128;

/// About how many bytes a change takes in memory.
const BYTES_OF_A_CHANGE: usize = 32;

/// Whether a plant has a tag.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Presence {
    Present,
    Absent,
}

/// Plants that have or have lost a tag, and of which its blocks do not know that yet.
type Changes = BTreeMap<PlantId, Presence>;

/// Read by everyone, changed by the commit thread only.
#[derive(Debug)]
pub(super) struct TagIndex {
    /// How many changes the active generation has when it is frozen.
    changes_in_memory: usize,
    /// Guards the blocks as well, so that nobody sees one that is half written.
    generations: RwLock<Generations>,
}

#[derive(Debug)]
struct Generations {
    active: BTreeMap<String, Changes>,
    /// How many changes there are in the active generation, with what its tags count for.
    active_changes: usize,
    frozen: BTreeMap<String, Changes>,
    /// The last event whose change is in the frozen generation or in the blocks.
    frozen_through: u64,
    /// The last event up to which all changes are in the blocks.
    folded_through: u64,
    /// The last event up to which all changes are in blocks that are on disk.
    indexed_through: u64,
}

/// Some of the plants that have a tag, and from which id on there may be more.
pub(super) struct TagRun {
    /// By ascending id.
    pub(super) ids: Vec<PlantId>,
    /// The id that the next run begins at; `None` when this is the last one.
    pub(super) next: Option<PlantId>,
}

impl TagIndex {
    /// An index whose blocks hold all events up to `indexed_through`.
    pub(super) const fn new(changes_in_memory: usize, indexed_through: u64) -> Self {
        Self {
            changes_in_memory,
            generations: RwLock::new(Generations {
                active: BTreeMap::new(),
                active_changes: 0,
                frozen: BTreeMap::new(),
                frozen_through: indexed_through,
                folded_through: indexed_through,
                indexed_through,
            }),
        }
    }

    /// The last event up to which all changes are in blocks that are on disk.
    pub(super) fn indexed_through(&self) -> u64 {
        self.read().indexed_through
    }

    /// The last event up to which all changes are in the blocks, on disk or not yet.
    pub(super) fn folded_through(&self) -> u64 {
        self.read().folded_through
    }

    /// A checkpoint has ended that began when the blocks held all events up to `folded_through`.
    pub(super) fn checkpointed(&self, folded_through: u64) {
        let mut generations = self.write();
        generations.indexed_through = generations.indexed_through.max(folded_through);
    }

    /// Remembers which tags the plants of some events have and have lost.
    pub(super) fn apply<'a>(&self, events: impl IntoIterator<Item = Event<'a>>) {
        let mut generations = self.write();
        for event in events {
            let id = PlantId::from(event.id);
            if let Some(tag) = event.left_tag {
                generations.remember(tag, id, Presence::Absent);
            }
            if let Some(tag) = event.tag {
                generations.remember(tag, id, Presence::Present);
            }
        }
    }

    /// Folds changes into the blocks, in up to `max_steps` small steps. Called with at least as many
    /// as were applied since, the frozen generation is empty before the active one is full again.
    /// `last_sequence` is the last event that was applied.
    pub(super) fn fold(
        &self,
        db: &PacedDb,
        max_steps: usize,
        last_sequence: u64,
    ) -> anyhow::Result<()> {
        self.write().freeze_when_full(self.changes_in_memory, last_sequence);
        for _ in 0..max_steps {
            // Readers get their turn between any two steps.
            let mut generations = self.write();
            let Some((tag, block)) = generations.take_block(db)? else { break };
            block.write(db, &tag)?;
            drop(generations);
            fault::point("after-fold-step");
        }
        let mut generations = self.write();
        if generations.frozen.is_empty() {
            // It may be behind while a journal is applied again.
            generations.folded_through = generations.folded_through.max(generations.frozen_through);
        }
        Ok(())
    }

    /// The plants that have the tag, from an id on. It looks at about `about` of them.
    pub(super) fn next_run(
        &self,
        tree: &Tree,
        tag: &str,
        from: PlantId,
        about: usize,
    ) -> anyhow::Result<TagRun> {
        let generations = self.read();
        let (mut ids, mut next) = ids_in_blocks(tree, tag, from, about)
            .with_context(|| format!("reading the index of tag {tag:?}"))?;
        let changes = generations.of(tag);
        for changes in changes.into_iter().flatten() {
            let ending = changes.range(from..).nth(about).map(|(id, _)| *id);
            next = next.into_iter().chain(ending).min();
        }
        if let Some(next) = next {
            ids.split_off(&next);
        }
        for changes in changes.into_iter().flatten() {
            let end = next.map_or(Bound::Unbounded, Bound::Excluded);
            for (id, presence) in changes.range((Bound::Included(from), end)) {
                match presence {
                    Presence::Present => ids.insert(*id),
                    Presence::Absent => ids.remove(id),
                };
            }
        }
        Ok(TagRun { ids: ids.into_iter().collect(), next })
    }

    /// The digest of all that the index knows: the sum of [`tag_digest`] over every plant that has a
    /// tag. It reads all blocks.
    ///
    /// # Errors
    ///
    /// When a block cannot be read, or does not come behind the one before.
    pub(super) fn digest(&self, tree: &Tree) -> anyhow::Result<Digest> {
        let mut digest = Digest::default();
        self.visit(tree, &mut Findings::Refuse, |tag, id, _| {
            digest += tag_digest(tag, id);
            Ok(())
        })?;
        Ok(digest)
    }

    /// Shows every tag with every plant that the index knows under it, in no order. It reads all blocks;
    /// one that is wrong is a finding, and left out.
    ///
    /// # Errors
    ///
    /// When sled cannot read on, and as `visit` has them.
    pub(super) fn visit(
        &self,
        tree: &Tree,
        findings: &mut Findings,
        mut visit: impl FnMut(&str, PlantId, &mut Findings) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let generations = self.read();
        let mut before: Option<(IVec, PlantId)> = None;
        for block in tree.scan_prefix(TAG_PREFIX) {
            let (key, value) = block.context("cannot read the index of the tags")?;
            let decoded = tag_of_block(&key)
                .and_then(|tag| Ok((tag, decode_tag_block(&key, &value)?)))
                .context("a block in the index of the tags is damaged");
            let Some((tag, ids)) = findings.value_of(decoded)? else { continue };
            let overlaps = before.is_some_and(|(before, last)| {
                tag_of_block(&before).is_ok_and(|before| before == tag) && last >= ids[0]
            });
            if overlaps {
                findings.add(format_args!("the index of tag {tag:?} has blocks that overlap"))?;
            }
            let changes = generations.of(tag);
            for id in &ids {
                // What memory says of a plant counts more, and follows below.
                if changes.into_iter().flatten().all(|changes| !changes.contains_key(id)) {
                    visit(tag, *id, findings)?;
                }
            }
            before = ids.last().map(|last| (key.clone(), *last));
        }
        for (tag, changes) in &generations.frozen {
            let later = generations.active.get(tag);
            for id in present(changes) {
                if later.is_none_or(|later| !later.contains_key(&id)) {
                    visit(tag, id, findings)?;
                }
            }
        }
        for (tag, changes) in &generations.active {
            for id in present(changes) {
                visit(tag, id, findings)?;
            }
        }
        Ok(())
    }

    /// Whether the index knows the plant under the tag.
    pub(super) fn knows(&self, tree: &Tree, tag: &str, id: PlantId) -> anyhow::Result<bool> {
        Ok(self.next_run(tree, tag, id, 1)?.ids.first() == Some(&id))
    }

    /// A generation that a panic has left is as good as before: each change to it is a single one.
    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Generations> {
        self.generations.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digest of one entry of the index: a plant has a tag.
pub(super) fn tag_digest(tag: &str, id: PlantId) -> Digest {
    Digest::of(&plant_key(id), tag.as_bytes())
}

/// The plants that have the tag by these changes.
fn present(changes: &Changes) -> impl Iterator<Item = PlantId> {
    let is_present = |(_, presence): &(&PlantId, &Presence)| **presence == Presence::Present;
    changes.iter().filter(is_present).map(|(id, _)| *id)
}

impl Generations {
    /// What memory says of a tag, the older changes first.
    fn of(&self, tag: &str) -> [Option<&Changes>; 2] {
        [&self.frozen, &self.active].map(|changes| changes.get(tag))
    }

    fn remember(&mut self, tag: &str, id: PlantId, presence: Presence) {
        let changes = match self.active.get_mut(tag) {
            Some(changes) => changes,
            None => {
                // A long tag takes as much memory as many changes.
                self.active_changes += tag.len() / BYTES_OF_A_CHANGE;
                self.active.entry(tag.to_owned()).or_default()
            }
        };
        if changes.insert(id, presence).is_none() {
            self.active_changes += 1;
        }
    }

    fn freeze_when_full(&mut self, changes_in_memory: usize, last_sequence: u64) {
        if self.frozen.is_empty() && self.active_changes >= changes_in_memory {
            self.frozen = mem::take(&mut self.active);
            self.active_changes = 0;
            self.frozen_through = last_sequence;
        }
    }

    /// Takes the first frozen change and the next ones that go into the same block, up to
    /// [`CHANGES_IN_A_STEP`], and makes them.
    fn take_block(&mut self, tree: &Tree) -> anyhow::Result<Option<(String, Block)>> {
        let Some((tag, mut changes)) = self.frozen.pop_first() else { return Ok(None) };
        let Some((first, _)) = changes.first_key_value() else { return Ok(None) };

        let mut block = Block::around(tree, &tag, *first)
            .with_context(|| format!("reading the index of tag {tag:?}"))?;
        let end = changes.keys().nth(CHANGES_IN_A_STEP).copied();
        let end = end.into_iter().chain(block.end).min();
        let later = end.map_or_else(Changes::new, |end| changes.split_off(&end));
        if !later.is_empty() {
            self.frozen.insert(tag.clone(), later);
        }
        for (id, presence) in changes {
            match presence {
                Presence::Present => block.ids.insert(id),
                Presence::Absent => block.ids.remove(&id),
            };
        }
        Ok(Some((tag, block)))
    }
}

/// The ids from one on that a tag's blocks hold, and where they go on: whole blocks, until there are
/// `about` ids.
fn ids_in_blocks(
    tree: &Tree,
    tag: &str,
    from: PlantId,
    about: usize,
) -> anyhow::Result<(BTreeSet<PlantId>, Option<PlantId>)> {
    let Range { start, end } = tag_block_keys(tag);
    let from_key = tag_block_key(tag, from);
    let around = tree.range(start..=from_key.clone()).next_back();
    let later = tree.range((Bound::Excluded(from_key), Bound::Excluded(end)));
    let mut ids = BTreeSet::new();
    for block in around.into_iter().chain(later) {
        let (key, value) = block?;
        let first = tag_block_first_id(&key)?;
        if ids.len() >= about {
            return Ok((ids, Some(first)));
        }
        ids.extend(decode_tag_block(&key, &value)?.into_iter().filter(|id| *id >= from));
    }
    Ok((ids, None))
}

/// A block as it stands in the tree, or the place where a tag's first block will stand.
struct Block {
    key: Option<IVec>,
    ids: BTreeSet<PlantId>,
    /// The first id of the tag's next block: what comes from there on is not for this one.
    end: Option<PlantId>,
}

impl Block {
    /// The block that `id` belongs into: the last one that starts at or before it, else the first.
    fn around(tree: &Tree, tag: &str, id: PlantId) -> anyhow::Result<Self> {
        let Range { start, end } = tag_block_keys(tag);
        let key_of_id = tag_block_key(tag, id);
        let at_or_before = tree.range(start..=key_of_id.clone()).next_back();
        let mut after = tree.range((Bound::Excluded(key_of_id), Bound::Excluded(end)));
        let found = at_or_before.or_else(|| after.next()).transpose()?;
        let next = after.next().transpose()?;

        let end = next.map(|(key, _)| tag_block_first_id(&key)).transpose()?;
        let (key, ids) = match found {
            Some((key, value)) => {
                let ids = decode_tag_block(&key, &value)?;
                (Some(key), ids.into_iter().collect())
            }
            None => (None, BTreeSet::new()),
        };
        Ok(Self { key, ids, end })
    }

    /// Writes the ids, as several blocks when there are too many for one, or as none.
    fn write(self, db: &PacedDb, tag: &str) -> anyhow::Result<()> {
        let ids = Vec::from_iter(self.ids);
        // Blocks of about the same size leave room in each for what comes between.
        let blocks = ids.len().div_ceil(MAX_BLOCK_IDS).max(1);
        let mut written = Vec::with_capacity(blocks);
        for block in ids.chunks(ids.len().div_ceil(blocks).max(1)) {
            written.push((tag_block_key(tag, block[0]), encode_tag_block(block)?));
        }
        // The first id is in the key, so another one may take the old block's place.
        let old_key = self.key.filter(|old| written.iter().all(|(key, _)| key[..] != old[..]));
        match (<[_; 1]>::try_from(written), old_key) {
            (Ok([(key, block)]), None) => db.insert(key, block)?,
            (Ok(written), old_key) => db.replace(old_key, written.into())?,
            (Err(written), old_key) => db.replace(old_key, written)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;

    const GROUP: usize = 1_000;
    const GROUPS: u64 = 150;
    const CHANGES_IN_MEMORY: usize = 20_000;
    const TAGS: [&str; 4] = ["Rosa", "Rosaceae", "Rosaceae, cultivated", "木"];

    /// All plants that have the tag, read in runs of about this many.
    fn ids_with_tag(index: &TagIndex, tree: &Tree, tag: &str, about: usize) -> BTreeSet<PlantId> {
        let mut ids = Vec::new();
        let mut next = Some(PlantId::from(i64::MIN));
        while let Some(from) = next {
            let run = index.next_run(tree, tag, from, about).expect("reads");
            assert!(run.ids.len() <= 3 * about + 2 * MAX_BLOCK_IDS, "{} ids", run.ids.len());
            assert!(run.next.is_none_or(|next| next > from), "a run goes on");
            ids.extend(run.ids);
            next = run.next;
        }
        assert!(ids.is_sorted_by(|one, next| one < next), "each once, in order");
        ids.into_iter().collect()
    }

    fn event<'a>(id: i64, left_tag: Option<&'a str>, tag: Option<&'a str>) -> Event<'a> {
        Event { kind: EventKind::Updated, id, left_tag, tag }
    }

    /// Gives and takes tags in groups, as the commit thread does, with ids in the order that `id_of`
    /// gives.
    fn check(id_of: impl Fn(u64) -> i64) {
        let folder = tempfile::tempdir().expect("a folder");
        let db = PacedDb::new(sled::open(folder.path()).expect("a database"));
        let index = TagIndex::new(CHANGES_IN_MEMORY, 0);
        let mut expected = BTreeMap::<&str, BTreeSet<PlantId>>::new();
        let mut sequence = 0;
        let mut most_in_memory = 0;
        let tag_of = |number: u64| TAGS[usize::try_from(number % 4).expect("small")];
        for group in 0..GROUPS {
            let mut events = Vec::new();
            for _ in 0..GROUP {
                sequence += 1;
                let (id, tag) = (id_of(sequence), tag_of(sequence));
                events.push(event(id, None, Some(tag)));
                expected.entry(tag).or_default().insert(PlantId::from(id));
                if sequence % 3 == 0 {
                    // One that has got its tag long before loses it, or gets another one.
                    let number = sequence / 3;
                    let (id, left) = (id_of(number), tag_of(number));
                    let tag = (number % 2 == 0).then(|| tag_of(number + 1));
                    events.push(event(id, Some(left), tag));
                    expected.entry(left).or_default().remove(&PlantId::from(id));
                    if let Some(tag) = tag {
                        expected.entry(tag).or_default().insert(PlantId::from(id));
                    }
                }
            }
            let steps = 2 * events.len();
            index.apply(events);
            index.fold(&db, steps, sequence).expect("folds");
            most_in_memory = most_in_memory.max(sequence - index.folded_through());
            if group % 50 == 49 {
                for (tag, ids) in &expected {
                    for about in [100, 10_000, 1_000_000] {
                        assert_eq!(ids_with_tag(&index, &db, tag, about), *ids, "{tag}");
                    }
                }
                let mut digest = Digest::default();
                for (tag, ids) in &expected {
                    ids.iter().for_each(|id| digest += tag_digest(tag, *id));
                }
                assert_eq!(index.digest(&db).expect("reads"), digest);
            }
        }
        assert!(index.folded_through() > 0, "something was folded");
        let bound = 2 * (CHANGES_IN_MEMORY + 2 * GROUP);
        assert!(most_in_memory <= u64::try_from(bound).expect("small"), "{most_in_memory}");
    }

    #[test]
    fn a_tag_that_no_plant_has_any_more_leaves_no_block() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = PacedDb::new(sled::open(folder.path()).expect("a database"));
        let index = TagIndex::new(1, 0);
        for (sequence, tags) in (1..).zip([(None, Some("Rosa")), (Some("Rosa"), None)]) {
            index.apply((0..1_000).map(|id| event(id, tags.0, tags.1)));
            index.fold(&db, usize::MAX, sequence).expect("folds");
            assert_eq!(index.folded_through(), sequence);
            assert_eq!(db.range(tag_block_keys("Rosa")).next().is_some(), sequence == 1);
        }
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
