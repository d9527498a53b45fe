//! Tables: immutable files of sorted entries.
//!
//! A table is its blocks, each behind its length and checksum, then its tail (see [`Tail`]), then the tail's length and
//! checksum and [`MAGIC`]. The tail has the checksum of each block, and the manifest that of the tail, so the manifest
//! vouches for every byte.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;
use serde::{Deserialize, Serialize};

use super::block::{self, BlockCursor, checksum};
use super::bloom_filter::BloomFilter;
use super::cache::BlockCache;
use super::keys;
use super::search::outline::IndexOutline;
use crate::plant_record::whole;

const MAGIC: [u8; 8] = *b"pltable1";
pub(super) const FOOTER_BYTES: usize = 24;

/// The length and the checksum of a block, before the block. A table with a damaged tail is read by these heads.
pub(super) const BLOCK_HEAD_BYTES: usize = 12;

/// The head of a block.
pub(super) fn block_head(length: u32, checksum: u64) -> [u8; BLOCK_HEAD_BYTES] {
    let mut head = [0; BLOCK_HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// The end of a table: the length of the tail, its checksum, and [`MAGIC`].
pub(super) fn footer(tail: &[u8]) -> [u8; FOOTER_BYTES] {
    let mut footer = [0; FOOTER_BYTES];
    footer[..8].copy_from_slice(&(tail.len() as u64).to_le_bytes());
    footer[8..16].copy_from_slice(&checksum(tail).to_le_bytes());
    footer[16..].copy_from_slice(&MAGIC);
    footer
}

/// What the manifest says of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableMetadata {
    pub(super) number: u64,
    /// The length of its file.
    pub(super) bytes: u64,
    pub(super) tail_checksum: u64,
}

/// What describes a table's blocks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tail<'a> {
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
    /// How many entries are of plants, removals included.
    pub(super) plant_entries: u64,
    pub(super) layout: Layout,
    /// The [`BloomFilter`] over the ids of those plants.
    pub(super) filter: &'a [u8],
}

/// Where everything in a table is.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layout {
    /// The blocks of the entries, by ascending keys.
    pub(super) blocks: Vec<BlockPlace>,
    /// The blocks of the search index, by ascending keys. They lie between the others.
    pub(super) index_blocks: Vec<BlockPlace>,
    pub(super) index: IndexOutline,
}

impl Layout {
    /// The size of the blocks of the entries.
    pub(super) fn entry_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.length)).sum()
    }

    /// The size of the blocks of the search index.
    pub(super) fn index_bytes(&self) -> u64 {
        self.index_blocks.iter().map(|block| u64::from(block.length)).sum()
    }
}

/// Where a block is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockPlace {
    pub(super) first_key: Box<[u8]>,
    /// In bytes from the start of the table.
    pub(super) offset: u64,
    /// In bytes.
    pub(super) length: u32,
    pub(super) checksum: u64,
}

/// A part of a table. Each has sorted keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Entries,
    SearchIndex,
}

/// A table that is open for reading.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) metadata: TableMetadata,
    /// The sequence numbers of the first and the last change in the table.
    pub(super) sequences: (u64, u64),
    /// How many entries are of plants, removals included.
    pub(super) plant_entries: u64,
    pub(super) layout: Layout,
    /// The [`prefix`] of the first key of each block of entries: a search in one array, without a jump to each key.
    prefixes: Vec<u64>,
    filter: BloomFilter,
    content: Content,
    cache: Arc<BlockCache>,
}

/// Where a table's bytes are.
#[derive(Debug)]
pub(super) enum Content {
    File(FilePart),
    /// For the changes that no file has as a table.
    Memory(Vec<u8>),
}

/// A whole file, or the part of a backup that has a table.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) file: Arc<File>,
    /// Where the part begins in the file, in bytes.
    pub(super) begin: u64,
    pub(super) bytes: u64,
    /// For errors.
    pub(super) name: String,
}

impl Content {
    pub(super) fn of_file(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let open = || {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok::<_, io::Error>((file, bytes))
        };
        let (file, bytes) = open().with_context(|| format!("cannot read {name}"))?;
        Ok(Self::File(FilePart { file: Arc::new(file), begin: 0, bytes, name }))
    }

