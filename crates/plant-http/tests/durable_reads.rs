//! A repository whose reads may show changes that can still be undone: no answer that begins a copy may have them.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, call_service, init_service, try_read_body};
use actix_web::{App, rt};
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use plant_http::{
    PlantService, Scope, Token, TokenName, TokenRecord, Tokens, events_with_unchanged_plants,
};
use plant_store::write::{Decision, Write};
use plant_store::{
    Author, Batch, BatchError, EventCursor, EventPage, EventsAfter, HistoryPage, HistoryRequest,
    Imported, OnConflict, Page, PageRequest, PlantRepository, PlantSnapshot, Preconditions,
    Revision, SledConfig, SledRepository, StoreError, StoreFailure, StoredPlant, TagPage,
    TagPageRequest, Written,
};

const TOKEN: &str = "0123456789abcdef";

/// Never learns that a change is durable.
struct NothingIsDurable(SledRepository);

#[async_trait]
impl PlantRepository for NothingIsDurable {
    async fn wait_until_durable(&self) -> Result<(), StoreError> {
        Err(StoreFailure::new("the standby is away").into())
    }

    async fn write(&self, write: Write, by: Option<Author>) -> Result<Decision, StoreError> {
        self.0.write(write, by).await
    }

    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError> {
        self.0.batch(batch).await
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
        by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError> {
        self.0.import(new_plants, on_conflict, by).await
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        self.0.get(id).await
    }

    async fn get_all(&self, ids: BTreeSet<PlantId>) -> Result<Page, StoreError> {
        self.0.get_all(ids).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<HistoryPage, StoreError> {
        self.0.history(request).await
    }

    async fn version(&self, id: PlantId, revision: Revision) -> Result<StoredPlant, StoreError> {
        self.0.version(id, revision).await
    }

    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError> {
        self.0.snapshot().await
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        self.0.list(request).await
    }

    async fn count(&self, tag: Option<&str>) -> Result<u64, StoreError> {
        self.0.count(tag).await
    }

    async fn tags(&self, request: TagPageRequest) -> Result<TagPage, StoreError> {
        self.0.tags(request).await
    }

    async fn events(&self, after: EventsAfter, limit: usize) -> Result<EventPage, StoreError> {
        self.0.events(after, limit).await
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        self.0.newest_event().await
    }

    async fn next_events(&self, after: EventCursor, limit: usize) -> Result<EventPage, StoreError> {
        self.0.next_events(after, limit).await
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.0.check_ready().await
    }

    async fn failed(&self) -> StoreFailure {
        self.0.failed().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        self.0.close().await
    }
}

#[test]
fn an_event_shows_no_later_state_of_a_plant_and_an_export_does_not_end_before_they_are_durable() {
    rt::System::new().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = SledRepository::open(&SledConfig::new(folder.path())).expect("opens");
        let repository = Arc::new(NothingIsDurable(repository));
        let token = Token::chosen(TOKEN.to_owned()).expect("a good token");
        let name = TokenName::new("test").expect("a good name");
        let tokens = Tokens::new(vec![TokenRecord::new(name, Scope::Read, &token)]);
        let service = PlantService::new(Arc::clone(&repository) as _, tokens);
        let service = init_service(App::new().service(service.scope(""))).await;
        let get = async |uri: &str| {
            let request = TestRequest::get().uri(uri);
            let request = request.insert_header(("authorization", format!("Bearer {TOKEN}")));
            let answer = call_service(&service, request.to_request()).await;
            let status = answer.status();
            (status, try_read_body(answer).await.is_ok())
        };
        let plant = |name: &str| NewPlant::new(7, name, None).expect("valid");
        let put = async |name| {
            drop(repository.put(plant(name), Preconditions::default()).await.expect("puts"))
        };

        // The oldest event as a webhook with plants sends it.
        let send = async || {
            let page = repository.events(EventsAfter::Oldest, 1).await.expect("reads");
            events_with_unchanged_plants(&*repository, page.events, true).await
        };

        put("Rosa").await;
        let events = "/events?limit=1&plants=true";
        assert_eq!(get(events).await, (StatusCode::OK, true), "the event is that of this state");
        assert!(send().await.is_ok());
        put("Salix").await;
        assert_eq!(get(events).await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert!(send().await.is_err(), "no later event is certain to have the plant");
        assert_eq!(get("/events?limit=1").await, (StatusCode::OK, true));
        repository.delete(PlantId::from(7), Preconditions::default()).await.expect("deletes");
        assert_eq!(get(events).await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(get("/plants/export").await, (StatusCode::OK, false), "the export looks whole");
    });
}
