//! Path and query parameters.

use actix_web::HttpRequest;
use actix_web::error::QueryPayloadError;
use actix_web::web::Query;
use percent_encoding::percent_decode_str;
use plant_domain::{PlantFilter, PlantId, UncheckedPlantFilter};
use plant_store::{OnConflict, PageRequest};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::{ErrorNumber, Failure};

/// The most plants that a page may have; the least is one.
pub const LIMIT_MAX: usize = 1000;

/// How many plants a page has at most unless something else is asked for.
pub const LIMIT_DEFAULT: usize = 100;

/// The id in the path.
pub(crate) fn plant_id(request: &HttpRequest) -> Result<PlantId, Failure> {
    read_id("id", request.match_info().query("id"))
}

/// Refuses every query parameter, for operations that define none (specification, section "Create
/// plant", rule 3): a parameter that is ignored in silence is a misunderstanding that nobody sees.
pub(crate) fn no_query(request: &HttpRequest) -> Result<(), Failure> {
    if request.query_string().is_empty() {
        Ok(())
    } else {
        Err(wrong("this operation takes no query parameters; leave out what follows the `?`"))
    }
}

/// Which page of which plants is asked for.
pub(crate) fn page_request(request: &HttpRequest) -> Result<PageRequest, Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        limit: Option<String>,
        after: Option<String>,
        tag: Option<String>,
        name: Option<String>,
    }
    let Parameters { limit, after, tag, name } = query(request)?;
    let filter = PlantFilter::try_from(UncheckedPlantFilter { name, tag });
    Ok(PageRequest {
        filter: filter.map_err(|violations| wrong(violations.to_string()))?,
        after: after.map(|after| read_id("after", &after)).transpose()?,
        limit: limit.map_or(Ok(LIMIT_DEFAULT), |limit| read_limit(&limit))?,
    })
}

/// What an import is to do with an id that is taken.
pub(crate) fn on_conflict(request: &HttpRequest) -> Result<OnConflict, Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        on_conflict: Option<String>,
    }
    match query::<Parameters>(request)?.on_conflict.as_deref() {
        None | Some("error") => Ok(OnConflict::Error),
        Some("skip") => Ok(OnConflict::Skip),
        Some("replace") => Ok(OnConflict::Replace),
        Some(_) => Err(wrong("on_conflict must be error, skip or replace")),
    }
}

/// The parameters of the query, each known and at most once.
fn query<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, Failure> {
    let query = request.query_string();
    // What is not UTF-8 would be replaced in silence.
    if percent_decode_str(query).decode_utf8().is_err() {
        return Err(wrong("the query must be UTF-8, percent-encoded"));
    }
    Query::from_query(query).map(Query::into_inner).map_err(|error| match error {
        QueryPayloadError::Deserialize(cause) => wrong(format!("the query is wrong: {cause}")),
        other => wrong(format!("the query is wrong: {other}")),
    })
}

fn read_id(name: &str, text: &str) -> Result<PlantId, Failure> {
    text.parse().map_err(|refusal| wrong(format!("{name}: {refusal}")))
}

fn read_limit(text: &str) -> Result<usize, Failure> {
    match text.parse() {
        Ok(limit @ 1..=LIMIT_MAX) if limit.to_string() == text => Ok(limit),
        _ => Err(wrong(format!("limit must be an integer from 1 to {LIMIT_MAX}"))),
    }
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(ErrorNumber::WrongParameter, message)
}