    const fn length(&self) -> u64 {
        match self {
            Self::File(part) => part.bytes,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Arc<[u8]>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.length());
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        match self {
            Self::File(FilePart { file, begin, .. }) => {
                let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
                file.read_exact_at(Arc::make_mut(&mut bytes), begin + offset)?;
                Ok(bytes)
            }
            Self::Memory(bytes) => {
                let begin = usize::try_from(offset).unwrap_or(usize::MAX);
                let bytes = bytes.get(begin..).and_then(|bytes| bytes.get(..length));
                bytes.map(Arc::from).ok_or(io::ErrorKind::UnexpectedEof.into())
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::File(part) => part.name.clone(),
            Self::Memory(_) => "the changes of the write-ahead log".to_owned(),
        }
    }
}

impl Table {
    /// Opens the table with this number. Its tail must be `expected`, if that is known; the blocks are not read yet.
    pub(super) fn open(
        number: u64,
        content: Content,
        expected: Option<&TableMetadata>,
        cache: Arc<BlockCache>,
    ) -> anyhow::Result<Self> {
        let name = content.name();
        Self::try_open(number, content, expected, cache).with_context(|| name)
    }

    fn try_open(
        number: u64,
        content: Content,
        expected: Option<&TableMetadata>,
        cache: Arc<BlockCache>,
    ) -> anyhow::Result<Self> {
        let bytes = content.length();
        let tail_end = bytes.checked_sub(FOOTER_BYTES as u64).context("it is cut")?;
        let footer = content.read(tail_end, FOOTER_BYTES)?;
        let (numbers, magic) = footer.split_at(FOOTER_BYTES - MAGIC.len());
        ensure!(magic == MAGIC, "it does not end as a table does");
        let (numbers, _) = numbers.as_chunks();
        let tail_bytes = u64::from_le_bytes(numbers[0]);
        let metadata =
            TableMetadata { number, bytes, tail_checksum: u64::from_le_bytes(numbers[1]) };
        ensure!(
            expected.is_none_or(|expected| *expected == metadata),
            "it is not the table that the manifest names"
        );
        let tail_begin = tail_end.checked_sub(tail_bytes).context("its tail is too long")?;
        let tail = content.read(tail_begin, usize::try_from(tail_bytes)?)?;
        ensure!(checksum(&tail) == metadata.tail_checksum, "its tail has a wrong checksum");
        let Tail { first_sequence, last_sequence, plant_entries, layout, filter } = whole(&tail)?;
        let end_of = |place: &BlockPlace| place.offset.checked_add(u64::from(place.length));
        ensure!(
            layout.all_blocks().all(|place| end_of(place).is_some_and(|end| end <= tail_begin)),
            "a block is outside of it"
        );
        // A merge reserves memory for this many plants.
        ensure!(plant_entries <= layout.entry_bytes(), "it cannot have {plant_entries} plants");
        layout.index.check(layout.blocks.len(), plant_entries)?;
        Ok(Self {
            metadata,
            sequences: (first_sequence, last_sequence),
            plant_entries,
            prefixes: layout.blocks.iter().map(|place| prefix(&place.first_key)).collect(),
            layout,
            filter: BloomFilter::from_bytes(filter)?,
            content,
            cache,
        })
    }

    /// Opens as much as can be read of a table whose tail is damaged: its whole blocks, up to a damaged head of a block.
    pub(super) fn without_tail(number: u64, content: Content, cache: Arc<BlockCache>) -> Self {
        let (mut blocks, mut offset) = (Vec::new(), 0);
        while let Some((place, end)) = block_at(&content, offset) {
            // The search index is of no use without its outline.
            blocks.extend(place.filter(|place| !keys::is_postings(&place.first_key)));
            offset = end;
        }
        Self {
            metadata: TableMetadata { number, bytes: 0, tail_checksum: 0 },
            sequences: (0, 0),
            plant_entries: 0,
            prefixes: blocks.iter().map(|place| prefix(&place.first_key)).collect(),
            layout: Layout { blocks, ..Layout::default() },
            filter: BloomFilter::of_all(),
            content,
            cache,
        }
    }

