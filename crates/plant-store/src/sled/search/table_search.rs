//! The search of one table.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context as _;
use fixedbitset::FixedBitSet;
use plant_domain::{PlantFilter, PlantId};

use super::builder::{BLOCKS_OF_A_PAGE, Chunk};
use super::index_keys;
use super::postings;
use super::term::Terms;
use crate::format::whole;
use crate::record::PlantRecord;
use crate::sled::keys;
use crate::sled::tables::{Level as _, Map, Table};

/// With this few candidates, reading them is cheaper than reading the postings of another term.
const FEW_BLOCKS: usize = 2;

/// With this few candidates, reading them is cheaper than reading the postings of all terms in a range.
const SOME_BLOCKS: usize = 64;

/// What it costs to look up a term, in plants that are compared.
const LOOKUP_WORK: usize = 16;

/// How many bytes of postings, or of a name, cost as much as a plant that is compared.
const BYTES_OF_A_PLANT: usize = 128;

/// The search of one table, from an id on.
#[derive(Debug)]
pub(super) struct TableSearch {
    table: Arc<Table>,
    chunks: Vec<Chunk>,
    /// The number of the chunk that the search began with.
    first_chunk: usize,
    /// The number of the next chunk.
    next_chunk: usize,
    /// The blocks of the chunk before [`Self::next_chunk`] that may have a match, from the next one on.
    candidates: VecDeque<usize>,
    /// The first plant of the block before these, which is the next one to read.
    next: Option<PlantId>,
    /// The entry with first plants that was read last: chunk, page and value.
    page: Option<(usize, usize, Arc<[u8]>)>,
    /// The least id that can come next.
    from: PlantId,
    /// The plants of the block read last that match, as this table has them.
    matches: VecDeque<PlantId>,
}

/// What a search comes to next, ordered by id. At equal ids, an unread block sorts before a match, so a plant is taken only
/// after every block that may have it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Upcoming {
    /// No plant of the block has a lesser id.
    pub(super) id: PlantId,
    is_match: bool,
}

impl TableSearch {
    /// A search from an id on.
    pub(super) fn new(table: &Arc<Table>, from: PlantId) -> anyhow::Result<Self> {
        let outline = table.get(Map::Search, index_keys::OUTLINE)?.flatten();
        let outline = outline.context("a search index has no outline")?;
        let chunks: Vec<Chunk> = whole(&outline).context("the outline of an index is damaged")?;
        let begun = chunks.partition_point(|chunk| chunk.first_plant <= from.get());
        let first_chunk = begun.saturating_sub(1);
        Ok(Self {
            table: Arc::clone(table),
            chunks,
            first_chunk,
            next_chunk: first_chunk,
            candidates: VecDeque::new(),
            next: None,
            page: None,
            from,
            matches: VecDeque::new(),
        })
    }

    /// What comes next; `None` at the end.
    pub(super) fn upcoming(&self) -> Option<Upcoming> {
        if let Some(id) = self.matches.front() {
            return Some(Upcoming { id: *id, is_match: true });
        }
        let first_plant = match self.next {
            Some(first_plant) => first_plant,
            None => PlantId::from(self.chunks.get(self.next_chunk)?.first_plant),
        };
        Some(Upcoming { id: first_plant.max(self.from), is_match: false })
    }

    pub(super) fn take_match(&mut self) -> Option<PlantId> {
        self.matches.pop_front()
    }

    pub(super) fn skip(&mut self, id: PlantId) {
        self.matches.pop_front_if(|found| *found == id);
    }

    /// Reads the next block, or the index of the next chunk. Returns how much work that was, in plants that are compared.
    pub(super) fn step(&mut self, filter: &PlantFilter, terms: &Terms) -> anyhow::Result<usize> {
        let work = match self.next {
            Some(first_plant) => self.read_block(first_plant, filter)?,
            None => {
                let chunk = self.next_chunk;
                self.next_chunk += 1;
                let work = self.read_candidates(chunk, terms)?;
                // Every page reads the first chunk. If that counted, pages would hardly get further.
                if chunk == self.first_chunk { 0 } else { work }
            }
        };
        self.next = match self.candidates.pop_front() {
            Some(block) => Some(self.first_plant(self.next_chunk - 1, block)?),
            None => None,
        };
        Ok(work)
    }

