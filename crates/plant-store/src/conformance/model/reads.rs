//! Compares plants, pages and tags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plant_domain::{PlantFilter, PlantId};

use super::super::pages::{all_pages, all_pages_back, all_tags, filter_of};
use super::UNUSED_ID;
use super::operations::{IDS, NAME_PARTS, TAGS};
use super::plants::Plants;
use crate::{PlantRepository, PlantSnapshot};

impl Plants {
    /// Compares all reads of plants. `step` chooses which of many similar reads are made.
    pub(super) async fn check(&self, repository: &Arc<dyn PlantRepository>, step: usize) {
        assert_eq!(repository.count(None).await.expect("counts"), self.len() as u64);
        self.check_tags(repository).await;
        for id in IDS.map(PlantId::from) {
            let read = repository.get(id).await.expect("reads");
            assert_eq!(read.as_ref(), self.get(id));
        }
        self.check_get_all(repository, step).await;
        let of_plants = self.iter().map(|stored| stored.plant.tag());
        let tags: BTreeSet<Option<&str>> = of_plants.chain(TAGS.map(Some)).chain([None]).collect();
        for tag in tags {
            for name in NAME_PARTS.map(Some).into_iter().chain([None]) {
                self.check_list(repository, &filter_of(name, tag), step).await;
            }
        }
    }

    async fn check_tags(&self, repository: &Arc<dyn PlantRepository>) {
        let mut counts = BTreeMap::<String, u64>::new();
        for tag in self.iter().filter_map(|stored| stored.plant.tag()) {
            *counts.entry(tag.to_owned()).or_default() += 1;
        }
        for tag in counts.keys().map(String::as_str).chain(TAGS) {
            let count = repository.count(Some(tag)).await.expect("counts");
            assert_eq!(count, counts.get(tag).copied().unwrap_or_default(), "{tag:?}");
        }
        for prefix in TAGS.into_iter().chain([""]) {
            let with_prefix = counts.iter().filter(|(tag, _)| tag.starts_with(prefix));
            let with_prefix = with_prefix.map(|(tag, plants)| (tag.clone(), *plants)).collect();
            assert_eq!(all_tags(repository, prefix, 3).await, with_prefix, "{prefix:?}");
        }
    }

    /// Reads some sets of ids: none, all, and others.
    async fn check_get_all(&self, repository: &Arc<dyn PlantRepository>, step: usize) {
        let everything = IDS.into_iter().chain([UNUSED_ID]).map(PlantId::from);
        for chosen in [0, usize::MAX, 37 * step, !(37 * step), 101 * step + 7] {
            let ids = everything.clone().enumerate();
            let ids = ids.filter(|(place, _)| chosen >> place & 1 == 1).map(|(_, id)| id);
            let ids: BTreeSet<PlantId> = ids.collect();
            let page = repository.get_all(ids.clone()).await.expect("reads");
            assert_eq!(page.next, None);
            let found = page.stored_plants().expect("valid plants");
            assert!(found.iter().eq(ids.iter().filter_map(|id| self.get(*id))), "{found:?}");
        }
    }

    /// Reads all pages in both directions.
    async fn check_list(
        &self,
        repository: &Arc<dyn PlantRepository>,
        filter: &PlantFilter,
        step: usize,
    ) {
        let limit = 1 + step % 3;
        let expected = self.matching(filter);
        assert_eq!(all_pages(repository, filter, limit).await, expected, "{filter:?}");
        let end =
            PlantId::from(if step.is_multiple_of(4) { IDS[step % IDS.len()] } else { i64::MAX });
        let before_end: Vec<_> = expected.into_iter().filter(|stored| stored.id < end).collect();
        let back = all_pages_back(repository, filter, end, limit).await;
        assert_eq!(back, before_end, "{filter:?} before {end}");
    }

    /// Compares a snapshot that was taken when these were the plants.
    pub(super) async fn check_snapshot(&self, mut snapshot: Box<dyn PlantSnapshot>, step: usize) {
        let limit = 1 + step % 3;
        let by_name = filter_of(Some(NAME_PARTS[step % NAME_PARTS.len()]), None);
        let by_tag = filter_of(None, Some(TAGS[step % TAGS.len()]));
        for filter in [PlantFilter::default(), by_name, by_tag] {
            let expected = self.matching(&filter);
            assert_eq!(all_pages(&mut snapshot, &filter, limit).await, expected, "{filter:?}");
            let before: Vec<_> =
                expected.into_iter().filter(|stored| stored.id < PlantId::MAX).collect();
            let back = all_pages_back(&mut snapshot, &filter, PlantId::MAX, limit).await;
            assert_eq!(back, before, "{filter:?}");
        }
    }
}
