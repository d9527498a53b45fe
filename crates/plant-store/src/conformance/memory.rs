//! The suite against a repository in memory, whose futures are ready as soon as they are asked.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId, PlantPatch};
use proptest::prelude::ProptestConfig;
use proptest::proptest;
use tokio::runtime::Builder;

use super::model::KeptEvents;
use super::{Place, model};
use crate::plant_record::Record;
use crate::repository::MAX_LOOKED_AT;
use crate::write::{Decision, Outcome, Write, imported};
use crate::{
    Created, Event, EventPage, IdempotencyDigest, Imported, OnConflict, Page, PageRequest,
    PlantRepository, Preconditions, Put, Revision, StoreError, StoreFailure, StoredPlant,
};

/// Plants and events outlive the repositories that keep them here.
#[derive(Default)]
struct Memory(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    plants: BTreeMap<PlantId, Record>,
    events: Vec<Event>,
    is_closed: bool,
}

#[async_trait]
impl Place for Memory {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        let repository = MemoryRepository(Arc::clone(&self.0));
        repository.kept().is_closed = false;
        Arc::new(repository)
    }
}

struct MemoryRepository(Arc<Mutex<Kept>>);

impl MemoryRepository {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("no test panicked")
    }
}

impl Kept {
    fn write(&mut self, write: Write) -> Outcome {
        if self.is_closed {
            return Err(StoreError::Closed);
        }
        let id = write.id();
        let revision = self.events.len() as u64 + 1;
        let decision = write.decide(self.plants.get(&id), revision).map_err(StoreFailure::from)?;
        let Decision { change_to, decided } = decision?;
        match change_to {
            Some(Some(record)) => drop(self.plants.insert(id, record)),
            Some(None) => drop(self.plants.remove(&id)),
            None => {}
        }
        let written = write.written(decided);
        let revision = Revision::from(revision);
        self.events.extend(written.kind.map(|kind| Event { revision, kind, id }));
        Ok(written)
    }
}

fn stored(id: PlantId, record: &Record) -> Result<StoredPlant, StoreFailure> {
    Ok(record.decode().and_then(|record| record.to_stored_plant(id))?)
}

#[async_trait]
impl PlantRepository for MemoryRepository {
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<Created, StoreError> {
        Ok(self.kept().write(Write::Create { new_plant, idempotency })?.into_created())
    }

    async fn put(
        &self,
        new_plant: NewPlant,
        preconditions: Preconditions,
    ) -> Result<Put, StoreError> {
        Ok(self.kept().write(Write::Put { new_plant, preconditions })?.into_put())
    }

    async fn patch(
        &self,
        id: PlantId,
        patch: PlantPatch,
        preconditions: Preconditions,
    ) -> Result<StoredPlant, StoreError> {
        Ok(self.kept().write(Write::Patch { id, patch, preconditions })?.stored)
    }

    async fn delete(&self, id: PlantId, preconditions: Preconditions) -> Result<(), StoreError> {
        self.kept().write(Write::Delete { id, preconditions }).map(drop)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError> {
        let writes = Write::of_import(new_plants, on_conflict).into_iter();
        writes.map(|write| imported(self.kept().write(write), on_conflict)).collect()
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        let kept = self.kept();
        Ok(kept.plants.get(&id).map(|record| stored(id, record)).transpose()?)
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        let mut page = Page { plants: Vec::new(), next: None };
        let Some(first) = request.first_id() else { return Ok(page) };
        let (mut last, mut looked_at) = (None, 0);
        for (id, record) in self.kept().plants.range(first..) {
            if page.plants.len() == request.limit || looked_at == MAX_LOOKED_AT {
                page.next = last;
                break;
            }
            let stored = stored(*id, record)?;
            if request.filter.matches(stored.plant.name(), stored.plant.tag()) {
                page.plants.push(stored);
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
        let later = kept.events.iter().filter(|event| event.revision > after);
        Ok(EventPage::Kept(later.take(limit).copied().collect()))
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        if self.kept().is_closed { Err(StoreError::Closed) } else { Ok(()) }
    }

    async fn failed(&self) -> StoreFailure {
        pending().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        self.kept().is_closed = true;
        Ok(())
    }
}

#[test]
fn a_repository_that_never_waits_keeps_the_contract() {
    for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = runtime.enable_time().build().expect("a runtime");
        runtime.block_on(super::check(async || Memory::default()));
    }
}

#[test]
fn a_repository_that_never_waits_is_as_the_model() {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    proptest!(ProptestConfig::with_cases(64), |(operations in model::operations(40))| {
        let kept = KeptEvents::AtLeast(usize::MAX);
        runtime.block_on(model::check(&Memory::default(), &operations, kept));
    });
}

/// A place that never opens, as one may be whose database does not answer.
struct Nowhere;

#[async_trait]
impl Place for Nowhere {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a_created_plant_reads_back_exactly did not come to its end")]
async fn a_claim_that_does_not_end_is_named() {
    super::check(async || Nowhere).await;
}
