//! The OpenAPI document, which describes the service for programs and for people.
//!
//! `document.json` is the document in OpenAPI's own notation, without the parts that follow from the code. This module adds
//! them, so that no limit and no error is written twice:
//!
//! - `{{NAME}}` is the limit or the text of this name below, or the fragment of this name at the end of the file.
//! - A description that is an array is one text in pieces.
//! - `failures` are the numbers of the errors that are specific to an operation. Each operation also has the failures that
//!   all operations share, and the ones of the gate if its route needs a token.

mod failures;

use actix_http::Method;
use plant_domain::{MAX_CHARACTERS, MEMBERS, Plant, PlantPatch};
use plant_store::{BATCH_MAX_WRITES, PAGE_MAX_WORK};
use serde_json::{Map, Value, json};

use crate::access::gate::Access;
use crate::errors::{ErrorNumber, Failure, INVALID_TOKEN_CHALLENGE, wrong_content_type};
use crate::extract::body::{body_too_large, not_whole};
use crate::extract::query::{on_conflict, read_id, wrong_limit};
use crate::extract::{batch, json, rows};
use crate::limits::{
    BATCH_BODY_MAX_BYTES, BODY_IDLE_DEADLINE, BODY_MAX_BYTES, ENTITY_TAGS_MAX, EVENTS_HEARTBEAT,
    EVENTS_WAIT_MAX, HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES, IDEMPOTENCY_KEY_MAX_CHARACTERS, IDS_MAX,
    PAGE_DEFAULT_CHANGES, PAGE_DEFAULT_EVENTS, PAGE_DEFAULT_PLANTS, PAGE_DEFAULT_TAGS,
    PAGE_MAX_CHANGES, PAGE_MAX_EVENTS, PAGE_MAX_PLANTS, PAGE_MAX_TAGS, REPORT_MAX_ERRORS,
    REQUEST_ID_MAX_CHARACTERS, ROW_MAX_BYTES, TOKEN_NAME_MAX_CHARACTERS,
};

const TEMPLATE: &str = include_str!("document.json");

/// The pattern of names and tags, as an ECMA-262 regular expression: no control characters (Unicode's general category
/// Cc), and at least one character that is not white space (Unicode's White_Space).
const TEXT_PATTERN: &str = concat!(
    r"^[^\u0000-\u001f\u007f-\u009f]*",
    r"[^\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
    r"[^\u0000-\u001f\u007f-\u009f]*$"
);

/// An id that JavaScript's numbers cannot hold: 2^53 + 1.
const LARGE_ID: i64 = 9_007_199_254_740_993;

/// The pattern of the beginnings of tags: no control characters.
const PREFIX_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// The pattern of revisions.
const REVISION_PATTERN: &str = "^[1-9][0-9]{0,18}$";

/// The pattern of cursors. Every text that matches it can be read, although few were given out.
macro_rules! cursor_pattern {
    () => {
        "(0|[1-9][0-9]{0,18})-(0|[1-9a-f][0-9a-f]{0,15})"
    };
}

/// One method of a path that is served.
pub(crate) struct Endpoint {
    /// Its path, with the names of parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) method: Method,
    pub(crate) access: Access,
    /// Whether it is an operation of the document, and not a page for people.
    pub(crate) is_operation: bool,
}

