//! Builds the search index of a table while the table is written.
//!
//! The postings of consecutive blocks are gathered in memory, and written as a chunk once they are many. So a table of any
//! size takes the same memory to write.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;
use plant_domain::fold_name;

use super::index_keys;
use super::postings::PostingsBuilder;
use super::term::{Gram, gram_term, grams, tag_term};
use crate::record::PlantRecord;

// `plantd verify` builds each index again and compares the two, so a change of one of these numbers is another format of
// tables.

/// The most blocks of a chunk. A search reads the postings of a term once for each chunk, and each takes at most a bit for
/// each block.
const CHUNK_BLOCKS: u32 = 1 << 14;

/// About how many bytes the postings of a chunk may take in memory.
const CHUNK_BYTES: usize = 24 * 1024 * 1024;

/// About how many bytes a term takes in memory, beside its postings.
const TERM_BYTES: usize = 128;

/// Keys of the index, and their values.
pub(crate) type IndexEntries = Vec<(Vec<u8>, Vec<u8>)>;

/// The postings of the chunk that is being gathered.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    grams: HashMap<Gram, PostingsBuilder, RandomState>,
    tags: HashMap<Box<str>, PostingsBuilder, RandomState>,
    /// The first block of each chunk. Blocks are numbered from the beginning of the table.
    chunk_begins: Vec<u32>,
    /// How many blocks there are.
    blocks: u32,
    /// About how much memory the chunk takes.
    bytes: usize,
}

impl IndexBuilder {
    /// Begins a block. Returns the entries of the chunk before if that is complete; otherwise, none.
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

    /// Adds the next plant entry of the block; without a record, the plant was deleted.
    pub(crate) fn add(&mut self, record: Option<&[u8]>) {
        // A record that cannot be decoded is reported by everything that reads the plant.
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

    /// The entries of the chunk so far, in the order of their keys; none if it has no block.
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
