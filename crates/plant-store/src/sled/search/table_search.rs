//! The search of one table.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use anyhow::Context as _;
use fixedbitset::FixedBitSet;
use plant_domain::{PlantFilter, PlantId};

use super::index_keys;
use super::postings;
use super::term::Terms;
use crate::format::whole;
use crate::record::PlantRecord;
use crate::sled::keys;
use crate::sled::tables::{Level as _, Map, Table};

/// With at most this many candidates, reading them costs less than the postings of another term.
const FEW_BLOCKS: usize = 4;

/// With at most this many candidates, reading them costs less than the postings of all terms in a range.
const SOME_BLOCKS: usize = 64;

/// The cost of looking up a term, in compared plants.
const LOOKUP_WORK: usize = 16;

/// This many bytes of postings, or of a name, cost as much as a compared plant.
const BYTES_OF_A_PLANT: usize = 128;

/// The search of one table, from an id on.
#[derive(Debug)]
pub(super) struct TableSearch {
    table: Arc<Table>,
    /// The first block of each chunk, counted from the beginning of the table.
    chunk_begins: Vec<u32>,
    /// The block that may have the first plants of the search.
    first_block: usize,
    /// The number of its chunk.
    first_chunk: usize,
    next_chunk: usize,
    /// The blocks of the chunk before [`Self::next_chunk`] that may have a match and are not read yet.
    candidates: VecDeque<usize>,
    /// The least id that can come next.
    from: PlantId,
    /// The matches in the last block read, as this table has them.
    matches: VecDeque<PlantId>,
}

/// What a search meets next, ordered by id. At equal ids, an unread block sorts before a match, so that a plant is
/// taken only after every block that may have it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Upcoming {
    /// No plant of the block has a smaller id.
    pub(super) id: PlantId,
    is_match: bool,
}

impl TableSearch {
    pub(super) fn new(table: &Arc<Table>, from: PlantId) -> anyhow::Result<Self> {
        let outline = table.get(Map::Search, index_keys::OUTLINE)?.flatten();
        let outline = outline.context("a search index has no outline")?;
        let chunk_begins: Vec<u32> =
            whole(&outline).context("the outline of an index is damaged")?;
        let begun = table.first_plants.partition_point(|first| *first <= keys::plant_key(from));
        let first_block = begun.saturating_sub(1);
        let begun = chunk_begins.partition_point(|begin| *begin as usize <= first_block);
        let first_chunk = begun.saturating_sub(1);
        Ok(Self {
            table: Arc::clone(table),
            chunk_begins,
            first_block,
            first_chunk,
            next_chunk: first_chunk,
            candidates: VecDeque::new(),
            from,
            matches: VecDeque::new(),
        })
    }

    /// What comes next; `None` at the end.
    pub(super) fn upcoming(&self) -> Option<Upcoming> {
        if let Some(id) = self.matches.front() {
            return Some(Upcoming { id: *id, is_match: true });
        }
        let block = self.candidates.front().copied();
        let block = block.unwrap_or_else(|| self.blocks_of(self.next_chunk).start);
        let first_plant = keys::plant_of_key(*self.table.first_plants.get(block)?);
        Some(Upcoming { id: first_plant.max(self.from), is_match: false })
    }

    pub(super) fn take_match(&mut self) -> Option<PlantId> {
        self.matches.pop_front()
    }

    pub(super) fn skip(&mut self, id: PlantId) {
        self.matches.pop_front_if(|found| *found == id);
    }

    /// Reads the next block, or the index of the next chunk. Returns the work, in compared plants.
    pub(super) fn step(&mut self, filter: &PlantFilter, terms: &Terms) -> anyhow::Result<usize> {
        if let Some(block) = self.candidates.pop_front() {
            return self.read_block(block, filter);
        }
        let chunk = self.next_chunk;
        self.next_chunk += 1;
        let work = self.read_candidates(chunk, terms)?;
        // Every page reads the first chunk again. If that counted, pages would make hardly any progress.
        Ok(if chunk == self.first_chunk { 0 } else { work })
    }

    /// The blocks of a chunk; none behind the last chunk.
    fn blocks_of(&self, chunk: usize) -> Range<usize> {
        let begin = |chunk| {
            let begin = self.chunk_begins.get(chunk).map(|begin| *begin as usize);
            begin.unwrap_or(self.table.first_plants.len())
        };
        begin(chunk)..begin(chunk + 1)
    }

    fn read_block(&mut self, block: usize, filter: &PlantFilter) -> anyhow::Result<usize> {
        let first_key = self.table.first_plants.get(block);
        let first_key = first_key.context("a search index names a missing block")?;
        let block = self.table.block_of(Map::Plants, first_key)?;
        let mut block = block.context("a search index names a missing block")?;
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

    /// Finds the blocks of a chunk that may have all the terms, and keeps those that the search has not passed.
    fn read_candidates(&mut self, chunk: usize, terms: &Terms) -> anyhow::Result<usize> {
        let blocks = self.blocks_of(chunk);
        let (with_terms, work) = self.blocks_with(chunk, blocks.len(), terms)?;
        let candidates = with_terms.ones().map(|block| blocks.start + block);
        self.candidates = candidates.filter(|block| *block >= self.first_block).collect();
        Ok(work)
    }

    /// The blocks of a chunk that may have all the terms, and the work of finding them.
    fn blocks_with(
        &self,
        chunk: usize,
        blocks: usize,
        terms: &Terms,
    ) -> anyhow::Result<(FixedBitSet, usize)> {
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
