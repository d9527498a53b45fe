//! Internals for the tests, the fuzzer and the benchmarks of this project (feature `__internal`). They change without
//! notice.

pub mod fuzzing;

use plant_domain::NewPlant;

use crate::access::token_record::Scope;
use crate::errors::ErrorNumber;
use crate::extract::json;

/// One method of a path that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
    /// Its method.
    pub method: String,
    /// The scope that a token needs; `None` where no token is needed.
    pub scope: Option<Scope>,
    /// Whether it is an operation in the OpenAPI document, not a page for people.
    pub is_operation: bool,
}

/// Everything that is served. HEAD is served wherever GET is, and OPTIONS on every path.
#[must_use]
pub fn routes() -> Vec<RouteInfo> {
    let endpoints = crate::routes::endpoints().into_iter();
    endpoints
        .map(|(endpoint, describe)| RouteInfo {
            path: endpoint.path,
            method: endpoint.method.to_string(),
            scope: endpoint.scope,
            is_operation: describe.is_some(),
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

/// The plant in the body of a create, if it is valid.
#[must_use]
pub fn read_new_plant(body: &[u8]) -> Option<NewPlant> {
    json::read(body).ok()
}
