//! Plants in memory, for the tests of programs that embed a repository.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId, PlantPatch};

use crate::decision::{Decision, KeptPlant, Write, imported};
use crate::{
    Created, DEFAULT_KEEP_EVENTS, Event, EventPage, IdempotencyDigest, Imported, OnConflict,
    PAGE_MAX_WORK, Page, PageRequest, PlantRepository, Preconditions, Put, Revision, StoreError,
    StoreFailure, StoredPlant,
};

/// Keeps plants in memory, and nothing on any disk: they are gone when the last repository of them is dropped. It is for
/// tests. Except for durability it keeps the contract of [`PlantRepository`].
///
/// ```
/// use plant_domain::NewPlant;
/// use plant_store::{MemoryRepository, PlantRepository};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let repository = MemoryRepository::default();
/// repository.create(NewPlant::new(7, "Salix alba", None)?, None).await?;
/// assert_eq!(repository.count().await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryRepository {
    kept: Arc<Mutex<Kept>>,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    plants: BTreeMap<PlantId, KeptPlant>,
    /// The newest events, as many as every repository keeps by default.
    events: VecDeque<Event>,
    /// The number of the last event.
    last: u64,
}

impl MemoryRepository {
    /// Another repository of the same plants, which is open: what a program finds after a restart.
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

    fn write(&self, write: Write) -> Result<Decision, StoreError> {
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
}

#[async_trait]
impl PlantRepository for MemoryRepository {
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<Created, StoreError> {
        Ok(self.write(Write::Create { new_plant, idempotency })?.into_created())
    }

    async fn put(
        &self,
        new_plant: NewPlant,
        preconditions: Preconditions,
    ) -> Result<Put, StoreError> {
        Ok(self.write(Write::Put { new_plant, preconditions })?.into_put())
    }

    async fn patch(
        &self,
        id: PlantId,
        patch: PlantPatch,
        preconditions: Preconditions,
    ) -> Result<StoredPlant, StoreError> {
        Ok(self.write(Write::Patch { id, patch, preconditions })?.plant.stored)
    }

    async fn delete(&self, id: PlantId, preconditions: Preconditions) -> Result<(), StoreError> {
        self.write(Write::Delete { id, preconditions }).map(drop)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError> {
        let writes = new_plants.into_iter().map(|it| Write::of_import(it, on_conflict));
        writes.map(|write| imported(self.write(write), on_conflict)).collect()
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(self.kept().plants.get(&id).map(|kept| kept.stored.clone()))
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        let mut page = Page { plants: Vec::new(), next: None };
        let Some(first) = request.first_id() else { return Ok(page) };
        let (mut last, mut looked_at) = (None, 0);
        for (id, kept) in self.kept().plants.range(first..) {
            if page.plants.len() == request.limit || looked_at == PAGE_MAX_WORK {
                page.next = last;
                break;
            }
            let StoredPlant { plant, .. } = &kept.stored;
            if request.filter.matches(plant.name(), plant.tag()) {
                page.plants.push(kept.stored.clone());
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
