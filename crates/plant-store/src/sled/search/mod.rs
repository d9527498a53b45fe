//! The search index: finds plants by a part of the name and by tag, without reading all plants.
//!
//! Each table has an inverted index of its own plants, written with the table and never changed. Its [terms](term) are
//! the tags and the grams of the folded names. The [postings](postings) of a term are the blocks that have a plant with
//! it. A memtable has no index: a search scans [the text](text_log) of its names and tags.
//!
//! The index only proposes plants. The search compares the name and tag of each plant's newest state with the filter,
//! so a stale entry in an older table costs time, but never gives a wrong result.

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
use self::text_log::TextChunks;
use crate::PAGE_MAX_WORK;
use crate::sled::compaction::merge::Tables;

/// One step of a search.
pub(crate) enum Step {
    /// A plant whose name and tag matched at some time. Ids ascend.
    Candidate(PlantId),
    /// The search ends before this plant, because it has cost enough.
    TooMuchWork(PlantId),
    End,
}

/// A search of all levels.
pub(crate) struct Search<'a> {
    filter: &'a PlantFilter,
    terms: Terms,
    tables: Vec<TableSearch>,
    recent: VecDeque<PlantId>,
    /// The search ends before this id.
    end: Option<PlantId>,
}

impl<'a> Search<'a> {
    /// A search from an id on, before `end`, in tables and in the texts of memtables.
    pub(crate) fn new(
        filter: &'a PlantFilter,
        from: PlantId,
        end: Option<PlantId>,
        tables: &Tables,
        recent: &TextChunks,
    ) -> anyhow::Result<Self> {
        let terms = Terms::of(filter);
        let recent = text_log::find(recent, filter, from);
        let tables = tables.iter().map(|table| TableSearch::new(table, from));
        let tables = tables.collect::<anyhow::Result<_>>()?;
        Ok(Self { filter, terms, tables, recent, end })
    }

    /// The next candidate. Adds the work to `looked_at`, in compared plants.
    pub(crate) fn next(&mut self, looked_at: &mut usize) -> anyhow::Result<Step> {
        // Advances the table that is furthest behind, so that all tables are at about the same id when the page ends
        // early.
        loop {
            let behind =
                self.tables.iter_mut().filter_map(|table| Some((table.upcoming()?, table)));
            let behind = behind.min_by_key(|(upcoming, _)| *upcoming);
            let recent = self.recent.front().copied();
            let next =
                behind.as_ref().map(|(upcoming, _)| upcoming.id).into_iter().chain(recent).min();
            if self.end.is_some_and(|end| next.is_some_and(|next| next >= end)) {
                return Ok(Step::End);
            }
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

    /// Skips a plant wherever else it is a candidate.
    fn skip(&mut self, id: PlantId) {
        while self.recent.pop_front_if(|recent| *recent == id).is_some() {}
        self.tables.iter_mut().for_each(|table| table.skip(id));
    }
}
