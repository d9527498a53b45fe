//! Builds the search index of a table while the table is written.
//!
//! The postings of consecutive granules are gathered in memory, and written as a chunk once they are many. So a table of any
//! size takes the same memory to write.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;
use plant_domain::fold_name;

use super::postings::{GRANULE_PLANTS, PostingsBuilder};
use super::term::{Gram, gram_term, grams, tag_term};
use crate::plant_record::PlantRecord;

/// The most granules of a chunk. A search reads the postings of a term once for each chunk.
const CHUNK_GRANULES: u32 = 1 << 16;

/// About how many bytes the postings of a chunk may take in memory.
const CHUNK_BYTES: usize = 24 * 1024 * 1024;

/// About how many bytes a term takes in memory, beside its postings.
const TERM_BYTES: usize = 64;

/// The postings of the chunk that is being gathered.
#[derive(Debug, Default)]
pub(in super::super) struct IndexBuilder {
    grams: HashMap<Gram, PostingsBuilder, RandomState>,
    tags: HashMap<Box<str>, PostingsBuilder, RandomState>,
    /// The number of the first granule of the chunk. Granules are numbered from the beginning of the table.
    chunk_begin: u32,
    /// The number of the granule that takes the next plant.
    granule: u32,
    plants_in_granule: usize,
    /// The number of the first granule of the block.
    block_begin: u32,
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
        let granule = self.granule - self.chunk_begin;
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

    /// Ends a block. Returns how many granules are before it.
    pub(in super::super) fn end_block(&mut self) -> u32 {
        if self.plants_in_granule > 0 {
            self.end_granule();
        }
        mem::replace(&mut self.block_begin, self.granule)
    }

    fn end_granule(&mut self) {
        self.granule += 1;
        self.plants_in_granule = 0;
    }

    /// How many granules there are, once the last block has ended.
    pub(in super::super) const fn granules(&self) -> u32 {
        self.granule
    }

    /// The chunk, once it has enough postings. Call this after each block.
    pub(in super::super) fn complete_chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        let is_complete =
            self.granule - self.chunk_begin >= CHUNK_GRANULES || self.bytes >= CHUNK_BYTES;
        if is_complete { self.end_chunk() } else { Ok(None) }
    }

    /// The chunk so far, if it has granules.
    pub(in super::super) fn end_chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        let granules = (self.granule - self.chunk_begin) as usize;
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
        let begin = mem::replace(&mut self.chunk_begin, self.granule);
        self.bytes = 0;
        Ok(Some(Chunk { begin, postings }))
    }
}
