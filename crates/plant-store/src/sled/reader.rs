//! Reads of plants.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::PlantId;

use crate::record::EncodedPlant;
use crate::sled::page_in_progress::{PageInProgress, push};
use crate::sled::plant_view::PlantView;
use crate::sled::search::{Search, Step};
use crate::sled::tree::MergeTree;
use crate::{PAGE_MAX_WORK, Page, PagePlace, PageRequest, StoredPlant};

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
                push(&mut page, *id, &record.decode()?);
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
            self.add_plants(first, plants_scanned_first.max(1), &mut page)?;
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
            window.work = work;
            let scanned_first = if width > plants_scanned_first { 1 } else { PAGE_MAX_WORK };
            self.add_plants(start, scanned_first, &mut window)?;
            if window.page.next.is_some() {
                // The window was too large to read within the bound.
                if windows.is_empty() && width > 1 {
                    width = (width / 4).max(1);
                    continue;
                }
                next = Some(end);
                break;
            }
            work = window.work;
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

    /// Adds plants from an id on, by a scan. With a filter, turns to the index once it has examined `scanned_first` plants, or
    /// sooner if the page fills too slowly.
    fn add_plants(
        &self,
        from: PlantId,
        scanned_first: usize,
        page: &mut PageInProgress<'_>,
    ) -> anyhow::Result<()> {
        if page.filter.matches_all() {
            return self.each_from(from, |id, record| page.takes(id, record, PAGE_MAX_WORK));
        }
        let scan_max_work = page.work.saturating_add(scanned_first).min(PAGE_MAX_WORK);
        let scan = |id, record: Option<&[u8]>| {
            if !page.takes(id, record, scan_max_work)? {
                return Ok(false);
            }
            if page.fills_too_slowly(scan_max_work) {
                page.page.next = Some(id);
                return Ok(false);
            }
            Ok(true)
        };
        self.each_from(from, scan)?;
        if page.page.len() < page.limit
            && let Some(from) = page.page.next.and_then(PlantId::next)
        {
            page.page.next = None;
            self.search(from, page).context("cannot search the plants")?;
        }
        Ok(())
    }

    /// Finds plants from an id on through the index.
    fn search(&self, from: PlantId, page: &mut PageInProgress<'_>) -> anyhow::Result<()> {
        let texts = self.texts();
        let mut search = Search::new(page.filter, from, page.end, &self.tables, &texts)?;
        loop {
            match search.next(&mut page.work)? {
                Step::End => return Ok(()),
                Step::TooMuchWork(id) => {
                    page.page.next = id.previous();
                    return Ok(());
                }
                Step::Candidate(id) => {
                    // Another level may have a newer record.
                    let record = self.record(id)?;
                    let record = record.as_ref().map(EncodedPlant::bytes);
                    if !page.takes(id, record, PAGE_MAX_WORK)? {
                        return Ok(());
                    }
                }
            }
        }
    }
}
