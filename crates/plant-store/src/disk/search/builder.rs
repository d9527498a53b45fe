//! Builds the search index of a table while the table is written.
//!
//! The postings of consecutive granules are gathered in memory, and written as a chunk once they are many. So a table of any
//! size takes the same memory to write.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;
use plant_domain::fold_name;

use super::outline::IndexOutline;
use super::postings::{GRANULE_PLANTS, PostingsBuilder};
use super::term::{Gram, gram_term, grams, tag_term};
use crate::plant_record::PlantRecord;

// `plantd verify` writes each table again and compares the two, so changing one of these numbers requires a new `FORMAT`.

/// The most granules of a chunk. A search reads the postings of a term once for each chunk.
const CHUNK_GRANULES: u32 = 1 << 16;

/// About how many bytes the postings of a chunk may take in memory.
const CHUNK_BYTES: usize = 24 * 1024 * 1024;

/// About how many bytes a term takes in memory, beside its postings.
const TERM_BYTES: usize = 128;

/// The postings of the chunk that is being gathered.
#[derive(Debug, Default)]
pub(in super::super) struct IndexBuilder {
    grams: HashMap<Gram, PostingsBuilder, RandomState>,
    tags: HashMap<Box<str>, PostingsBuilder, RandomState>,
    /// The first granule of the chunk.
    chunk_begin: u32,
    plants_in_granule: usize,
    /// Covers the complete blocks and chunks.
    outline: IndexOutline,
    /// How many granules are before the current block.
    block_begin: u32,
    /// About how much memory the chunk takes.
    bytes: usize,
}

/// A chunk of the index: the terms in ascending order with their postings.
pub(in super::super) struct Chunk {
    /// The number of its first granule.
    pub(in super::super) begin: u32,
    pub(in super::super) postings: Vec<(Vec<u8>, Vec<u8>)>,
}

impl IndexBuilder {
    /// Adds the next plant entry of the table; without a record, the plant was deleted.
    pub(in super::super) fn add(&mut self, record: Option<&[u8]>) {
        if self.plants_in_granule == GRANULE_PLANTS {
            self.end_granule();
        }
        self.plants_in_granule += 1;
        // A record that cannot be decoded is reported by everything that reads the plant.
        let Some(Ok(record)) = record.map(PlantRecord::decode) else { return };
        let granule = self.outline.granules - self.chunk_begin;
        for gram in grams(&fold_name(record.name)) {
            let postings = self.grams.entry(gram).or_insert_with(|| {
                self.bytes += TERM_BYTES;
                PostingsBuilder::default()
            });
            self.bytes += usize::from(postings.add(granule));
        }
        let Some(tag) = record.tag else { return };
        match self.tags.get_mut(tag) {
            Some(postings) => self.bytes += usize::from(postings.add(granule)),
            None => {
                self.bytes += TERM_BYTES + tag.len();
                self.tags.entry(tag.into()).or_default().add(granule);
            }
        }
    }

    /// Ends the current block, and with it the last granule of the block.
    pub(in super::super) fn end_block(&mut self) {
        if self.plants_in_granule > 0 {
            self.end_granule();
        }
        let begin = mem::replace(&mut self.block_begin, self.outline.granules);
        self.outline.granules_before.push(begin);
    }

    fn end_granule(&mut self) {
        self.outline.granules += 1;
        self.plants_in_granule = 0;
    }

    /// The chunk, if it has enough postings. Only between two blocks.
    pub(in super::super) fn take_full_chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        let granules = self.outline.granules - self.chunk_begin;
        let is_full = granules >= CHUNK_GRANULES || self.bytes >= CHUNK_BYTES;
        if is_full { self.take_chunk() } else { Ok(None) }
    }

    /// The chunk so far, if it has granules. Only between two blocks.
    pub(in super::super) fn take_chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        let granules = (self.outline.granules - self.chunk_begin) as usize;
        if granules == 0 {
            return Ok(None);
        }
        let grams = mem::take(&mut self.grams).into_iter();
        let grams = grams.map(|(gram, postings)| (gram_term(gram), postings));
        let tags = mem::take(&mut self.tags).into_iter();
        let tags = tags.map(|(tag, postings)| (tag_term(&tag), postings));
        let encoded =
            |(term, postings): (_, PostingsBuilder)| Ok((term, postings.encode(granules)?));
        let mut postings = grams.chain(tags).map(encoded).collect::<anyhow::Result<Vec<_>>>()?;
        postings.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let begin = mem::replace(&mut self.chunk_begin, self.outline.granules);
        self.outline.chunks.push(begin);
        self.bytes = 0;
        Ok(Some(Chunk { begin, postings }))
    }

    /// The outline of the whole index, once all chunks are taken.
    pub(in super::super) fn take_outline(&mut self) -> IndexOutline {
        mem::take(&mut self.outline)
    }
}
