//! What the tests, the fuzzer and the benchmarks of this project see of the insides (feature `__internal`). It changes
//! without notice.

pub mod benches;
pub mod fuzzing;

use crate::access::token_record::Scope;
use crate::errors::ErrorNumber;

/// One method of a path that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
    /// Its method.
    pub method: String,
    /// What a token must let its holder do; `None` where no token is needed.
    pub scope: Option<Scope>,
    /// Whether it is an operation of the OpenAPI document, and not a page for people.
    pub is_operation: bool,
}

/// Everything that is served. HEAD is served wherever GET is, and OPTIONS on every path.
#[must_use]
pub fn routes() -> Vec<RouteInfo> {
    let endpoints = crate::routes::endpoints().into_iter();
    let info = endpoints.map(|(endpoint, describe)| RouteInfo {
        path: endpoint.path,
        method: endpoint.method.to_string(),
        scope: endpoint.scope,
        is_operation: describe.is_some(),
    });
    info.collect()
}

/// A row of the table of errors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorInfo {
    /// Its number.
    pub number: i32,
    /// The status of an answer that tells of it.
    pub status: u16,
    /// When it happens.
    pub meaning: &'static str,
    /// What a client can do about it.
    pub advice: &'static str,
}

/// The table of errors.
#[must_use]
pub fn errors() -> Vec<ErrorInfo> {
    let info = ErrorNumber::ALL.iter().map(|number| {
        let row = number.row();
        let (meaning, advice) = (row.meaning, row.advice);
        ErrorInfo { number: *number as i32, status: row.status.as_u16(), meaning, advice }
    });
    info.collect()
}
