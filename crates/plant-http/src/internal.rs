//! Internals for the tests, the fuzzer and the benchmarks of this project (feature `__internal`). They change without
//! notice.

use actix_http::Request;
use actix_http::header::HeaderMap;
use plant_domain::{Error, NewPlant, Plant, PlantId, PlantPatch};
use plant_store::write::Write;
use plant_store::{OnConflict, PagePlace, PageRequest, Preconditions, Revision, TagPageRequest};

use crate::access::gate::{self, Access};
use crate::access::token_record::Scope;
use crate::errors::ErrorNumber;
use crate::extract::query::{ListQuery, TagQuery};
use crate::extract::transfer_format::{ExportFormat, ImportFormat};
use crate::extract::{batch, entity_tag, idempotency_key, json, media_type, query};
use crate::openapi::Endpoint;
use crate::server::http1::request_end::{ChunksEnd, Found, HeadEnd};

/// One method of a path that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
    /// Its method.
    pub method: String,
    /// Whether a request needs a token.
    pub needs_token: bool,
    /// The scope that the token needs; `None` if any will do.
    pub scope: Option<Scope>,
    /// Whether it is an operation in the OpenAPI document, not a page for people.
    pub is_operation: bool,
}

/// Everything that is served. HEAD is served wherever GET is, and OPTIONS on every path.
#[must_use]
pub fn routes() -> Vec<RouteInfo> {
    crate::routes::endpoints()
        .map(|Endpoint { path, method, access, is_operation }| RouteInfo {
            path,
            method: method.to_string(),
            needs_token: access != Access::Open,
            scope: match access {
                Access::Scope(scope) => Some(scope),
                Access::Open | Access::AnyToken => None,
            },
            is_operation,
        })
        .collect()
}

/// A row of the table of errors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorInfo {
    /// Its number.
    pub number: i32,
    /// The status of its answers.
    pub status: u16,
    /// When the error happens.
    pub meaning: &'static str,
    /// What the client can do about it.
    pub advice: &'static str,
}

/// The table of errors.
#[must_use]
pub fn errors() -> Vec<ErrorInfo> {
    ErrorNumber::ALL
        .iter()
        .map(|number| ErrorInfo {
            number: *number as i32,
            status: number.row().status.as_u16(),
            meaning: number.row().meaning,
            advice: number.row().advice,
        })
        .collect()
}

/// Parses the body of a create.
pub fn read_new_plant(body: &[u8]) -> Result<NewPlant, Error> {
    Ok(json::read(body)?)
}

/// Parses the body of a PUT.
pub fn read_plant(body: &[u8]) -> Result<Plant, Error> {
    Ok(json::read(body)?)
}

/// Parses the body of a PATCH.
pub fn read_patch(body: &[u8]) -> Result<PlantPatch, Error> {
    Ok(json::read(body)?)
}

/// The preconditions of a request; `None` if one of them is malformed.
#[must_use]
pub fn preconditions(headers: &HeaderMap) -> Option<Preconditions> {
    entity_tag::preconditions(headers).ok()
}

/// The entity tag of a plant.
#[must_use]
pub fn entity_tag(revision: Revision) -> String {
    entity_tag::entity_tag(revision)
}

/// The idempotency key of a request that has one; `None` if it is malformed.
#[must_use]
pub fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    idempotency_key::read(headers).ok().flatten()
}

/// The token of a request; `None` if there is not exactly one.
#[must_use]
pub fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    gate::bearer_token(headers).ok()
}

/// The media type of a body, if it is one of these.
#[must_use]
pub fn media_type<'a>(headers: &HeaderMap, media_types: &[&'a str]) -> Option<&'a str> {
    media_type::check_media_type(headers, media_types).ok()
}

/// The format of an import's body; `None` if its content type is that of another.
#[must_use]
pub fn import_format(headers: &HeaderMap) -> Option<ImportFormat> {
    ImportFormat::of_body(headers).ok()
}

/// The format of an export for a request with these headers, and the content type of its answer.
#[must_use]
pub fn export_format(headers: HeaderMap) -> (ExportFormat, &'static str) {
    let mut request = Request::new();
    *request.headers_mut() = headers;
    let format = ExportFormat::of_answer(&request);
    (format, format.content_type())
}

/// The query of an import; `None` if it is wrong.
#[must_use]
pub fn on_conflict(query: &str) -> Option<OnConflict> {
    query::on_conflict(query).ok()
}

/// Parses the body of a batch.
pub fn read_batch(body: &[u8]) -> Result<Vec<Write>, Error> {
    Ok(batch::read(body)?)
}

/// The query of a page of plants, and the query of the page after this plant; `None` if the query is wrong, or asks for
/// ids.
#[must_use]
pub fn list(query: &str, after: PlantId) -> Option<(PageRequest, String)> {
    let ListQuery::Page(read) = ListQuery::parse(query).ok()? else { return None };
    let next = read.at(PagePlace::After(after));
    Some((read.page_request, next))
}

/// The query of a list of tags, and the query of the page after this tag; `None` if the query is wrong.
#[must_use]
pub fn tags(query: &str, after: &str) -> Option<(TagPageRequest, String)> {
    let read = TagQuery::parse(query).ok()?;
    let next = read.next(after);
    Some((read.page_request, next))
}

/// The end of a head that arrives in these parts: `None` if the head continues, and the first byte over a limit as
/// the error.
pub fn head_end<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, usize> {
    let mut head = HeadEnd::default();
    end_in_parts(parts, |part| head.find(&mut part.to_vec()))
}

/// Like [`head_end`], for a chunked body.
pub fn chunks_end<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Result<Option<usize>, usize> {
    let mut chunks = ChunksEnd::default();
    end_in_parts(parts, |part| chunks.find(part))
}

fn end_in_parts<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    mut find: impl FnMut(&[u8]) -> Found,
) -> Result<Option<usize>, usize> {
    let mut at = 0;
    for part in parts {
        match find(part) {
            Found::More => at += part.len(),
            Found::End(end) => return Ok(Some(at + end)),
            Found::Broken(end) => return Err(at + end),
        }
    }
    Ok(None)
}
