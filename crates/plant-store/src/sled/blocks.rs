//! Blocks: many short values by id, in few entries of sled.
//!
//! An entry of fifty bytes costs sled about as much work as one of a thousand. The key of a block ends with the least
//! id that belongs in the block; the block holds the ids below the key of the next block. The first block begins at the
//! least id of all.
//!
//! A block is a version byte and its entries by ascending id: the distance from the id before (for the first entry, from
//! the key's id), and the value after its length, both as postcard writes them.

use std::iter::{self, Peekable};
use std::ops::{Bound, Range};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

use super::layout::{
    MAX_VALUE_BYTES, PLANT_PREFIX, VALUE_VERSION, from_ordered, ordered, unversioned,
};
use super::ordered_map::paced::{Batch, PacedDb};
use super::ordered_map::{IVec, Tree};
use crate::fault;
use crate::plant_record::EncodedPlant;

/// A block above this size, in bytes, is split. Larger blocks would make sled's lists shorter, and changes in the
/// middle of a block more expensive.
const BLOCK_BYTES: usize = 1024;

/// A block that becomes smaller than this, in bytes, is merged with the next one.
const SMALL_BLOCK_BYTES: usize = BLOCK_BYTES / 4;

/// The most changes in one step of [`merge_into`]. Bounds how long readers wait.
const CHANGES_IN_A_STEP: usize = 256;

/// About the most bytes of values in one step, which is one sled batch.
const BYTES_IN_A_STEP: usize = 32 * 1024;

/// Keeps readers from seeing a block that is half split. The value is true during a write, and after a failed write.
#[derive(Debug, Default)]
pub(super) struct BlocksLock(RwLock<bool>);

impl BlocksLock {
    /// Fails once a write has failed halfway; the store has then failed too.
    pub(super) fn read(&self) -> anyhow::Result<RwLockReadGuard<'_, bool>> {
        let is_torn = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ensure!(!*is_torn, "sled failed while it wrote plants");
        Ok(is_torn)
    }

    /// Runs `write` while no reader holds the lock. After a failed `write` every read fails.
    fn write(&self, write: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut is_torn = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *is_torn = true;
        write()?;
        *is_torn = false;
        Ok(())
    }
}

/// Ids from [`Self::first`] on, and their values.
#[derive(Clone, Debug)]
pub(super) struct Block {
    key: IVec,
    value: IVec,
    /// The least id that belongs in the block, which its key ends with.
    pub(super) first: PlantId,
}

impl Block {
    /// Fails when the key is not the prefix and an id.
    pub(super) fn new(prefix: &[u8], (key, value): (IVec, IVec)) -> anyhow::Result<Self> {
        let first = key.strip_prefix(prefix).and_then(|first| first.try_into().ok());
        let first = first.with_context(|| format!("the key {:x?} of a block is damaged", &key[..]));
        Ok(Self { first: from_ordered(first?), key, value })
    }

    /// The ids, ascending, and their values.
    pub(super) const fn entries(&self) -> Entries<'_> {
        Entries { block: self, before: None, rest: &[] }
    }

    fn all_entries(&self) -> anyhow::Result<Vec<Entry<'_>>> {
        self.entries().collect()
    }
}

type Entry<'a> = (PlantId, &'a [u8]);

/// The entries of a block. The first error is the last item that means anything.
pub(super) struct Entries<'a> {
    block: &'a Block,
    /// The id of the entry before, unless none is read yet.
    before: Option<PlantId>,
    /// The bytes after that entry.
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    fn read(&mut self) -> anyhow::Result<Entry<'a>> {
        let (before, rest) = match self.before {
            None => (self.block.first, unversioned(&self.block.value)?),
            Some(before) => (before, self.rest),
        };
        let ((distance, value), rest): ((u64, &[u8]), _) = postcard::take_from_bytes(rest)?;
        ensure!(distance > 0 || self.before.is_none(), "id {before} appears twice");
        let id = before.get().checked_add_unsigned(distance).context("an id is out of range")?;
        let id = PlantId::from(id);
        (self.before, self.rest) = (Some(id), rest);
        Ok((id, value))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = anyhow::Result<Entry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // A block has at least one entry.
        let is_over = self.before.is_some() && self.rest.is_empty();
        let key = &self.block.key;
        let damaged = |error: anyhow::Error| {
            error.context(format!("the block with the key {:x?} is damaged", &key[..]))
        };
        (!is_over).then(|| self.read().map_err(damaged))
    }
}