    /// The state of a plant: `None` when the table does not have the plant, `Some(None)` when it removes the plant.
    pub(super) fn plant(&self, id: PlantId) -> anyhow::Result<Option<Option<Arc<[u8]>>>> {
        if !self.filter.may_contain(id) {
            return Ok(None);
        }
        self.get(&keys::plant_key(id))
    }

    /// The value of a key: `None` when the table does not have the key, `Some(None)` when it removes the key.
    pub(super) fn get(&self, key: &[u8]) -> anyhow::Result<Option<Option<Arc<[u8]>>>> {
        self.find(Part::Entries, key)
    }

    /// The value of a key in a part of the table.
    pub(super) fn find(&self, part: Part, key: &[u8]) -> anyhow::Result<Option<Option<Arc<[u8]>>>> {
        let Some(index) = self.block_of(part, key) else { return Ok(None) };
        block::find(&self.block(part, index, true)?, key)
    }

    fn blocks(&self, part: Part) -> &[BlockPlace] {
        match part {
            Part::Entries => &self.layout.blocks,
            Part::SearchIndex => &self.layout.index_blocks,
        }
    }

    /// The index of the block that has the key, if the table has it.
    pub(super) fn block_of(&self, part: Part, key: &[u8]) -> Option<usize> {
        let range = match part {
            Part::Entries => {
                let prefix = prefix(key);
                let end = self.prefixes.partition_point(|one| *one <= prefix);
                self.prefixes[..end].partition_point(|one| *one < prefix)..end
            }
            Part::SearchIndex => 0..self.layout.index_blocks.len(),
        };
        let alike = &self.blocks(part)[range.clone()];
        (range.start + alike.partition_point(|place| *place.first_key <= *key)).checked_sub(1)
    }

    /// The plant that a block of entries begins with, if it begins with a plant.
    pub(super) fn first_plant(&self, index: usize) -> Option<PlantId> {
        keys::plant_of(&self.layout.blocks.get(index)?.first_key).ok().flatten()
    }

    /// A cursor over a block of entries.
    pub(super) fn block_cursor(&self, index: usize) -> anyhow::Result<BlockCursor> {
        Ok(BlockCursor::new(self.block(Part::Entries, index, true)?))
    }

    /// Reads a block, and checks its checksum.
    fn block(&self, part: Part, index: usize, is_cached: bool) -> anyhow::Result<Arc<[u8]>> {
        let blocks = self.blocks(part);
        let BlockPlace { first_key, offset, length, checksum: expected } = &blocks[index];
        let read = || {
            let bytes = self.content.read(*offset, usize::try_from(*length)?)?;
            ensure!(checksum(&bytes) == *expected, "its checksum is wrong");
            Ok(bytes)
        };
        let read = || {
            read().with_context(|| {
                let name = self.content.name();
                let next = blocks.get(index + 1).map(|next| &*next.first_key);
                format!("cannot read the block of {name} with {}", span(first_key, next))
            })
        };
        if is_cached { self.cache.get(self.metadata.number, *offset, read) } else { read() }
    }

    /// The bytes of the table as its file has them, unchecked.
    pub(super) fn bytes_at(&self, offset: u64, length: usize) -> io::Result<Arc<[u8]>> {
        self.content.read(offset, length)
    }

    /// Reads all blocks, and checks them and their heads.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.check_heads()?;
        for part in [Part::Entries, Part::SearchIndex] {
            (0..self.blocks(part).len())
                .try_for_each(|index| self.block(part, index, false).map(drop))?;
        }
        Ok(())
    }

    /// Checks the heads of all blocks, which no other read looks at.
    pub(super) fn check_heads(&self) -> anyhow::Result<()> {
        for place in self.layout.all_blocks() {
            let head_offset = place.offset.checked_sub(BLOCK_HEAD_BYTES as u64);
            let head_offset = head_offset.context("a block begins too early")?;
            let head = self.content.read(head_offset, BLOCK_HEAD_BYTES)?;
            ensure!(
                *head == block_head(place.length, place.checksum),
                "the head of a block of {} is damaged",
                self.content.name()
            );
        }
        Ok(())
    }
}

