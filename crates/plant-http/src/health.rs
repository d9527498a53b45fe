//! Whether the server lives, and whether it takes work.

use std::sync::atomic::{AtomicBool, Ordering};

use actix_http::header;
use actix_web::HttpResponse;
use actix_web::web::Data;
use plant_store::PlantRepository;

use crate::failure::{ErrorNumber, Failure};

/// Set when the server begins to drain.
#[derive(Debug, Default)]
pub(crate) struct Draining(AtomicBool);

impl Draining {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) async fn live() -> HttpResponse {
    ok()
}

pub(crate) async fn ready(
    repository: Data<dyn PlantRepository>,
    draining: Data<Draining>,
) -> Result<HttpResponse, Failure> {
    if draining.has_begun() {
        let message = "the server is shutting down; send the request to another one";
        return Err(Failure::new(ErrorNumber::Busy, message));
    }
    repository.check_ready().await?;
    Ok(ok())
}

fn ok() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/plain; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body("ok\n")
}
