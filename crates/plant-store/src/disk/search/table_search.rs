//! The search of one table.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::{PlantFilter, PlantId};

use super::super::block::BlockCursor;
use super::super::keys;
use super::super::table::{Part, Table, TableCursor};
use super::outline::IndexOutline;
use super::postings::{GRANULE_PLANTS, Granules};
use super::term::Terms;
use crate::plant_record::PlantRecord;

/// With this few candidates, reading them is cheaper than reading the postings of another term.
const FEW_GRANULES: usize = 16;

/// With this few candidates, reading them is cheaper than reading the postings of all terms in a range.
const SOME_GRANULES: usize = 1_024;

/// What it costs to look up a term, in plants that are compared.
const LOOKUP_WORK: usize = 16;

/// How many bytes of postings, or of a name, cost as much as a plant that is compared.
const BYTES_OF_A_PLANT: usize = 128;

/// Where the search of a table is.
#[derive(Debug)]
pub(super) struct TableSearch {
    table: Arc<Table>,
    /// The granules of the chunk before [`Self::next_chunk`] that may have a match.
    candidates: Granules,
    /// The next of these.
    next: Option<Granule>,
    /// The next chunk of the index.
    next_chunk: usize,
    /// No granule before this one is read.
    first_granule: u32,
    /// The least id that can come next.
    from: PlantId,
    /// The plants of the granule read last that match, as this table has them.
    matches: VecDeque<PlantId>,
    block: Option<OpenBlock>,
}

/// Where a search stands, ordered by id. At equal ids, an unread granule sorts before a match, so a plant is taken only after
/// every granule that may have it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// No plant in the granule has a lesser id.
    pub(super) id: PlantId,
    is_match: bool,
}

#[derive(Clone, Copy, Debug)]
struct Granule {
    /// Counted from the beginning of the table.
    number: u32,
    /// The index of its block.
    block: usize,
    /// How many plant entries of the block are before the granule.
    plants_before: usize,
    /// No plant in the granule has a lesser id.
    not_before: PlantId,
}

/// The block that is being read.
#[derive(Debug)]
struct OpenBlock {
    index: usize,
    cursor: BlockCursor,
    /// How many of its plant entries were read.
    plants: usize,
}

impl TableSearch {
    /// A search from an id on. Reads nothing yet.
    pub(super) fn new(table: &Arc<Table>, from: PlantId) -> Self {
        let block = table.block_of(Part::Entries, &keys::plant_key(from));
        let first_granule = table.layout.index.granules_before_block(block.unwrap_or(0));
        Self {
            table: Arc::clone(table),
            candidates: Granules::none(0),
            next: None,
            next_chunk: table.layout.index.chunk_of(first_granule),
            first_granule,
            from,
            matches: VecDeque::new(),
            block: None,
        }
    }

    fn outline(&self) -> &IndexOutline {
        &self.table.layout.index
    }

    /// Where the search is; `None` at the end.
    pub(super) fn position(&self) -> Option<Position> {
        if let Some(id) = self.matches.front() {
            return Some(Position { id: *id, is_match: true });
        }
        let not_before = match self.next {
            Some(granule) => granule.not_before,
            None => {
                let chunk = self.outline().chunk(self.next_chunk);
                let (block, _) = self.outline().block_of(chunk.clone().next()?)?;
                self.table.first_plant(block).unwrap_or(PlantId::MIN)
            }
        };
        Some(Position { id: not_before.max(self.from), is_match: false })
    }

    pub(super) fn take_match(&mut self) -> Option<PlantId> {
        self.matches.pop_front()
    }

    pub(super) fn skip(&mut self, id: PlantId) {
        self.matches.pop_front_if(|found| *found == id);
    }

    /// Reads the next granule, or the index of the next chunk. Returns how much work that was, in plants that are compared.
    pub(super) fn step(&mut self, filter: &PlantFilter, terms: &Terms) -> anyhow::Result<usize> {
        let (first, work) = match self.next {
            Some(granule) => (granule.number + 1, self.read_granule(granule, filter)?),
            None => {
                let is_first = self.next_chunk == self.outline().chunk_of(self.first_granule);
                self.next_chunk += 1;
                let work = self.read_candidates(terms)?;
                // Every page reads the first chunk. If that counted, pages would hardly get further.
                (self.first_granule, if is_first { 0 } else { work })
            }
        };
        let chunk = self.outline().chunk(self.next_chunk - 1);
        let candidate = self.candidates.next_from(first.saturating_sub(chunk.start) as usize);
        self.next = candidate.map(|it| self.granule(chunk.start, it)).transpose()?;
        Ok(work)
    }

    fn granule(&self, chunk: u32, candidate: usize) -> anyhow::Result<Granule> {
        let number = chunk + u32::try_from(candidate)?;
        let place = self.outline().block_of(number);
        let (block, before) = place.context("a granule of the search index has no block")?;
        let plants_before = GRANULE_PLANTS * before as usize;
        let not_before = self.table.first_plant(block).unwrap_or(PlantId::MIN);
        Ok(Granule { number, block, plants_before, not_before })
    }

    fn read_granule(&mut self, granule: Granule, filter: &PlantFilter) -> anyhow::Result<usize> {
        let mut block = match self.block.take() {
            Some(block) if block.index == granule.block => block,
            _ => {
                let cursor = self.table.block_cursor(granule.block)?;
                OpenBlock { index: granule.block, cursor, plants: 0 }
            }
        };
        let mut work = 0;
        while block.plants < granule.plants_before + GRANULE_PLANTS && block.cursor.advance()? {
            let Some(id) = keys::plant_of(block.cursor.key())? else { continue };
            block.plants += 1;
            if block.plants <= granule.plants_before || id < self.from {
                continue;
            }
            self.from = id.next().unwrap_or(id);
            work += 1;
            let Some(record) = block.cursor.value() else { continue };
            let record = PlantRecord::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            work += record.name.len() / BYTES_OF_A_PLANT;
            if filter.matches(record.name, record.tag) {
                self.matches.push_back(id);
            }
        }
        self.block = Some(block);
        Ok(work)
    }

    /// Reads which granules of the chunk before the next one have all the terms.
    fn read_candidates(&mut self, terms: &Terms) -> anyhow::Result<usize> {
        let chunk = self.outline().chunk(self.next_chunk - 1);
        let key = |term: &[u8]| keys::postings_key(chunk.start, term);
        let mut work = 0;
        self.candidates = Granules::all(chunk.len());
        for term in &terms.all_of {
            if self.candidates.len() <= FEW_GRANULES {
                return Ok(work);
            }
            let mut with_term = Granules::none(chunk.len());
            work += LOOKUP_WORK;
            if let Some(postings) = self.table.find(Part::SearchIndex, &key(term))?.flatten() {
                with_term.insert(&postings)?;
            }
            self.candidates.intersect(&with_term);
        }
        let Some(range) = &terms.one_of else { return Ok(work) };
        if !terms.all_of.is_empty() && self.candidates.len() <= SOME_GRANULES {
            return Ok(work);
        }
        let mut with_one = Granules::none(chunk.len());
        let (begin, end) = (key(&range.start), key(&range.end));
        let table = Arc::clone(&self.table);
        let mut entries = TableCursor::new(table, Part::SearchIndex, &begin, true);
        while entries.advance()?
            && let Some((key, Some(postings))) = entries.entry()
            && *key < *end
        {
            work += 1 + postings.len() / BYTES_OF_A_PLANT;
            with_one.insert(postings)?;
        }
        self.candidates.intersect(&with_one);
        Ok(work)
    }
}