/// The values that `document.json` refers to by name, beside the maximum length of each member of a plant.
fn values() -> [(&'static str, Value); 36] {
    [
        ("BATCH_BODY_MAX_BYTES", json!(BATCH_BODY_MAX_BYTES)),
        ("BATCH_MAX_WRITES", json!(BATCH_MAX_WRITES)),
        ("BODY_IDLE_SECONDS", json!(BODY_IDLE_DEADLINE.as_secs())),
        ("BODY_MAX_BYTES", json!(BODY_MAX_BYTES)),
        ("CHALLENGE", json!(INVALID_TOKEN_CHALLENGE)),
        ("CURSOR_PATTERN", json!(concat!("^", cursor_pattern!(), "$"))),
        ("ENTITY_TAGS_MAX", json!(ENTITY_TAGS_MAX)),
        ("ERRORS", json!(failures::description())),
        ("EVENTS_HEARTBEAT_SECONDS", json!(EVENTS_HEARTBEAT.as_secs())),
        ("EVENTS_WAIT_SECONDS", json!(EVENTS_WAIT_MAX.as_secs())),
        ("HEAD_LINE_MAX_BYTES", json!(HEAD_LINE_MAX_BYTES)),
        ("HEAD_MAX_BYTES", json!(HEAD_MAX_BYTES)),
        ("IDEMPOTENCY_KEY_MAX_CHARACTERS", json!(IDEMPOTENCY_KEY_MAX_CHARACTERS)),
        ("ID_TAKEN_MESSAGE", json!(Failure::from(ErrorNumber::IdTaken).error().message)),
        ("IDS_MAX", json!(IDS_MAX)),
        ("LARGE_ID", json!(LARGE_ID)),
        ("LAST_EVENT_ID_PATTERN", json!(concat!("^(", cursor_pattern!(), ")?$"))),
        ("LICENSE", json!(env!("CARGO_PKG_LICENSE"))),
        ("MORE_ENTITY_TAGS_MAX", json!(ENTITY_TAGS_MAX - 1)),
        ("PAGE_DEFAULT_CHANGES", json!(PAGE_DEFAULT_CHANGES)),
        ("PAGE_DEFAULT_EVENTS", json!(PAGE_DEFAULT_EVENTS)),
        ("PAGE_DEFAULT_PLANTS", json!(PAGE_DEFAULT_PLANTS)),
        ("PAGE_DEFAULT_TAGS", json!(PAGE_DEFAULT_TAGS)),
        ("PAGE_MAX_CHANGES", json!(PAGE_MAX_CHANGES)),
        ("PAGE_MAX_EVENTS", json!(PAGE_MAX_EVENTS)),
        ("PAGE_MAX_PLANTS", json!(PAGE_MAX_PLANTS)),
        ("PAGE_MAX_TAGS", json!(PAGE_MAX_TAGS)),
        ("PAGE_MAX_WORK", json!(PAGE_MAX_WORK)),
        ("PREFIX_PATTERN", json!(PREFIX_PATTERN)),
        ("REPORT_MAX_ERRORS", json!(REPORT_MAX_ERRORS)),
        ("REQUEST_ID_MAX_CHARACTERS", json!(REQUEST_ID_MAX_CHARACTERS)),
        ("REVISION_PATTERN", json!(REVISION_PATTERN)),
        ("ROW_MAX_BYTES", json!(ROW_MAX_BYTES)),
        ("START_PATTERN", json!(concat!("^(now|", cursor_pattern!(), ")$"))),
        ("TEXT_PATTERN", json!(TEXT_PATTERN)),
        ("TOKEN_NAME_MAX_CHARACTERS", json!(TOKEN_NAME_MAX_CHARACTERS)),
    ]
}

/// Failures whose message in an operation differs from the example in the table of errors.
fn examples(operation_id: &str) -> Vec<Failure> {
    match operation_id {
        "listPlants" => vec![wrong_limit(PAGE_MAX_PLANTS)],
        "listTags" => vec![wrong_limit(PAGE_MAX_TAGS)],
        "listPlantHistory" => vec![wrong_limit(PAGE_MAX_CHANGES)],
        "listEvents" => vec![wrong_limit(PAGE_MAX_EVENTS)],
        "batchPlants" => {
            vec![
                Failure::from(ErrorNumber::IdTaken).of_request(1),
                Failure::from(ErrorNumber::NoSuchPlant).of_request(1),
                Failure::from(ErrorNumber::PreconditionFailed).of_request(1),
                Failure::from(ErrorNumber::VersionGone).of_request(1),
                batch::read(br#"{"requests":[{"method":"GET","path":"/plants/7"}]}"#)
                    .expect_err("it is no write"),
                body_too_large(BATCH_BODY_MAX_BYTES),
            ]
        }
        "importPlants" => vec![
            not_whole(),
            rows::wrong_header("\"genus\" is unknown"),
            on_conflict("on_conflict=ask").expect_err("there is no such way"),
        ],
        "putPlant" => vec![json::read::<Plant>(b"{}").expect_err("it has no name")],
        "patchPlant" => {
            vec![json::read::<PlantPatch>(br#"{"tag":7}"#).expect_err("it is no text")]
        }
        _ => Vec::new(),
    }
}

/// The document of these endpoints: pretty-printed JSON that ends with a newline.
pub(crate) fn document(endpoints: impl Iterator<Item = Endpoint>) -> String {
    let mut document: Value = serde_json::from_str(TEMPLATE).expect("document.json is JSON");
    let mut names: Map<String, Value> =
        values().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (member, most) in MEMBERS.iter().zip(MAX_CHARACTERS) {
        names.insert(format!("{}_MAX_CHARACTERS", member.to_ascii_uppercase()), json!(most));
    }
    if let Some(Value::Object(fragments)) = remove(&mut document, "fragments") {
        names.extend(fragments);
    }
    fill(&mut document, &names);
    for endpoint in endpoints.filter(|endpoint| endpoint.is_operation) {
        let method = endpoint.method.as_str().to_ascii_lowercase();
        complete(&mut document["paths"][endpoint.path][method], &endpoint);
    }
    document["components"]["responses"] = failures::shared_answers().into();
    format!("{document:#}\n")
}

fn remove(object: &mut Value, member: &str) -> Option<Value> {
    object.as_object_mut()?.shift_remove(member)
}

/// Replaces names by their values, and joins descriptions that are in pieces.
fn fill(value: &mut Value, names: &Map<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "description"
                    && let Value::Array(pieces) = member
                {
                    *member = pieces.iter().filter_map(Value::as_str).collect::<String>().into();
                }
                fill(member, names);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| fill(element, names)),
        Value::String(text) => {
            let name = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
            if let Some(named) = name.and_then(|name| names.get(name)) {
                *value = named.clone();
                fill(value, names);
            } else if text.contains("{{") {
                // Only names of numbers appear within a text.
                for (name, number) in names {
                    *text = text.replace(&format!("{{{{{name}}}}}"), &number.to_string());
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Adds to an operation what follows from its route, and what all operations have in common.
fn complete(operation: &mut Value, endpoint: &Endpoint) {
    let Endpoint { path, method, access, .. } = endpoint;
    let id = operation["operationId"].as_str();
    let id = id.unwrap_or_else(|| panic!("document.json does not describe {method} {path}"));

    let mut examples = examples(id);
    let mut numbers = vec![ErrorNumber::WrongHeader, ErrorNumber::Internal];
    numbers.extend(remove(operation, "failures").iter().flat_map(failures::numbers));
    let needs = match access {
        Access::Open => None,
        Access::AnyToken => Some(String::from("Needs a token with any scope.")),
        Access::Scope(scope) => Some(format!("Needs a token with the scope `{scope}`.")),
    };
    if let Some(needs) = needs {
        let description = operation["description"].as_str().unwrap_or_default();
        operation["description"] = format!("{description} {needs}").into();
        numbers.extend([
            ErrorNumber::NoToken,
            ErrorNumber::InvalidToken,
            ErrorNumber::TooManyRequests,
        ]);
        if matches!(access, Access::Scope(_)) {
            numbers.push(ErrorNumber::InsufficientScope);
        }
    } else {
        operation["security"] = json!([]);
    }
    if path.contains("{id}") {
        examples.extend(read_id("id", "007").err());
    }
    if let Some(Value::Object(content)) = operation.pointer("/requestBody/content") {
        let media_types: Vec<&str> = content.keys().map(String::as_str).collect();
        let message = wrong_content_type(&media_types);
        examples.push(Failure::new(ErrorNumber::WrongContentType, message));
        numbers.extend([ErrorNumber::WrongContentType, ErrorNumber::RequestTimeout]);
    }

    if let Some(parameters) = operation["parameters"].as_array_mut() {
        parameters.push(json!({"$ref": "#/components/parameters/RequestId"}));
    }
    let answers = &mut operation["responses"];
    for (_, success) in answers.as_object_mut().into_iter().flatten() {
        let (field, reference) = failures::header(&failures::REQUEST_ID);
        success["headers"][field] = reference;
    }
    for (status, answer) in failures::answers(numbers, &examples) {
        answers[status.as_str()] = answer;
    }
}

#[cfg(test)]
mod tests {
    use plant_domain::check_tag_prefix;
    use regress::Regex;

    use super::*;

    #[test]
    fn the_patterns_accept_exactly_what_the_rules_accept_for_every_character() {
        let pattern = |pattern| Regex::with_flags(pattern, "u").expect("a regular expression");
        let (pattern, prefix_pattern) = (pattern(TEXT_PATTERN), pattern(PREFIX_PATTERN));
        let check = |text: String| {
            let matches = pattern.find(&text).is_some();
            let plant = Plant::new(text.clone(), None);
            assert_eq!(matches, plant.is_ok(), "{text:?}");
            let is_prefix = prefix_pattern.find(&text).is_some();
            assert_eq!(is_prefix, check_tag_prefix(&text).is_ok(), "{text:?}");
        };
        for character in '\0'..=char::MAX {
            check(character.to_string());
        }
        // Characters beyond these are neither controls nor white space, alone or not.
        for character in '\0'..='\u{ffff}' {
            check(format!("a{character}a"));
        }
    }

    #[test]
    fn each_name_in_the_template_has_a_value() {
        assert!(!document(std::iter::empty()).contains("{{"));
    }
}
