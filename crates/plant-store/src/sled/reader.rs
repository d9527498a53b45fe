//! Reads of plants. Newer levels override older ones; all of them have only changes that are on disk.

use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::{NewPlantRef, PlantFilter, PlantId};

use crate::PAGE_MAX_WORK;
use crate::record::{EncodedPlant, PlantRecord};
use crate::sled::compaction::merge::Merge;
use crate::sled::keys;
use crate::sled::memtable::Run;
use crate::sled::search::{Search, Step};
use crate::sled::tables::Map;
use crate::sled::tree::MergeTree;
use crate::{Page, PageRequest, Revision, StoredPlant};

/// The most plants that are copied from memory at a time.
const RUN: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct PlantReader {
    pub(crate) tree: Arc<MergeTree>,
    /// How many plants a filtered page scans before it uses the index.
    pub(crate) plants_scanned_first: usize,
}

impl PlantReader {
    pub(crate) fn plant(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        let read = || {
            let record = self.tree.record(id)?;
            record.map(|record| record.decode()?.to_stored_plant(id)).transpose()
        };
        read().with_context(|| format!("cannot read plant {id}"))
    }

    pub(crate) fn count(&self) -> u64 {
        self.tree.read().totals.plants
    }

    pub(crate) fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        let is_filtered = !request.filter.matches_all();
        let mut next = request.first_id();
        let mut page = PageInProgress::new(request, self.plants_scanned_first);
        while let Some(from) = next
            && !page.ends_before(from)
        {
            next = self.plants_from(from, &mut page)?;
            if is_filtered && page.fills_too_slowly() {
                // Ends the scan, because the index finds rare matches faster.
                page.most_work = 0;
            }
        }
        if is_filtered
            && let Some(from) = page.page.next.and_then(PlantId::next)
            && page.page.len() < page.limit
        {
            page.page.next = None;
            page.most_work = PAGE_MAX_WORK;
            self.search(from, &mut page).context("cannot search the plants")?;
        }
        Ok(page.page)
    }

    /// Reads a run of plants from an id on, about as long as the page needs. Returns the first id after the run.
    fn plants_from(
        &self,
        from: PlantId,
        page: &mut PageInProgress<'_>,
    ) -> anyhow::Result<Option<PlantId>> {
        let (Run { entries, next }, tables) = {
            let levels = self.tree.read();
            (levels.plants_from(from, page.most_wanted()), Arc::clone(&levels.tables))
        };
        let recent =
            entries.iter().map(|(id, record)| (*id, record.as_ref().map(EncodedPlant::bytes)));
        let mut recent = recent.peekable();
        let mut older = Merge::new(&tables, Map::Plants, &keys::plant_key(from));
        while let Some((key, record)) = older.next().context("cannot read the plants")? {
            let id = keys::plant_of(key)?;
            if next.is_some_and(|next| id >= next) {
                break;
            }
            while let Some((id, record)) = recent.next_if(|(recent, _)| *recent < id) {
                if !page.takes(id, record)? {
                    return Ok(None);
                }
            }
            let newer = recent.next_if(|(recent, _)| *recent == id);
            if !page.takes(id, newer.map_or(record, |(_, newer)| newer))? {
                return Ok(None);
            }
        }
        for (id, record) in recent {
            if !page.takes(id, record)? {
                return Ok(None);
            }
        }
        Ok(next)
    }

    /// Finds plants from an id on through the index.
    fn search(&self, from: PlantId, page: &mut PageInProgress<'_>) -> anyhow::Result<()> {
        let (texts, tables) = {
            let levels = self.tree.read();
            (levels.texts(), Arc::clone(&levels.tables))
        };
        let mut search = Search::new(page.filter, from, &tables, &texts)?;
        loop {
            match search.next(&mut page.looked_at)? {
                Step::End => return Ok(()),
                Step::TooMuchWork(id) => {
                    page.page.next = id.previous();
                    return Ok(());
                }
                Step::Candidate(id) => {
                    // Another level may have a newer record.
                    let record = self.tree.record(id)?;
                    if !page.takes(id, record.as_ref().map(EncodedPlant::bytes))? {
                        return Ok(());
                    }
                }
            }
        }
    }
}

struct PageInProgress<'a> {
    filter: &'a PlantFilter,
    limit: usize,
    looked_at: usize,
    /// The page ends after examining this many plants.
    most_work: usize,
    page: Page,
}

impl<'a> PageInProgress<'a> {
    fn new(request: &'a PageRequest, plants_scanned_first: usize) -> Self {
        let limit = request.limit.max(1);
        let most_work =
            if request.filter.matches_all() { PAGE_MAX_WORK } else { plants_scanned_first.max(1) };
        let page = Page::with_capacity(limit.min(RUN));
        Self { filter: &request.filter, limit, looked_at: 0, most_work, page }
    }

    /// How many plants to read at once. Without a filter, every plant goes on the page, so fewer suffice.
    fn most_wanted(&self) -> usize {
        // Deleted plants add to `looked_at`, so later runs are longer.
        let wanted = self.limit - self.page.len() + self.looked_at;
        if self.filter.matches_all() { wanted.min(RUN) } else { RUN }
    }

    /// Whether the page is full, or has cost enough, before the plant with this id, where the next page then begins.
    fn ends_before(&mut self, id: PlantId) -> bool {
        let ends = self.page.len() >= self.limit || self.looked_at >= self.most_work;
        if ends {
            self.page.next = id.previous();
        }
        ends
    }

    /// Whether matches are too rare to fill the page before it ends.
    fn fills_too_slowly(&self) -> bool {
        self.page.len().saturating_mul(self.most_work) < self.limit.saturating_mul(self.looked_at)
    }

    /// Adds a plant if the filter selects it; `None` is a deleted plant. Returns false if the page ends before the
    /// plant.
    fn takes(&mut self, id: PlantId, record: Option<&[u8]>) -> anyhow::Result<bool> {
        // Deleted plants do not end a full page: the next page might have no plant.
        let ends = match record {
            Some(_) => self.ends_before(id),
            None => self.page.len() < self.limit && self.ends_before(id),
        };
        if ends {
            return Ok(false);
        }
        let Some(record) = record else {
            self.looked_at += 1;
            return Ok(true);
        };
        self.looked_at += 1;
        let record = PlantRecord::decode(record)
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        if self.filter.matches(record.name, record.tag) {
            // The rules need no check: the checksum vouches for the record of a valid plant.
            let plant = NewPlantRef { id, name: record.name, tag: record.tag };
            self.page.push(plant, Revision::from(record.revision));
        }
        Ok(true)
    }
}
