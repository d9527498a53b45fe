//! A repository in memory, for tests of programs that embed one.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use plant_domain::{NewPlant, NewPlantRef, PlantId};

use crate::decision::{Decision, KeptPlant, Write, imported};
use crate::{
    DEFAULT_KEEP_EVENTS, Event, EventPage, Imported, OnConflict, PAGE_MAX_WORK, Page, PageRequest,
    PlantRepository, Revision, StoreError, StoreFailure, StoredPlant,
};

/// Keeps plants in memory only, for tests: the plants are lost when the last repository that shares them is
/// dropped. Except for durability, it fulfills the contract of [`PlantRepository`].
#[derive(Debug, Default)]
pub struct MemoryRepository {
    kept: Arc<Mutex<Kept>>,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    plants: BTreeMap<PlantId, KeptPlant>,
    /// The newest [`DEFAULT_KEEP_EVENTS`] events.
    events: VecDeque<Event>,
    /// The number of the last event.
    last: u64,
}

impl MemoryRepository {
    /// Another, open repository of the same plants: what a program finds after a restart.
    #[must_use]
    pub fn reopened(&self) -> Self {
        Self { kept: Arc::clone(&self.kept), is_closed: AtomicBool::new(false) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(StoreError::Closed) } else { Ok(()) }
    }
}

#[async_trait]
impl PlantRepository for MemoryRepository {
    async fn write(&self, write: Write) -> Result<Decision, StoreError> {
        let mut kept = self.kept();
        self.check_open()?;
        let id = write.id();
        let revision = Revision::from(kept.last + 1);
        let decision = write.decide(kept.plants.get(&id).cloned(), revision)?;
        if let Some(kind) = decision.change {
            match decision.after() {
                Some(after) => drop(kept.plants.insert(id, after.clone())),
                None => drop(kept.plants.remove(&id)),
            }
            kept.last += 1;
            kept.events.push_back(Event { revision, kind, id });
            if kept.events.len() as u64 > DEFAULT_KEEP_EVENTS {
                kept.events.pop_front();
            }
        }
        Ok(decision)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError> {
        let mut all_imported = Vec::with_capacity(new_plants.len());
        for new_plant in new_plants {
            let decided = self.write(Write::of_import(new_plant, on_conflict)).await;
            all_imported.push(imported(decided, on_conflict)?);
        }
        Ok(all_imported)
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(self.kept().plants.get(&id).map(|kept| kept.stored.clone()))
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        let mut page = Page::default();
        let Some(first) = request.first_id() else { return Ok(page) };
        let (mut last, mut looked_at) = (None, 0);
        for (id, kept) in self.kept().plants.range(first..) {
            if page.len() == request.limit || looked_at == PAGE_MAX_WORK {
                page.next = last;
                break;
            }
            let StoredPlant { plant, revision, .. } = &kept.stored;
            let (name, tag) = plant.members();
            if request.filter.matches(name, tag) {
                page.push(NewPlantRef { id: *id, name, tag }, *revision);
            }
            last = Some(*id);
            looked_at += 1;
        }
        Ok(page)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Ok(self.kept().plants.len() as u64)
    }

    async fn events(&self, after: Revision, limit: usize) -> Result<EventPage, StoreError> {
        let kept = self.kept();
        let first = kept.events.front().map_or(kept.last + 1, |event| event.revision.get());
        if after.get() + 1 < first {
            return Ok(EventPage::Forgotten);
        }
        let later = kept.events.iter().filter(|event| event.revision > after);
        Ok(EventPage::Kept(later.take(limit).copied().collect()))
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_open()
    }

    async fn failed(&self) -> StoreFailure {
        pending().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        self.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
