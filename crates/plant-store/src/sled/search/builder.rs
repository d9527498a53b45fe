//! Builds the search index of a table while the table is written.
//!
//! The postings of consecutive blocks are gathered in memory, and written as a chunk once they are many. So a table of any
//! size takes the same memory to write.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;
use plant_domain::{PlantId, fold_name};
use serde::{Deserialize, Serialize};

use super::index_keys;
use super::postings::PostingsBuilder;
use super::term::{Gram, gram_term, grams, tag_term};
use crate::record::PlantRecord;
use crate::sled::keys;

// `plantd verify` builds each index again and compares the two, so a change of one of these numbers is another format of
// tables.

/// The most blocks of a chunk. A search reads the postings of a term once for each chunk, and each takes at most a bit for
/// each block.
const CHUNK_BLOCKS: usize = 1 << 14;

/// About how many bytes the postings of a chunk may take in memory.
const CHUNK_BYTES: usize = 24 * 1024 * 1024;

/// About how many bytes a term takes in memory, beside its postings.
const TERM_BYTES: usize = 128;

/// The first ids of so many blocks are one entry.
pub(super) const BLOCKS_OF_A_PAGE: usize = 64;

/// Keys of the index, and their values.
pub(crate) type IndexEntries = Vec<(Vec<u8>, Vec<u8>)>;

/// What the outline of an index says of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chunk {
    /// The first plant of its first block.
    pub(super) first_plant: i64,
    pub(super) blocks: u32,
}

/// The postings of the chunk that is being gathered.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    grams: HashMap<Gram, PostingsBuilder, RandomState>,
    tags: HashMap<Box<str>, PostingsBuilder, RandomState>,
    /// The first plants of the blocks of the chunk.
    first_plants: Vec<PlantId>,
    /// The complete chunks.
    chunks: Vec<Chunk>,
    /// About how much memory the chunk takes.
    bytes: usize,
}

impl IndexBuilder {
    /// Begins a block with this plant. Returns the entries of the chunk before, if that is complete.
    pub(crate) fn begin_block(
        &mut self,
        first_plant: PlantId,
    ) -> anyhow::Result<Option<IndexEntries>> {
        let is_full = self.first_plants.len() >= CHUNK_BLOCKS || self.bytes >= CHUNK_BYTES;
        let complete = if is_full { Some(self.take_chunk()?) } else { None };
        self.first_plants.push(first_plant);
        Ok(complete)
    }

    /// Adds the next plant entry of the block; without a record, the plant was deleted.
    pub(crate) fn add(&mut self, record: Option<&[u8]>) {
        // A record that cannot be decoded is reported by everything that reads the plant.
        let Some(Ok(record)) = record.map(PlantRecord::decode) else { return };
        let block = u32::try_from(self.first_plants.len()).unwrap_or(u32::MAX).saturating_sub(1);
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
        let Some(first_plant) = self.first_plants.first().map(|id| id.get()) else {
            return Ok(IndexEntries::new());
        };
        let number = self.chunks.len();
        let blocks = mem::take(&mut self.first_plants);
        let page = |(page, ids): (usize, &[PlantId])| {
            let ids = ids.iter().flat_map(|id| keys::plant_key(*id));
            Ok((index_keys::page(number, page)?, ids.collect()))
        };
        let pages = blocks.chunks(BLOCKS_OF_A_PAGE).enumerate().map(page);
        let mut entries = pages.collect::<anyhow::Result<IndexEntries>>()?;
        let grams = mem::take(&mut self.grams).into_iter();
        let grams = grams.map(|(gram, postings)| (gram_term(gram), postings));
        let tags = mem::take(&mut self.tags).into_iter();
        let tags = tags.map(|(tag, postings)| (tag_term(&tag), postings));
        for (term, postings) in grams.chain(tags) {
            entries.push((index_keys::postings(number, &term)?, postings.encode(blocks.len())?));
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self.chunks.push(Chunk { first_plant, blocks: u32::try_from(blocks.len())? });
        self.bytes = 0;
        Ok(entries)
    }

    /// The last entry of the index, once all chunks are taken.
    pub(crate) fn outline(&self) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
        Ok((index_keys::OUTLINE.to_vec(), postcard::to_stdvec(&self.chunks)?))
    }
}
