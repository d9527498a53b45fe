//! The service mounted in an actix-web application in unusual ways.

use std::sync::Arc;

use actix_http::Request;
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::{Method, StatusCode, header};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, Error, web};
use plant_domain::PlantId;
use plant_http::{PlantService, Scope, Token, TokenName, TokenRecord, Tokens};
use plant_store::{PlantRepository as _, SledConfig, SledRepository};
use tempfile::TempDir;

const TOKEN: &str = "0123456789abcdef";
const OTHER_TOKEN: &str = "fedcba9876543210";

/// Sends a request with a token, and with a plant of this name and tag as its body.
async fn ask<B: MessageBody>(
    app: &impl Service<Request, Response = ServiceResponse<B>, Error = Error>,
    token: &str,
    method: Method,
    path: &str,
    name: Option<&str>,
) -> ServiceResponse<B> {
    let mut request = TestRequest::with_uri(path).method(method);
    if !token.is_empty() {
        request = request.insert_header((header::AUTHORIZATION, format!("Bearer {token}")));
    }
    if let Some(name) = name {
        let body = format!(r#"{{"name":"{name}","tag":"{name}"}}"#);
        request =
            request.insert_header((header::CONTENT_TYPE, "application/json")).set_payload(body);
    }
    call_service(app, request.to_request()).await
}

fn text<B>(answer: &ServiceResponse<B>, name: header::HeaderName) -> Option<&str> {
    Some(answer.headers().get(name)?.to_str().expect("ASCII"))
}

/// A service with one token, its plants, and their folder.
fn service(token: &str) -> (PlantService, Arc<SledRepository>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let repository = SledRepository::open(&SledConfig::new(folder.path())).expect("opens");
    let repository = Arc::new(repository);
    let token = Token::chosen(token.to_owned()).expect("long enough");
    let name = TokenName::new("gardener").expect("a name");
    let tokens = Tokens::new(vec![TokenRecord::new(name, Scope::Write, &token)]);
    (PlantService::new(Arc::clone(&repository) as _, tokens), repository, folder)
}

#[tokio::test]
async fn a_parameter_of_the_mount_is_not_taken_for_the_id_of_a_plant() {
    let (plants, repository, _folder) = service(TOKEN);
    let app = init_service(App::new().service(plants.scope("/of/{id}"))).await;
    for id in [1, 99] {
        let path = format!("/of/1/plants/{id}");
        let put = ask(&app, TOKEN, Method::PUT, &path, Some("Rosa")).await;
        assert_eq!(put.status(), StatusCode::CREATED);
        assert_eq!(text(&put, header::LOCATION), Some(&*path));
    }
    let deleted = ask(&app, TOKEN, Method::DELETE, "/of/1/plants/99", None).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert!(repository.get(PlantId::from(1)).await.expect("it reads").is_some());
    assert!(repository.get(PlantId::from(99)).await.expect("it reads").is_none());
    let read = ask(&app, TOKEN, Method::GET, "/of/anybody/plants/1", None).await;
    assert_eq!(read.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_service_below_the_path_of_another_one_asks_for_a_token_of_its_own() {
    let (outer, outer_plants, _outer_folder) = service(TOKEN);
    let (inner, inner_plants, _inner_folder) = service(OTHER_TOKEN);
    let app = App::new().service(inner.scope("/outer/inner")).service(outer.scope("/outer"));
    let app = init_service(app).await;
    let (of_inner, of_outer) = ("/outer/inner/plants/1", "/outer/plants/1");
    for (token, path) in [(TOKEN, of_inner), (OTHER_TOKEN, of_outer), ("", of_inner)] {
        let put = ask(&app, token, Method::PUT, path, Some("Rosa")).await;
        assert_eq!(put.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    for (plants, token, path) in
        [(inner_plants, OTHER_TOKEN, of_inner), (outer_plants, TOKEN, of_outer)]
    {
        assert_eq!(plants.count(None).await.expect("it counts"), 0);
        let put = ask(&app, token, Method::PUT, path, Some("Rosa")).await;
        assert_eq!(put.status(), StatusCode::CREATED);
        assert_eq!(plants.count(None).await.expect("it counts"), 1);
    }
}

#[tokio::test]
async fn links_begin_with_the_mount_as_the_client_wrote_it() {
    let (plants, _, _folder) = service(TOKEN);
    let app = init_service(
        App::new()
            .service(plants.scope("/two words"))
            .service(plants.scope("/gärten"))
            .service(web::scope("/all").service(plants.scope("/{name}"))),
    )
    .await;
    let mounts = [
        "/two%20words",
        "/g%C3%A4rten",
        "/all/%67arden",
        "/all/a%0D%0Ab",
        "/all/%00",
        "/all/%FF",
        "/all/a%2Fb",
        "/all/a%3Fb%23c",
        "/all/%2e%2e",
        "/all/a%3E%3B%20rel%3D%22next%22",
    ];
    for (id, mount) in mounts.into_iter().enumerate() {
        let path = format!("{mount}/plants/{id}");
        let name = format!("Rosa {id}");
        let put = ask(&app, TOKEN, Method::PUT, &path, Some(&name)).await;
        assert_eq!(put.status(), StatusCode::CREATED);
        assert_eq!(text(&put, header::LOCATION), Some(&*path));
        let page = ask(&app, TOKEN, Method::GET, &format!("{mount}/plants?limit=1"), None).await;
        if id > 0 {
            let next = format!("<{mount}/plants?limit=1&after=0>; rel=\"next\"");
            assert_eq!(page.status(), StatusCode::OK);
            assert_eq!(text(&page, header::LINK), Some(&*next));
            let page = ask(&app, TOKEN, Method::GET, &format!("{mount}/tags?limit=1"), None).await;
            let next = format!("<{mount}/tags?limit=1&after=Rosa%200>; rel=\"next\"");
            assert_eq!(text(&page, header::LINK), Some(&*next));
        }
        // The open paths are the same below every mount.
        for (path, status) in [
            (format!("{mount}/livez"), StatusCode::OK),
            (format!("{mount}/plants"), StatusCode::UNAUTHORIZED),
            (format!("{mount}/plants/livez"), StatusCode::UNAUTHORIZED),
        ] {
            assert_eq!(ask(&app, "", Method::GET, &path, None).await.status(), status, "{path}");
        }
    }
}

#[tokio::test]
async fn a_mount_without_its_slash_leads_to_the_page_for_people_and_to_nothing_else() {
    let (plants, _, _folder) = service(TOKEN);
    let app = App::new()
        .service(plants.scope("/garden"))
        .service(web::scope("/all").service(plants.scope("/{name}")));
    let app = init_service(app).await;
    for (mount, location) in [
        ("/garden", "./garden/"),
        ("/all/two%20words", "./two%20words/"),
        ("/all/a:b", "./a:b/"),
        ("/all/a%2Fb", "./a%2Fb/"),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let answer = ask(&app, "", method, mount, None).await;
            assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT, "{mount}");
            assert_eq!(text(&answer, header::LOCATION), Some(location), "{mount}");
        }
        let page = ask(&app, "", Method::GET, &format!("{mount}/"), None).await;
        assert_eq!(page.status(), StatusCode::OK, "{mount}");
        let options = ask(&app, "", Method::OPTIONS, mount, None).await;
        assert_eq!(text(&options, header::ALLOW), Some("GET, HEAD, OPTIONS"), "{mount}");
        for (token, status) in
            [("", StatusCode::UNAUTHORIZED), (TOKEN, StatusCode::METHOD_NOT_ALLOWED)]
        {
            let put = ask(&app, token, Method::PUT, mount, Some("Rosa")).await;
            assert_eq!(put.status(), status, "{mount}");
        }
    }
}

#[tokio::test]
async fn a_slash_at_the_end_of_the_mount_makes_no_difference() {
    for mount in ["/garden", "/garden/", "", "/"] {
        let (plants, _, _folder) = service(TOKEN);
        let app = init_service(App::new().service(plants.scope(mount))).await;
        let path = format!("{}/plants/1", mount.trim_end_matches('/'));
        let put = ask(&app, TOKEN, Method::PUT, &path, Some("Rosa")).await;
        assert_eq!(put.status(), StatusCode::CREATED, "{mount:?}");
        assert_eq!(text(&put, header::LOCATION), Some(&*path), "{mount:?}");
    }
}
