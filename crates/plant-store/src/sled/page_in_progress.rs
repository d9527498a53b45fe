//! A page of plants while it is read.

use anyhow::Context as _;
use plant_domain::{NewPlantRef, PlantFilter, PlantId};

use crate::record::PlantRecord;
use crate::{Page, Revision};

/// After each time that a page has examined this many plants, it may turn to the index.
const SCANNED_AT_A_TIME: usize = 256;

pub(crate) struct PageInProgress<'a> {
    pub(crate) filter: &'a PlantFilter,
    pub(crate) limit: usize,
    /// The page has only plants before this id.
    pub(crate) end: Option<PlantId>,
    /// How many plants, and entries of the index, were examined.
    pub(crate) work: usize,
    pub(crate) page: Page,
}

impl<'a> PageInProgress<'a> {
    pub(crate) fn new(filter: &'a PlantFilter, limit: usize) -> Self {
        let page = Page::with_capacity(limit.min(SCANNED_AT_A_TIME));
        Self { filter, limit, end: None, work: 0, page }
    }

    /// Adds a plant if the filter selects it; `None` is a deleted plant. Returns false if the page ends before the
    /// plant: the page is full, or has examined `max_work` plants. The next page then begins with the plant.
    pub(crate) fn takes(
        &mut self,
        id: PlantId,
        record: Option<&[u8]>,
        max_work: usize,
    ) -> anyhow::Result<bool> {
        if self.end.is_some_and(|end| id >= end) {
            return Ok(false);
        }
        let is_full = self.page.len() >= self.limit;
        // Deleted plants do not end a full page: the next page might have no plant.
        let ends = if is_full { record.is_some() } else { self.work >= max_work };
        if ends {
            self.page.next = id.previous();
            return Ok(false);
        }
        self.work += 1;
        if let Some(record) = record {
            let record = PlantRecord::decode(record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            if self.filter.matches(record.name, record.tag) {
                push(&mut self.page, id, &record);
            }
        }
        Ok(true)
    }

    /// Whether matches are too rare to fill the page before it has examined `max_work` plants. The index finds them
    /// faster.
    pub(crate) fn fills_too_slowly(&self, max_work: usize) -> bool {
        self.end.is_none()
            && self.work.is_multiple_of(SCANNED_AT_A_TIME)
            && self.page.len().saturating_mul(max_work) < self.limit.saturating_mul(self.work)
    }
}

/// Adds a plant to a page. The rules need no check: the checksum vouches for the record of a valid plant.
pub(crate) fn push(page: &mut Page, id: PlantId, record: &PlantRecord<'_>) {
    let plant = NewPlantRef { id, plant: record.members() };
    page.push(plant, Revision::from(record.revision));
}