/// The block that an id belongs in.
fn block_of(tree: &Tree, prefix: &[u8], id: PlantId) -> anyhow::Result<Option<Block>> {
    let keys = key(prefix, PlantId::MIN)..=key(prefix, id);
    let found = tree.range(keys).next_back().transpose()?;
    found.map(|entry| Block::new(prefix, entry)).transpose()
}

/// The blocks after the one that an id belongs in.
fn blocks_behind(
    tree: &Tree,
    prefix: &[u8],
    id: PlantId,
) -> impl Iterator<Item = anyhow::Result<Block>> {
    let from = Bound::Excluded(key(prefix, id));
    let keys = (from, Bound::Included(key(prefix, PlantId::MAX)));
    tree.range(keys).map(move |entry| Block::new(prefix, entry?))
}

pub(super) fn get(tree: &Tree, prefix: &[u8], id: PlantId) -> anyhow::Result<Option<EncodedPlant>> {
    let Some(block) = block_of(tree, prefix, id)? else { return Ok(None) };
    for entry in block.entries() {
        let (found, value) = entry?;
        if found >= id {
            return Ok((found == id).then(|| EncodedPlant::from(value)));
        }
    }
    Ok(None)
}

/// Calls `visit` with the ids from `from` up to but without `end`, and their values, until `visit` returns false. Returns
/// false then.
pub(super) fn visit_between(
    tree: &Tree,
    prefix: &[u8],
    from: PlantId,
    end: Option<PlantId>,
    mut visit: impl FnMut(PlantId, &[u8]) -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let around = block_of(tree, prefix, from)?.map(Ok);
    let mut last = None;
    for block in around.into_iter().chain(blocks_behind(tree, prefix, from)) {
        let block = block?;
        check_order(last, block.first)?;
        for entry in block.entries() {
            let (id, value) = entry?;
            if end.is_some_and(|end| id >= end) {
                return Ok(true);
            }
            if id >= from && !visit(id, value)? {
                return Ok(false);
            }
            last = Some(id);
        }
    }
    Ok(true)
}

/// The new value of an id; `None` removes the id.
pub(super) type BlockChange<'a> = (PlantId, Option<&'a [u8]>);

/// Merges changes, by ascending id, into the blocks. Each step is one write or one batch, so a kill leaves the first
/// steps, and merging the same changes again writes only what is missing.
pub(super) fn merge_into<'a>(
    db: &PacedDb,
    lock: &BlocksLock,
    prefix: &[u8],
    changes: impl Iterator<Item = BlockChange<'a>>,
    mut after_step: impl FnMut(),
) -> anyhow::Result<()> {
    let mut changes = changes.peekable();
    while let Some(&(first, _)) = changes.peek() {
        let block = block_of(db, prefix, first)?;
        let next = blocks_behind(db, prefix, first).next().transpose()?;
        let end = next.as_ref().map(|next| next.first);
        let step = next_step(&mut changes, end);
        let old = block.as_ref().map_or(Ok(Vec::new()), Block::all_entries)?;
        let mut new = merge(&old, &step);
        if new != old {
            let begin = block.as_ref().map_or(PlantId::MIN, |block| block.first);
            let mut old_blocks: Vec<&Block> = block.iter().collect();
            if let Some(next) = &next
                && encode(begin, &new)?.len() < SMALL_BLOCK_BYTES
            {
                new.extend(next.all_entries()?);
                old_blocks.push(next);
            }
            // Appended ids get full blocks: no id is likely to be inserted between them.
            let is_full = next.is_none() && new.starts_with(&old);
            let old_keys = old_blocks.iter().map(|block| (block.key.to_vec(), None));
            let mut batch: Batch = old_keys.collect();
            let new_blocks = cut(prefix, begin, &new, is_full)?.into_iter();
            batch.extend(new_blocks.map(|(key, value)| (key, Some(value))));
            // Flushed before the lock is taken, so that readers do not wait for the disk.
            db.make_room_for(&batch)?;
            lock.write(|| Ok(db.apply(batch)?))?;
        }
        after_step();
        fault::point("after-fold-step");
    }
    Ok(())
}

/// Takes the changes of one step: some of those below `end`.
fn next_step<'a>(
    changes: &mut Peekable<impl Iterator<Item = BlockChange<'a>>>,
    end: Option<PlantId>,
) -> Vec<BlockChange<'a>> {
    let mut bytes = 0;
    let step = iter::from_fn(|| {
        let has_room = bytes < BYTES_IN_A_STEP;
        let change = changes.next_if(|(id, _)| has_room && end.is_none_or(|end| *id < end))?;
        bytes += change.1.map_or(0, <[u8]>::len);
        Some(change)
    });
    step.take(CHANGES_IN_A_STEP).collect()
}

