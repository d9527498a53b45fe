//! The webhooks of an embedding program: how clients see them, and the events that they send.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_web::App;
use actix_web::http::{StatusCode, header};
use actix_web::test::{TestRequest, call_service, init_service, read_body_json};
use plant_domain::{NewPlant, Plant, PlantId};
use plant_http::{
    PlantService, Scope, ShownEvent, Token, TokenName, TokenRecord, Tokens, WebhookError,
    WebhookState, WebhookStatus, events_with_unchanged_plants,
};
use plant_store::{
    EventKind, EventsAfter, PlantRepository, Preconditions, SledConfig, SledRepository,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const READER: &str = "0123456789abcdef";
const WRITER: &str = "fedcba9876543210";

fn repository() -> (Arc<SledRepository>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let repository = SledRepository::open(&SledConfig::new(folder.path())).expect("opens");
    (Arc::new(repository), folder)
}

fn service() -> (PlantService, TempDir) {
    let (repository, folder) = repository();
    let record = |name, scope, token: &str| {
        let token = Token::chosen(token.to_owned()).expect("long enough");
        TokenRecord::new(TokenName::new(name).expect("a name"), scope, &token)
    };
    let tokens =
        vec![record("reader", Scope::Read, READER), record("writer", Scope::Write, WRITER)];
    (PlantService::new(repository, Tokens::new(tokens)), folder)
}

/// The answer to `GET /garden/webhooks`.
async fn webhooks(service: &PlantService, token: &str) -> (StatusCode, Value) {
    let app = init_service(App::new().service(service.scope("/garden"))).await;
    let request = TestRequest::with_uri("/garden/webhooks")
        .insert_header((header::AUTHORIZATION, format!("Bearer {token}")));
    let answer = call_service(&app, request.to_request()).await;
    let cache = answer.headers().get(header::CACHE_CONTROL).expect("it is said");
    assert_eq!(cache, "private, no-cache");
    (answer.status(), read_body_json(answer).await)
}

#[tokio::test]
async fn only_a_token_that_may_write_sees_the_webhooks_of_the_program() {
    let (service, _folder) = service();
    let none = json!({"webhooks": []});
    assert_eq!(webhooks(&service, WRITER).await, (StatusCode::OK, none));

    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_415_800_123);
    let shop = WebhookStatus {
        name: "shop".to_owned(),
        origin: "https://shop.example".to_owned(),
        kinds: vec![EventKind::Created, EventKind::Deleted],
        plants: true,
        state: WebhookState::Failing,
        last_success: Some(at),
        lag_seconds: Some(40),
        last_error: Some(WebhookError { at, message: "no answer".to_owned() }),
    };
    let new = WebhookStatus {
        name: "new".to_owned(),
        state: WebhookState::Paused,
        last_success: None,
        lag_seconds: None,
        last_error: None,
        ..shop.clone()
    };
    let service = service.with_webhooks(Arc::new(move || vec![shop.clone(), new.clone()]));
    let time = "2025-11-29T11:30:00.123Z";
    let shop = json!({
        "name": "shop", "origin": "https://shop.example", "kinds": ["created", "deleted"],
        "plants": true, "state": "failing", "last_success": time, "lag_seconds": 40,
        "last_error": {"at": time, "message": "no answer"},
    });
    let new = json!({
        "name": "new", "origin": "https://shop.example", "kinds": ["created", "deleted"],
        "plants": true, "state": "paused",
    });
    let both = json!({"webhooks": [shop, new]});
    assert_eq!(webhooks(&service, WRITER).await, (StatusCode::OK, both));

    let (status, refusal) = webhooks(&service, READER).await;
    assert_eq!((status, &refusal["error"]), (StatusCode::FORBIDDEN, &json!(2003)));
}

/// All events of a store as a webhook with plants sends them.
async fn shown(repository: &SledRepository) -> Vec<ShownEvent> {
    let page = repository.events(EventsAfter::Oldest, 100).await.expect("they are read");
    events_with_unchanged_plants(repository, page.events, true).await.expect("they are shown")
}

fn plants(events: &[ShownEvent]) -> Vec<Option<&str>> {
    events.iter().map(|event| event.plant.as_ref().map(Plant::name)).collect()
}

#[tokio::test]
async fn an_event_that_is_shown_again_never_grows() {
    let (repository, _folder) = repository();
    let put = async |name| {
        let plant = NewPlant::new(7, name, None).expect("valid");
        repository.put(plant, Preconditions::default()).await.expect("it is written");
    };
    put("a").await;
    assert_eq!(plants(&shown(&repository).await), [Some("a")]);
    put("b").await;
    assert_eq!(plants(&shown(&repository).await), [None, Some("b")]);
    // The text of the first state is back, in a later revision.
    put("a").await;
    assert_eq!(plants(&shown(&repository).await), [None, None, Some("a")]);
    repository.delete(PlantId::from(7), Preconditions::default()).await.expect("it is deleted");
    assert_eq!(plants(&shown(&repository).await), [None; 4]);

    let page = repository.events(EventsAfter::Oldest, 100).await.expect("they are read");
    put("c").await;
    let without = events_with_unchanged_plants(&*repository, page.events, false)
        .await
        .expect("they are shown");
    assert_eq!(plants(&without), [None; 4]);
    let json = serde_json::to_value(&without[0]).expect("it is JSON");
    let members: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(members, ["cursor", "kind", "id", "at"]);
}