impl Layout {
    fn all_blocks(&self) -> impl Iterator<Item = &BlockPlace> {
        self.blocks.iter().chain(&self.index_blocks)
    }
}

/// The block whose head is at this place, if it is whole, and where the block ends.
fn block_at(content: &Content, offset: u64) -> Option<(Option<BlockPlace>, u64)> {
    let head = content.read(offset, BLOCK_HEAD_BYTES).ok()?;
    let (length, checksum_bytes) = head.split_first_chunk()?;
    let length = u32::from_le_bytes(*length);
    let expected = u64::from_le_bytes(*checksum_bytes.first_chunk()?);
    let offset = offset + BLOCK_HEAD_BYTES as u64;
    let end = offset + u64::from(length);
    let fits = end <= content.length();
    let bytes = fits.then(|| content.read(offset, usize::try_from(length).ok()?).ok())??;
    if checksum(&bytes) != expected {
        return Some((None, end));
    }
    let mut cursor = BlockCursor::new(bytes);
    let has_entries = cursor.advance().ok()?;
    let first_key = cursor.key().into();
    let place = BlockPlace { first_key, offset, length, checksum: expected };
    Some((has_entries.then_some(place), end))
}

/// The first bytes of a key, which sort as keys do, except that some keys have the same prefix.
fn prefix(key: &[u8]) -> u64 {
    let mut prefix = [0; size_of::<u64>()];
    let length = prefix.len().min(key.len());
    prefix[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(prefix)
}

/// Names the entries from a key up to another key.
fn span(first: &[u8], next: Option<&[u8]>) -> String {
    let name = |key: &[u8]| {
        let plant = || keys::plant_of(key).ok().flatten().map(|id| format!("plant {id}"));
        let count = || keys::counted_tag(key).ok().flatten().map(|tag| format!("tag {tag:?}"));
        let event = || keys::event_of(key).ok().flatten().map(|number| format!("event {number}"));
        plant().or_else(count).or_else(event).unwrap_or_else(|| format!("key {key:x?}"))
    };
    match next {
        Some(next) => format!("everything from {} to before {}", name(first), name(next)),
        None => format!("everything from {} on", name(first)),
    }
}

/// Reads the entries of a table in turn.
#[derive(Debug)]
pub(super) struct TableCursor {
    table: Arc<Table>,
    part: Part,
    /// Entries before this key are skipped; empty once one is found.
    from: Vec<u8>,
    is_cached: bool,
    /// The index of the next block to read.
    next_block: usize,
    block: Option<BlockCursor>,
}

impl TableCursor {
    /// A cursor before the first entry from a key on.
    pub(super) fn new(table: Arc<Table>, part: Part, from: &[u8], is_cached: bool) -> Self {
        let next_block = table.block_of(part, from).unwrap_or(0);
        Self { table, part, from: from.to_vec(), is_cached, next_block, block: None }
    }

    /// Moves to the next entry. Returns false after the last one. After an error, the next call continues behind the
    /// damaged block.
    pub(super) fn advance(&mut self) -> anyhow::Result<bool> {
        loop {
            if let Some(block) = &mut self.block {
                match block.advance() {
                    Ok(false) => self.block = None,
                    Ok(true) if block.key() < &self.from[..] => {}
                    Ok(true) => {
                        self.from.clear();
                        return Ok(true);
                    }
                    Err(error) => {
                        self.block = None;
                        return Err(error.context("a block is damaged"));
                    }
                }
                continue;
            }
            if self.next_block == self.table.blocks(self.part).len() {
                return Ok(false);
            }
            let index = self.next_block;
            self.next_block += 1;
            let block = self.table.block(self.part, index, self.is_cached)?;
            self.block = Some(BlockCursor::new(block));
        }
    }

    /// The current entry: its key, and its value, which is `None` when the entry removes the key.
    pub(super) fn entry(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.block.as_ref().map(|block| (block.key(), block.value()))
    }
}
