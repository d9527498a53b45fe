//! The OpenAPI document, which every answer must match.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::answer::Answer;
use crate::folder::repository;

/// An OpenAPI document.
#[derive(Debug)]
pub struct OpenapiDocument(Value);

impl OpenapiDocument {
    /// The copy in the repository.
    pub fn copy() -> &'static Self {
        static COPY: LazyLock<OpenapiDocument> = LazyLock::new(|| {
            let text = fs::read_to_string(repository("docs/openapi.json"));
            OpenapiDocument::read(&text.expect("there is a copy"))
        });
        &COPY
    }

    /// A document from its text.
    #[track_caller]
    pub fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).expect("the document is JSON"))
    }

    /// The value at a JSON pointer (RFC 6901), with a reference followed.
    #[track_caller]
    pub fn at(&self, pointer: &str) -> &Value {
        let value = self.0.pointer(pointer).unwrap_or_else(|| panic!("nothing is at {pointer}"));
        self.follow(value)
    }

    /// The target of a reference, or the value itself.
    #[track_caller]
    pub fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.at(reference.trim_start_matches('#')),
            None => value,
        }
    }

    /// Every operation: its method in capitals, its path and its description.
    pub fn operations(&self) -> impl Iterator<Item = (String, &str, &Value)> {
        members(self.at("/paths")).flat_map(|(path, item)| {
            members(item).map(move |(method, operation)| (method.to_uppercase(), path, operation))
        })
    }

    /// Each failure of an operation: its status and its description.
    pub fn failures<'a>(&'a self, operation: &'a Value) -> impl Iterator<Item = (u16, &'a Value)> {
        members(&operation["responses"]).filter_map(|(status, response)| {
            let status: u16 = status.parse().expect("a status");
            (status >= 400).then(|| (status, self.follow(response)))
        })
    }

    /// The errors of an answer: the number of each, and its example.
    pub fn errors(response: &Value) -> impl Iterator<Item = (i64, &Value)> {
        let examples = &response["content"]["application/json"]["examples"];
        members(examples).map(|(number, example)| (number.parse().expect("a number"), example))
    }

    /// The description of the operation that a request calls, if there is one.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        // The document leaves out HEAD, which every GET has.
        let method = if method == "HEAD" { "get" } else { &method.to_lowercase() };
        let path = path.split('?').next().unwrap_or_default();
        let paths = self.at("/paths");
        paths.get(pattern_of(path))?.get(method)
    }
}

/// The path of a request with `{id}` for the id of a plant.
pub fn pattern_of(path: &str) -> &str {
    let is_id = |id: &str| !id.is_empty() && !id.contains('/');
    if ["/plants/import", "/plants/export"].contains(&path) {
        return path;
    }
    match path.strip_prefix("/plants/") {
        Some(id) if is_id(id) => "/plants/{id}",
        Some(below) if below.strip_suffix("/history").is_some_and(is_id) => "/plants/{id}/history",
        _ => path,
    }
}

/// The members of an object; none for other values.
pub fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Headers that any answer may have though the document leaves them out: those of HTTP, browsers and caches.
const HEADERS_OF_ANY: [&str; 14] = [
    "accept-patch",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "allow",
    "cache-control",
    "connection",
    "content-length",
    "content-security-policy",
    "date",
    "transfer-encoding",
    "vary",
    "x-content-type-options",
];

/// The required headers of an answer with this status.
fn needed_headers(status: u16) -> &'static [&'static str] {
    match status {
        401 | 403 => &["x-request-id", "www-authenticate"],
        429 | 503 => &["x-request-id", "retry-after"],
        _ => &["x-request-id"],
    }
}

/// Asserts that the document has the status, the error number, the media type and the headers of an answer, if it has
/// the operation.
#[track_caller]
pub(crate) fn assert_described(method: &str, path: &str, answer: &Answer) {
    let document = OpenapiDocument::copy();
    let Some(operation) = document.operation(method, path) else { return };
    let response = &operation["responses"][answer.status.to_string()];
    assert!(!response.is_null(), "the document has no such answer to {method} {path}: {answer:?}");
    let response = document.follow(response);
    let content = &response["content"];
    let media_type =
        answer.header("content-type").map(|said| said.split(';').next().unwrap_or(said));
    let is_described = match media_type {
        Some(media_type) => content.get(media_type).is_some(),
        None => content.is_null(),
    };
    assert!(is_described, "the document has no such media type for {method} {path}: {answer:?}");
    let told: Vec<String> =
        members(&response["headers"]).map(|(name, _)| name.to_lowercase()).collect();
    for (header, _) in &answer.headers {
        let is_told = told.contains(header)
            || header == "content-type"
            || HEADERS_OF_ANY.contains(&header.as_str());
        assert!(is_told, "the document has no {header} for {method} {path}: {answer:?}");
    }
    for header in needed_headers(answer.status) {
        assert!(answer.header(header).is_some(), "no {header} for {method} {path}: {answer:?}");
    }
    if answer.status >= 400 && !answer.body.is_empty() {
        let number = answer.json()["error"].as_i64();
        let is_described = OpenapiDocument::errors(response).any(|(told, _)| Some(told) == number);
        assert!(is_described, "the document has no such error for {method} {path}: {answer:?}");
    }
}
