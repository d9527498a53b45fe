//! One file, or folder, for each noun of the interface. A handler is a straight line: extract, call the repository, answer.

pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod import_report;
pub(crate) mod metrics;
pub(crate) mod plants;
pub(crate) mod tags;
pub(crate) mod token;
pub(crate) mod webhooks;
pub(crate) mod write_answer;

use std::sync::Arc;

use actix_http::body;
use actix_web::web::Data;
use actix_web::{HttpResponse, HttpResponseBuilder};
use plant_store::PlantRepository;

/// The extractor of the repository.
pub(crate) type Repository = Data<Arc<dyn PlantRepository>>;

/// The answer to HEAD where GET has content that takes work: with the headers that are known without generating the content
/// (RFC 9110, section 9.3.2). A stream needs this only if to begin it has a cost: [`crate::middleware`]
/// reads none for HEAD.
pub(crate) fn without_content(
    mut response: HttpResponseBuilder,
    content_type: &str,
) -> HttpResponse {
    response.content_type(content_type).body(body::None::new())
}
