//! Reads all pages, and checks that they fit together.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use plant_domain::{PlantFilter, PlantId};
use tokio::task::yield_now;

use crate::{
    Page, PagePlace, PageRequest, PlantRepository, PlantSnapshot, StoreError, StoredPlant,
    TagCount, TagPageRequest,
};

/// A repository or a snapshot.
#[async_trait]
pub(super) trait HasPages: Send {
    async fn page(&mut self, request: PageRequest) -> Result<Page, StoreError>;
}

#[async_trait]
impl HasPages for &Arc<dyn PlantRepository> {
    async fn page(&mut self, request: PageRequest) -> Result<Page, StoreError> {
        self.list(request).await
    }
}

#[async_trait]
impl HasPages for &mut Box<dyn PlantSnapshot> {
    async fn page(&mut self, request: PageRequest) -> Result<Page, StoreError> {
        self.list(request).await
    }
}

pub(super) fn filter_of(name: Option<&str>, tag: Option<&str>) -> PlantFilter {
    PlantFilter::new(name, tag.map(str::to_owned)).expect("the suite's filters are valid")
}

/// All plants that match a filter, read from the first page to the last.
pub(super) async fn all_pages(
    mut source: impl HasPages,
    filter: &PlantFilter,
    limit: usize,
) -> Vec<StoredPlant> {
    let mut plants = Vec::new();
    let mut after = None;
    loop {
        yield_now().await;
        let place = PagePlace::after(after);
        let page = one_page(&mut source, filter, place, limit).await;
        plants.extend(page.stored_plants().expect("valid plants"));
        match page.next {
            Some(next) => assert!(
                after.replace(next).is_none_or(|last| last < next),
                "each page begins after the one before"
            ),
            None => break,
        }
    }
    assert!(plants.is_sorted_by(|one, next| one.id < next.id), "each plant once, in order");
    plants
}

/// All plants before an id that match a filter, read backward to the first one.
pub(super) async fn all_pages_back(
    mut source: impl HasPages,
    filter: &PlantFilter,
    mut before: PlantId,
    limit: usize,
) -> Vec<StoredPlant> {
    let mut pages = Vec::new();
    loop {
        yield_now().await;
        let page = one_page(&mut source, filter, PagePlace::Before(before), limit).await;
        let plants = page.stored_plants().expect("valid plants");
        assert!(plants.iter().all(|stored| stored.id < before), "{plants:?} are before {before}");
        pages.push(plants);
        let Some(next) = page.next else { break };
        assert!(next < before, "each page ends before the one after");
        before = next;
    }
    let plants: Vec<_> = pages.into_iter().rev().flatten().collect();
    assert!(plants.is_sorted_by(|one, next| one.id < next.id), "each plant once, in order");
    plants
}

async fn one_page(
    source: &mut impl HasPages,
    filter: &PlantFilter,
    place: PagePlace,
    limit: usize,
) -> Page {
    let page = source.page(PageRequest { filter: filter.clone(), place, limit }).await;
    let page = page.expect("reads");
    assert!(page.len() <= limit, "{} plants on a page", page.len());
    page
}

/// All tags with a prefix, and the number of plants with each.
pub(super) async fn all_tags(
    repository: &Arc<dyn PlantRepository>,
    prefix: &str,
    limit: usize,
) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut after = None;
    loop {
        yield_now().await;
        let request = TagPageRequest { prefix: prefix.to_owned(), after, limit };
        let page = repository.tags(request).await.expect("reads");
        assert!(page.tags.len() <= limit, "{} tags on a page", page.tags.len());
        for TagCount { tag, plants } in page.tags {
            let is_next = counts.last_key_value().is_none_or(|(last, _)| *last < tag);
            assert!(
                is_next && tag.starts_with(prefix),
                "{tag:?} is out of order, or not asked for"
            );
            counts.insert(tag, plants);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert!(!counts.values().any(|plants| *plants == 0), "{counts:?}");
    counts
}
