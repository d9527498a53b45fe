//! Builds the search index of a table while the table is written.
//!
//! The postings of consecutive blocks gather in memory, and are written as a chunk once there are many. So writing a
//! table takes the same memory whatever its size.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;
use plant_domain::fold_name;

use super::index_keys;
use super::postings::PostingsBuilder;
use super::term::{Gram, gram_term, grams, tag_term};
use crate::record::PlantRecord;

// `plantd verify` builds each index again and compares the two, so changing one of these numbers changes the format of
// tables.

/// The most blocks of a chunk. A search reads a term's postings once for each chunk, and they take at most one bit for
/// each block.
const CHUNK_BLOCKS: u32 = 1 << 14;

/// The most bytes that the postings of a chunk take in memory, roughly.
const CHUNK_BYTES: usize = 24 * 1024 * 1024;

/// About how many bytes a term takes in memory, without its postings.
const TERM_BYTES: usize = 128;

/// Keys of the index, and their values.
pub(crate) type IndexEntries = Vec<(Vec<u8>, Vec<u8>)>;

/// The postings of the current chunk.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    grams: HashMap<Gram, PostingsBuilder, RandomState>,
    tags: HashMap<Box<str>, PostingsBuilder, RandomState>,
    /// The first block of each chunk, counted from the beginning of the table.
    chunk_begins: Vec<u32>,
    /// The number of blocks so far.
    blocks: u32,
    /// About how many bytes the chunk takes in memory.
    bytes: usize,
}

impl IndexBuilder {
    /// Begins a block. Returns the entries of the previous chunk if it is complete, or else none.
    pub(crate) fn begin_block(&mut self) -> anyhow::Result<IndexEntries> {
        let is_full = self.blocks_of_chunk() >= CHUNK_BLOCKS || self.bytes >= CHUNK_BYTES;
        let complete = if is_full { self.take_chunk()? } else { IndexEntries::new() };
        if is_full || self.blocks == 0 {
            self.chunk_begins.push(self.blocks);
        }
        self.blocks += 1;
        Ok(complete)
    }

    fn blocks_of_chunk(&self) -> u32 {
        self.blocks - self.chunk_begins.last().copied().unwrap_or_default()
    }

    /// Adds the next plant entry of the block. `None` is a tombstone.
    pub(crate) fn add(&mut self, record: Option<&[u8]>) {
        // Everything that reads the plant reports a record that cannot be decoded.
        let Some(Ok(record)) = record.map(PlantRecord::decode) else { return };
        let block = self.blocks_of_chunk() - 1;
        for gram in grams(&fold_name(record.name)) {
            let postings = self.grams.entry(gram).or_insert_with(|| {
                self.bytes += TERM_BYTES;
                PostingsBuilder::default()
            });
            self.bytes += usize::from(postings.add(block));
        }
        let Some(tag) = record.tag else { return };
        match self.tags.get_mut(tag) {
            Some(postings) => self.bytes += usize::from(postings.add(block)),
            None => {
                self.bytes += TERM_BYTES + tag.len();
                self.tags.entry(tag.into()).or_default().add(block);
            }
        }
    }

    /// The entries of the current chunk in key order; none if it has no block.
    pub(crate) fn take_chunk(&mut self) -> anyhow::Result<IndexEntries> {
        let Some(number) = self.chunk_begins.len().checked_sub(1) else {
            return Ok(IndexEntries::new());
        };
        let blocks = self.blocks_of_chunk() as usize;
        let grams = mem::take(&mut self.grams).into_iter();
        let grams = grams.map(|(gram, postings)| (gram_term(gram), postings));
        let tags = mem::take(&mut self.tags).into_iter();
        let tags = tags.map(|(tag, postings)| (tag_term(&tag), postings));
        let entries = grams.chain(tags).map(|(term, postings)| {
            Ok((index_keys::postings(number, &term)?, postings.encode(blocks)?))
        });
        let mut entries = entries.collect::<anyhow::Result<IndexEntries>>()?;
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.bytes = 0;
        Ok(entries)
    }

    /// The last entry of the index, once all chunks are taken.
    pub(crate) fn outline(&self) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
        Ok((index_keys::OUTLINE.to_vec(), postcard::to_stdvec(&self.chunk_begins)?))
    }
}
