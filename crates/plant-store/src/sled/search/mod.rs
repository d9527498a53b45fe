//! The search index: finds the plants that have a part of a name or a tag, without reading all plants.
//!
//! Each table has an inverted index of its own plants, written with the table and never changed. Its terms are the tags and the
//! grams of the folded names ([`term`]); the postings of a term are the blocks with a plant that has the term
//! ([`postings`]). A memtable has no index: a search scans the text of its names and tags ([`text_log`]).
//!
//! The index only proposes plants: the search compares each name and tag with the filter, in the newest state of the
//! plant. A stale entry in an older table costs time, never a wrong result.

pub(crate) mod builder;
mod index_keys;
mod postings;
mod table_search;
mod term;
pub(crate) mod text_log;

use std::collections::VecDeque;

use plant_domain::{PlantFilter, PlantId};

use self::table_search::TableSearch;
use self::term::Terms;
use self::text_log::TextBatches;
use crate::PAGE_MAX_WORK;
use crate::sled::compaction::merge::Tables;

/// What a search has come to.
pub(crate) enum Step {
    /// A plant that had a matching name and tag at some time. Ids come in ascending order.
    Candidate(PlantId),
    /// The search has cost enough before this plant.
    TooMuchWork(PlantId),
    End,
}

/// A search of all levels.
pub(crate) struct Search<'a> {
    filter: &'a PlantFilter,
    terms: Terms,
    tables: Vec<TableSearch>,
    recent: VecDeque<PlantId>,
}

impl<'a> Search<'a> {
    /// A search from an id on, in tables and in the texts of memtables.
    pub(crate) fn new(
        filter: &'a PlantFilter,
        from: PlantId,
        tables: &Tables,
        recent: &TextBatches,
    ) -> anyhow::Result<Self> {
        let terms = Terms::of(filter);
        let recent = text_log::find(recent, filter, from);
        let tables = tables.iter().map(|table| TableSearch::new(table, from));
        let tables = tables.collect::<anyhow::Result<_>>()?;
        Ok(Self { filter, terms, tables, recent })
    }

    /// The next candidate. Adds the work to `looked_at`, in plants that are compared.
    pub(crate) fn next(&mut self, looked_at: &mut usize) -> anyhow::Result<Step> {
        // The table furthest behind advances, so all tables stand at about the same id when the page ends early.
        loop {
            let behind =
                self.tables.iter_mut().filter_map(|table| Some((table.upcoming()?, table)));
            let behind = behind.min_by_key(|(upcoming, _)| *upcoming);
            let recent = self.recent.front().copied();
            match behind {
                Some((upcoming, table)) if recent.is_none_or(|recent| upcoming.id <= recent) => {
                    if let Some(id) = table.take_match() {
                        self.skip(id);
                        return Ok(Step::Candidate(id));
                    }
                    if *looked_at >= PAGE_MAX_WORK {
                        return Ok(Step::TooMuchWork(upcoming.id));
                    }
                    *looked_at += table.step(self.filter, &self.terms)?;
                }
                _ => {
                    let Some(id) = recent else { return Ok(Step::End) };
                    self.skip(id);
                    return Ok(Step::Candidate(id));
                }
            }
        }
    }

    /// Passes over a plant wherever else it is a candidate.
    fn skip(&mut self, id: PlantId) {
        while self.recent.pop_front_if(|recent| *recent == id).is_some() {}
        self.tables.iter_mut().for_each(|table| table.skip(id));
    }
}
