//! Liveness and readiness checks.

use actix_http::header;
use actix_web::HttpResponse;
use actix_web::web::Data;
use plant_store::PlantRepository;

use crate::errors::{ErrorNumber, Failure};
use crate::handlers::Repository;
use crate::server::drain::Draining;

pub(crate) async fn live() -> HttpResponse {
    ok()
}

pub(crate) async fn ready(
    repository: Repository,
    draining: Data<Draining>,
) -> Result<HttpResponse, Failure> {
    check_ready(repository.as_ref().as_ref(), &draining).await?;
    Ok(ok())
}

/// Whether other servers should send requests here.
pub(crate) async fn check_ready(
    repository: &dyn PlantRepository,
    draining: &Draining,
) -> Result<(), Failure> {
    if draining.has_begun() {
        let message = "the server is shutting down; send the request to another server";
        return Err(Failure::new(ErrorNumber::Busy, message));
    }
    Ok(repository.check_ready().await?)
}

fn ok() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/plain; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body("ok\n")
}
