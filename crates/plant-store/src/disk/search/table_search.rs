//! The search of one table.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::{PlantFilter, PlantId};

use super::super::block::BlockCursor;
use super::super::keys;
use super::super::table::{Table, TableCursor};
use super::postings::{GRANULE_PLANTS, Granules};
use super::term::Terms;
use crate::plant_record::PlantRecord;

/// So few granules are read sooner than the postings of one more term.
const FEW_GRANULES: usize = 4;

/// Where the search of a table is.
#[derive(Debug)]
pub(super) struct TableSearch {
    table: Arc<Table>,
    /// The chunk of the index whose candidates are being read.
    chunk: usize,
    /// The granules of the chunk that may have a match.
    candidates: Granules,
    next: Option<Granule>,
    /// The least id that can come next.
    from: PlantId,
    /// The plants of the granule read last that match, as this table has them.
    matches: VecDeque<PlantId>,
    block: Option<OpenBlock>,
}

/// A match, or a granule that is not read yet. In this order, every granule that may have a plant comes before the plant.
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
    /// A search from an id on.
    pub(super) fn new(table: &Arc<Table>, terms: &Terms, from: PlantId) -> anyhow::Result<Self> {
        let first = table.granule_of(from);
        let mut search = Self {
            table: Arc::clone(table),
            chunk: table.chunk_of(first),
            candidates: Granules::none(0),
            next: None,
            from,
            matches: VecDeque::new(),
            block: None,
        };
        search.read_candidates(terms)?;
        search.advance(first, terms)?;
        Ok(search)
    }

    /// Where the search is; `None` at the end.
    pub(super) fn position(&self) -> Option<Position> {
        let of_granule = || {
            let not_before = self.next?.not_before.max(self.from);
            Some(Position { id: not_before, is_match: false })
        };
        let of_match = self.matches.front().map(|id| Position { id: *id, is_match: true });
        of_match.or_else(of_granule)
    }

    pub(super) fn take_match(&mut self) -> Option<PlantId> {
        self.matches.pop_front()
    }

    pub(super) fn skip(&mut self, id: PlantId) {
        self.matches.pop_front_if(|found| *found == id);
    }

    /// Reads the next granule. Returns how many plants were compared.
    pub(super) fn read_granule(
        &mut self,
        filter: &PlantFilter,
        terms: &Terms,
    ) -> anyhow::Result<usize> {
        let Some(granule) = self.next else { return Ok(0) };
        let mut block = match self.block.take() {
            Some(block) if block.index == granule.block => block,
            _ => {
                let cursor = self.table.block_cursor(granule.block)?;
                OpenBlock { index: granule.block, cursor, plants: 0 }
            }
        };
        let mut compared = 0;
        while block.plants < granule.plants_before + GRANULE_PLANTS && block.cursor.advance()? {
            let Some(id) = keys::plant_of(block.cursor.key())? else { continue };
            block.plants += 1;
            if block.plants <= granule.plants_before || id < self.from {
                continue;
            }
            self.from = id.next().unwrap_or(id);
            compared += 1;
            let Some(record) = block.cursor.value() else { continue };
            let record = PlantRecord::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            if filter.matches(record.name, record.tag) {
                self.matches.push_back(id);
            }
        }
        self.block = Some(block);
        self.advance(granule.number + 1, terms)?;
        Ok(compared)
    }

    /// Moves to the first candidate from a granule on.
    fn advance(&mut self, from: u32, terms: &Terms) -> anyhow::Result<()> {
        loop {
            let chunk = self.table.chunk(self.chunk);
            let candidate = self.candidates.next_from(from.saturating_sub(chunk.start) as usize);
            if let Some(candidate) = candidate {
                let number = chunk.start + u32::try_from(candidate)?;
                let place = self.table.block_of_granule(number);
                let (block, before) =
                    place.context("a granule of the search index has no block")?;
                let plants_before = GRANULE_PLANTS * before as usize;
                let not_before = self.table.first_plant(block).unwrap_or(PlantId::MIN);
                self.next = Some(Granule { number, block, plants_before, not_before });
                return Ok(());
            }
            self.chunk += 1;
            if self.table.chunk(self.chunk).is_empty() {
                self.next = None;
                return Ok(());
            }
            self.read_candidates(terms)?;
        }
    }

    /// Reads which granules of the chunk have all the terms.
    fn read_candidates(&mut self, terms: &Terms) -> anyhow::Result<()> {
        let chunk = self.table.chunk(self.chunk);
        let key = |term: &[u8]| keys::postings_key(chunk.start, term);
        self.candidates = Granules::all(chunk.len());
        for term in &terms.all_of {
            if self.candidates.len() <= FEW_GRANULES {
                return Ok(());
            }
            let mut with_term = Granules::none(chunk.len());
            if let Some(postings) = self.table.get(&key(term))?.flatten() {
                with_term.insert(&postings)?;
            }
            self.candidates.intersect(&with_term);
        }
        let Some(range) = &terms.one_of else { return Ok(()) };
        let mut with_one = Granules::none(chunk.len());
        let (begin, end) = (key(&range.start), key(&range.end));
        let mut entries = TableCursor::new(Arc::clone(&self.table), &begin, true);
        while entries.advance()?
            && let Some((key, Some(postings))) = entries.entry()
            && *key < *end
        {
            with_one.insert(postings)?;
        }
        self.candidates.intersect(&with_one);
        Ok(())
    }
}