    /// The number of the block in a chunk that has the first plants of the search.
    fn first_block(&mut self, chunk: usize) -> anyhow::Result<usize> {
        let (mut low, mut high) = (0, self.chunks[chunk].blocks as usize);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.first_plant(chunk, middle)? <= self.from {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first plant of a block of a chunk.
    fn first_plant(&mut self, chunk: usize, block: usize) -> anyhow::Result<PlantId> {
        let page = block / BLOCKS_OF_A_PAGE;
        if !matches!(&self.page, Some((of, number, _)) if (*of, *number) == (chunk, page)) {
            let read = self.table.get(Map::Search, &index_keys::page(chunk, page)?)?.flatten();
            let read = read.context("a search index lacks blocks")?;
            self.page = Some((chunk, page, read));
        }
        let page = self.page.as_ref().map(|(.., page)| page.as_chunks::<8>().0);
        let key = page.and_then(|page| page.get(block % BLOCKS_OF_A_PAGE));
        keys::plant_of(key.context("a search index lacks a block")?)
    }

    fn read_block(&mut self, first_plant: PlantId, filter: &PlantFilter) -> anyhow::Result<usize> {
        let block = self.table.block_of(Map::Plants, &keys::plant_key(first_plant))?;
        let mut block = block.context("a search index names a block that is not there")?;
        let mut work = 0;
        while block.advance()? {
            let id = keys::plant_of(block.key())?;
            if id < self.from {
                continue;
            }
            self.from = id.next().unwrap_or(id);
            work += 1;
            let Some(record) = block.value() else { continue };
            let record = PlantRecord::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            work += record.name.len() / BYTES_OF_A_PLANT;
            if filter.matches(record.name, record.tag) {
                self.matches.push_back(id);
            }
        }
        Ok(work)
    }

    /// Reads which blocks of a chunk may have all the terms, and takes those that the search has not passed.
    fn read_candidates(&mut self, chunk: usize, terms: &Terms) -> anyhow::Result<usize> {
        let (blocks, work) = self.blocks_with(chunk, terms)?;
        let first = if chunk == self.first_chunk { self.first_block(chunk)? } else { 0 };
        self.candidates = blocks.ones().filter(|block| *block >= first).collect();
        Ok(work)
    }

    /// The blocks of a chunk that may have all the terms, and how much work finding them was.
    fn blocks_with(&self, chunk: usize, terms: &Terms) -> anyhow::Result<(FixedBitSet, usize)> {
        let blocks = self.chunks[chunk].blocks as usize;
        let mut work = 0;
        let mut candidates = FixedBitSet::with_capacity(blocks);
        candidates.insert_range(..);
        for term in &terms.all_of {
            if candidates.count_ones(..) <= FEW_BLOCKS {
                return Ok((candidates, work));
            }
            let mut with_term = FixedBitSet::with_capacity(blocks);
            work += LOOKUP_WORK;
            let key = index_keys::postings(chunk, term)?;
            if let Some(postings) = self.table.get(Map::Search, &key)?.flatten() {
                postings::insert(&mut with_term, &postings)?;
            }
            candidates.intersect_with(&with_term);
        }
        let Some(range) = &terms.one_of else { return Ok((candidates, work)) };
        if !terms.all_of.is_empty() && candidates.count_ones(..) <= SOME_BLOCKS {
            return Ok((candidates, work));
        }
        let mut with_one = FixedBitSet::with_capacity(blocks);
        let begin = index_keys::postings(chunk, &range.start)?;
        let end = index_keys::postings(chunk, &range.end)?;
        let mut entries = Arc::clone(&self.table).entries(Map::Search, &begin);
        while entries.advance()?
            && let Some((key, Some(postings))) = entries.entry()
            && *key < *end
        {
            work += 1 + postings.len() / BYTES_OF_A_PLANT;
            postings::insert(&mut with_one, postings)?;
        }
        candidates.intersect_with(&with_one);
        Ok((candidates, work))
    }
}