fn merge<'a>(old: &[Entry<'a>], changes: &[BlockChange<'a>]) -> Vec<Entry<'a>> {
    let mut merged = Vec::with_capacity(old.len() + changes.len());
    let mut old = old.iter().copied().peekable();
    for (id, value) in changes {
        merged.extend(iter::from_fn(|| old.next_if(|(old_id, _)| old_id < id)));
        old.next_if(|(old_id, _)| old_id == id);
        merged.extend(value.map(|value| (*id, value)));
    }
    merged.extend(old);
    merged
}

/// Cuts entries into blocks, as keys and values; the first block begins at the id `begin`. The blocks are full, or
/// equally large, which leaves room in each for ids in between.
pub(super) fn cut(
    prefix: &[u8],
    begin: PlantId,
    entries: &[Entry<'_>],
    is_full: bool,
) -> anyhow::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = encode(begin, entries)?.len();
    let enough = if is_full { BLOCK_BYTES } else { bytes.div_ceil(bytes.div_ceil(BLOCK_BYTES)) };
    let mut blocks = Vec::new();
    let (mut first, mut rest) = (begin, entries);
    while !rest.is_empty() {
        let (mut value, mut before, mut count) = (vec![VALUE_VERSION], first, 0);
        for (id, bytes) in rest {
            let end = value.len();
            value = append(value, before, *id, bytes)?;
            // A single entry always fits.
            if count > 0 && (end >= enough || value.len() > BLOCK_BYTES) {
                value.truncate(end);
                break;
            }
            (before, count) = (*id, count + 1);
        }
        ensure!(value.len() <= MAX_VALUE_BYTES, "a block of {} bytes is too large", value.len());
        blocks.push((key(prefix, first), value));
        rest = &rest[count..];
        first = rest.first().map_or(first, |(id, _)| *id);
    }
    Ok(blocks)
}

/// The value of a block, however large.
fn encode(first: PlantId, entries: &[Entry<'_>]) -> anyhow::Result<Vec<u8>> {
    let (mut value, mut before) = (vec![VALUE_VERSION], first);
    for (id, bytes) in entries {
        value = append(value, before, *id, bytes)?;
        before = *id;
    }
    Ok(value)
}

/// Adds an entry to the value of a block.
fn append(value: Vec<u8>, before: PlantId, id: PlantId, bytes: &[u8]) -> postcard::Result<Vec<u8>> {
    let mut value = postcard::to_extend(&(id.get().abs_diff(before.get()), bytes.len()), value)?;
    value.extend_from_slice(bytes);
    Ok(value)
}

pub(super) fn key(prefix: &[u8], id: PlantId) -> Vec<u8> {
    [prefix, &ordered(id)].concat()
}

pub(super) fn plant_keys(id: PlantId) -> Range<Vec<u8>> {
    key(PLANT_PREFIX, id)..vec![PLANT_PREFIX[0] + 1]
}

/// Checks that a block begins after the last id of the block before it.
pub(super) fn check_order(last_before: Option<PlantId>, first: PlantId) -> anyhow::Result<()> {
    let overlaps = last_before.is_some_and(|last| last >= first);
    ensure!(!overlaps, "the block of ids from {first} on overlaps the one before");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fastrand::Rng;

    use super::*;
    use crate::sled::ordered_map;

    const PREFIX: &[u8] = b"p";
    const ROUNDS: u64 = 40;
    const CHANGES: u64 = 1_000;

    struct Store {
        db: PacedDb,
        lock: BlocksLock,
        _folder: tempfile::TempDir,
    }

    impl Store {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let db = PacedDb::new(
                ordered_map::Config::new().path(folder.path()).open().expect("a database"),
            );
            Self { db, lock: BlocksLock::default(), _folder: folder }
        }

        fn merge(&self, changes: &BTreeMap<PlantId, Option<Vec<u8>>>) {
            let changes = changes.iter().map(|(id, value)| (*id, value.as_deref()));
            merge_into(&self.db, &self.lock, PREFIX, changes, || ()).expect("merges");
        }

        fn blocks(&self) -> Vec<(IVec, IVec)> {
            self.db.scan_prefix(PREFIX).map(|entry| entry.expect("reads")).collect()
        }

        fn entries(&self, from: PlantId, end: Option<PlantId>) -> Vec<(PlantId, Vec<u8>)> {
            let mut entries = Vec::new();
            let visited = visit_between(&self.db, PREFIX, from, end, |id, value| {
                entries.push((id, value.to_vec()));
                Ok(true)
            });
            assert!(visited.expect("reads"));
            entries
        }
    }

    /// Merges changes to ids in the order of `id_of`, removes a third of the ids later, and compares the blocks with
    /// `expected`. Returns how full the blocks are at the end.
    fn check(id_of: impl Fn(u64) -> i64) -> f64 {
        let store = Store::new();
        let mut rng = Rng::with_seed(7);
        let mut expected = BTreeMap::<PlantId, Vec<u8>>::new();
        for round in 0..ROUNDS {
            let mut changes = BTreeMap::new();
            for number in 0..CHANGES {
                let number = round * CHANGES + number;
                let value = vec![b'x'; rng.usize(..80)];
                changes.insert(PlantId::from(id_of(number)), Some(value));
                if number.is_multiple_of(3) {
                    changes.insert(PlantId::from(id_of(number / 3)), None);
                }
            }
            store.merge(&changes);
            let before = store.blocks();
            store.merge(&changes);
            assert!(store.blocks() == before, "merging the same changes again changes nothing");
            for (id, value) in changes {
                match value {
                    Some(value) => expected.insert(id, value),
                    None => expected.remove(&id),
                };
            }
        }
        assert_eq!(store.entries(PlantId::MIN, None), Vec::from_iter(expected.clone()));
        let ids: Vec<PlantId> = expected.keys().copied().collect();
        for _ in 0..100 {
            let [from, end] = [ids[rng.usize(..ids.len())], ids[rng.usize(..ids.len())]];
            let between = expected.range(from.min(end)..end.max(from));
            let between: Vec<_> = between.map(|(id, value)| (*id, value.clone())).collect();
            assert_eq!(store.entries(from.min(end), Some(end.max(from))), between);
            let value = get(&store.db, PREFIX, from).expect("reads").expect("it is there");
            assert_eq!(value.bytes(), expected[&from]);
            if let Some(absent) = from.next().filter(|id| !expected.contains_key(id)) {
                assert_eq!(get(&store.db, PREFIX, absent).expect("reads"), None);
            }
        }
        let blocks = store.blocks();
        assert!(blocks.iter().all(|(_, value)| value.len() <= BLOCK_BYTES), "a block is too large");
        let bytes: usize = blocks.iter().map(|(_, value)| value.len()).sum();
        bytes as f64 / (blocks.len() * BLOCK_BYTES) as f64
    }

    #[test]
    fn ids_in_any_order_are_all_there_and_fill_their_blocks() {
        assert!(check(|number| i64::MIN + number.cast_signed()) > 0.6);
        assert!(check(|number| i64::MAX - number.cast_signed()) > 0.4);
        assert!(check(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).cast_signed()) > 0.4);
    }

    #[test]
    fn blocks_that_get_small_become_one() {
        let store = Store::new();
        let ids = || (0..10_000).map(PlantId::from);
        store.merge(&ids().map(|id| (id, Some(b"Rosa".to_vec()))).collect());
        let many = store.blocks().len();
        let gone = ids().filter(|id| id.get() % 20 != 0);
        store.merge(&gone.map(|id| (id, None)).collect());
        assert_eq!(store.entries(PlantId::MIN, None).len(), 500);
        assert!(store.blocks().len() < many / 4, "{} blocks of {many}", store.blocks().len());
        store.merge(&ids().map(|id| (id, None)).collect());
        assert_eq!(store.blocks(), []);
    }

    #[test]
    fn a_block_that_cannot_be_read_is_an_error_behind_what_can() {
        let store = Store::new();
        let value = vec![b'x'; BLOCK_BYTES];
        let ids = [1, 2, 3].map(PlantId::from);
        store.merge(&ids.into_iter().map(|id| (id, Some(value.clone()))).collect());
        let (key, block) = store.blocks().remove(1);
        for damaged in [&[][..], &[1], &[2, 0, 0], &block[..block.len() - 1]] {
            store.db.insert(&key, damaged.to_vec()).expect("writes");
            let mut read = 0;
            let visited = visit_between(&store.db, PREFIX, PlantId::MIN, None, |_, _| {
                read += 1;
                Ok(true)
            });
            assert!(visited.is_err(), "{damaged:?}");
            assert_eq!(read, 1, "{damaged:?}");
        }
    }
}
