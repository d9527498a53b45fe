//! Two repositories on the same tables, as two servers have them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use plant_postgres::PostgresRepository;
use plant_store::conformance::{self, StoreUnderTest};
use plant_store::write::{Decision, Write};
use plant_store::{
    Author, Batch, BatchError, EventCursor, EventPage, EventsAfter, HistoryPage, HistoryRequest,
    Imported, OnConflict, Page, PageRequest, PlantRepository, PlantSnapshot, Revision, StoreError,
    StoreFailure, StoredPlant, TagPage, TagPageRequest, Written,
};

use crate::schema::Schema;

/// Each call goes to the other repository than the call before.
struct TwoServers {
    servers: [PostgresRepository; 2],
    calls: AtomicUsize,
}

impl TwoServers {
    fn next(&self) -> &PostgresRepository {
        &self.servers[self.calls.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl PlantRepository for TwoServers {
    async fn write(&self, write: Write, by: Option<Author>) -> Result<Decision, StoreError> {
        self.next().write(write, by).await
    }

    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError> {
        self.next().batch(batch).await
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
        by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError> {
        self.next().import(new_plants, on_conflict, by).await
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        self.next().get(id).await
    }

    async fn get_all(&self, ids: BTreeSet<PlantId>) -> Result<Page, StoreError> {
        self.next().get_all(ids).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<HistoryPage, StoreError> {
        self.next().history(request).await
    }

    async fn version(&self, id: PlantId, revision: Revision) -> Result<StoredPlant, StoreError> {
        self.next().version(id, revision).await
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        self.next().list(request).await
    }

    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError> {
        self.next().snapshot().await
    }

    async fn count(&self, tag: Option<&str>) -> Result<u64, StoreError> {
        self.next().count(tag).await
    }

    async fn tags(&self, request: TagPageRequest) -> Result<TagPage, StoreError> {
        self.next().tags(request).await
    }

    async fn events(&self, after: EventsAfter, limit: usize) -> Result<EventPage, StoreError> {
        self.next().events(after, limit).await
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        self.next().newest_event().await
    }

    async fn next_events(&self, after: EventCursor, limit: usize) -> Result<EventPage, StoreError> {
        self.next().next_events(after, limit).await
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.next().check_ready().await
    }

    async fn failed(&self) -> StoreFailure {
        self.next().failed().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        for server in &self.servers {
            server.close().await?;
        }
        Ok(())
    }
}

struct OfTwoServers(Schema);

#[async_trait]
impl StoreUnderTest for OfTwoServers {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        let servers = [self.0.open().await, self.0.open().await];
        Arc::new(TwoServers { servers, calls: AtomicUsize::new(0) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_the_same_tables_keep_the_contract_as_one_does() {
    conformance::check(async || OfTwoServers(Schema::new())).await;
}
