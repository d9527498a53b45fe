//! Reads of plants.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::{NewPlantRef, PlantFilter, PlantId};

use crate::record::{EncodedPlant, PlantRecord};
use crate::sled::plant_view::PlantView;
use crate::sled::search::{Search, Step};
use crate::sled::tree::MergeTree;
use crate::{PAGE_MAX_WORK, Page, PagePlace, PageRequest, Revision, StoredPlant};

/// After each time that a page has examined this many plants, it may turn to the index.
const SCANNED_AT_A_TIME: usize = 256;

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
        let plants = self.tree.plants(!request.filter.matches_all());
        plants.page(request, self.plants_scanned_first)
    }

    pub(crate) fn plants(&self, ids: &BTreeSet<PlantId>) -> anyhow::Result<Page> {
        let plants = self.tree.plants(false);
        let mut page = Page::with_capacity(ids.len());
        for id in ids {
            if let Some(record) = plants.record(*id)? {
                push(&mut page, *id, record.decode()?);
            }
        }
        Ok(page)
    }
}

impl PlantView {
    pub(crate) fn page(
        &self,
        request: &PageRequest,
        plants_scanned_first: usize,
    ) -> anyhow::Result<Page> {
        let first = match request.place {
            PagePlace::First => Some(PlantId::MIN),
            PagePlace::After(id) => id.next(),
            PagePlace::Before(id) => return self.page_before(id, request, plants_scanned_first),
        };
        let mut page = PageInProgress::new(&request.filter, request.limit.max(1));
        if let Some(first) = first {
            page.most_work = plants_scanned_first.max(1);
            self.add_plants(first, &mut page)?;
        }
        Ok(page.page)
    }

    /// The last plants before an id. Reads ever larger windows, the nearest one first, each in ascending order.
    fn page_before(
        &self,
        id: PlantId,
        request: &PageRequest,
        plants_scanned_first: usize,
    ) -> anyhow::Result<Page> {
        let limit = request.limit.max(1);
        // The farthest window is the last one.
        let mut windows: Vec<Page> = Vec::new();
        let (mut end, mut width) = (id, limit);
        let (mut found, mut work, mut next) = (0, 0, None);
        while let Some(start) = self.back_from(end, width) {
            let mut window = PageInProgress::new(&request.filter, usize::MAX);
            window.end = Some(end);
            // All windows together have one bound on the work.
            window.looked_at = work;
            window.most_work = if width > plants_scanned_first { work + 1 } else { PAGE_MAX_WORK };
            self.add_plants(start, &mut window)?;
            if window.page.next.is_some() {
                // The window was too large to read within the bound.
                if windows.is_empty() && width > 1 {
                    width = (width / 4).max(1);
                    continue;
                }
                next = Some(end);
                break;
            }
            work = window.looked_at;
            found += window.page.len();
            windows.push(window.page);
            if found > limit {
                // The page begins within this window.
                break;
            }
            (end, width) = (start, width.saturating_mul(4));
            if work >= PAGE_MAX_WORK {
                next = Some(start);
                break;
            }
        }
        let mut page = Page::with_capacity(limit.min(found));
        let plants = windows.iter().rev().flat_map(Page::plants);
        for (plant, revision) in plants.skip(found.saturating_sub(limit)) {
            page.push(plant, revision);
        }
        let has_more = found > limit;
        page.next = if has_more { page.plants().next().map(|(plant, _)| plant.id) } else { next };
        Ok(page)
    }

    /// Adds plants from an id on, by a scan of the first ones, and then through the index.
    fn add_plants(&self, from: PlantId, page: &mut PageInProgress<'_>) -> anyhow::Result<()> {
        let is_filtered = !page.filter.matches_all();
        if !is_filtered {
            page.most_work = PAGE_MAX_WORK;
        }
        self.each_from(from, |id, record| page.takes(id, record))?;
        if is_filtered
            && page.page.len() < page.limit
            && let Some(from) = page.page.next.and_then(PlantId::next)
        {
            page.page.next = None;
            page.most_work = PAGE_MAX_WORK;
            self.search(from, page).context("cannot search the plants")?;
        }
        Ok(())
    }

    /// Finds plants from an id on through the index.
    fn search(&self, from: PlantId, page: &mut PageInProgress<'_>) -> anyhow::Result<()> {
        let texts = self.texts();
        let mut search = Search::new(page.filter, from, page.end, &self.tables, &texts)?;
        loop {
            match search.next(&mut page.looked_at)? {
                Step::End => return Ok(()),
                Step::TooMuchWork(id) => {
                    page.page.next = id.previous();
                    return Ok(());
                }
                Step::Candidate(id) => {
                    // Another level may have a newer record.
                    let record = self.record(id)?;
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
    /// The page has only plants before this id.
    end: Option<PlantId>,
    looked_at: usize,
    /// The page ends after examining this many plants.
    most_work: usize,
    page: Page,
}

impl<'a> PageInProgress<'a> {
    fn new(filter: &'a PlantFilter, limit: usize) -> Self {
        let page = Page::with_capacity(limit.min(SCANNED_AT_A_TIME));
        Self { filter, limit, end: None, looked_at: 0, most_work: PAGE_MAX_WORK, page }
    }

    /// Whether the page is full, or has cost enough, before the plant with this id, where the next page then begins.
    fn ends_before(&mut self, id: PlantId) -> bool {
        let ends = self.page.len() >= self.limit || self.looked_at >= self.most_work;
        if ends {
            self.page.next = id.previous();
        }
        ends
    }

    /// Whether matches are too rare to fill the page before it ends. The index finds them faster.
    fn fills_too_slowly(&self) -> bool {
        self.end.is_none()
            && !self.filter.matches_all()
            && self.looked_at.is_multiple_of(SCANNED_AT_A_TIME)
            && self.page.len().saturating_mul(self.most_work)
                < self.limit.saturating_mul(self.looked_at)
    }

    /// Adds a plant if the filter selects it; `None` is a deleted plant. Returns false if the page ends before the
    /// plant.
    fn takes(&mut self, id: PlantId, record: Option<&[u8]>) -> anyhow::Result<bool> {
        if self.end.is_some_and(|end| id >= end) {
            return Ok(false);
        }
        // Deleted plants do not end a full page: the next page might have no plant.
        let ends = match record {
            Some(_) => self.ends_before(id),
            None => self.page.len() < self.limit && self.ends_before(id),
        };
        if ends {
            return Ok(false);
        }
        self.looked_at += 1;
        if let Some(record) = record {
            let record = PlantRecord::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            if self.filter.matches(record.name, record.tag) {
                push(&mut self.page, id, record);
            }
        }
        if self.fills_too_slowly() {
            // Ends the scan.
            self.most_work = 0;
        }
        Ok(true)
    }
}

/// Adds a plant to a page. The rules need no check: the checksum vouches for the record of a valid plant.
fn push(page: &mut Page, id: PlantId, record: PlantRecord<'_>) {
    let plant = NewPlantRef { id, name: record.name, tag: record.tag };
    page.push(plant, Revision::from(record.revision));
}
