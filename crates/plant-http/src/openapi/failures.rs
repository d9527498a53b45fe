//! The answers with errors: the meaning of each number, and an example.

use actix_http::StatusCode;
use serde_json::{Map, Value, json};

use crate::errors::{ErrorHeader, ErrorNumber, Failure};
use crate::extract::media_type::JSON;

use super::components::{CHALLENGE, RETRY_AFTER, UPGRADE, headers, schema};

/// Answers that many operations share, each with its name in the document.
const SHARED: [(&str, &[ErrorNumber]); 7] = [
    ("InsufficientScope", &[ErrorNumber::InsufficientScope]),
    ("InternalError", &[ErrorNumber::Internal]),
    ("InternalErrorOrRefusal", &[ErrorNumber::Internal, ErrorNumber::Refused]),
    ("NoValidToken", &[ErrorNumber::NoToken, ErrorNumber::InvalidToken]),
    ("RequestTimeout", &[ErrorNumber::RequestTimeout]),
    ("TooManyRequests", &[ErrorNumber::TooManyRequests]),
    ("Unavailable", &[ErrorNumber::StoreFailed, ErrorNumber::Busy]),
];

/// One answer for each status of these numbers, in the order of the statuses. A number has its example from `examples`
/// if there is one, else from the table of errors.
pub(super) fn answers(
    mut numbers: Vec<ErrorNumber>,
    examples: &[Failure],
) -> Vec<(StatusCode, Value)> {
    numbers.sort_unstable_by_key(|number| (number.row().status, *number as i32));
    numbers.dedup();
    numbers
        .chunk_by(|one, next| one.row().status == next.row().status)
        .map(|numbers| {
            let shared = SHARED.iter().find(|(_, shared)| *shared == numbers);
            let answer = match shared {
                Some((name, _)) => json!({"$ref": format!("#/components/responses/{name}")}),
                None => describe(numbers, examples),
            };
            (numbers[0].row().status, answer)
        })
        .collect()
}

pub(super) fn shared_answers() -> Map<String, Value> {
    SHARED.iter().map(|(name, numbers)| ((*name).to_owned(), describe(numbers, &[]))).collect()
}

/// An answer with one of these numbers, which all have the same status.
fn describe(numbers: &[ErrorNumber], own_examples: &[Failure]) -> Value {
    let mut lines = Vec::new();
    let mut examples = Map::new();
    let mut answer_headers = Vec::new();
    for number in numbers {
        let row = number.row();
        let own = own_examples.iter().find(|failure| failure.number() == *number);
        let error = own.map_or_else(|| Failure::from(*number).error(), Failure::error);
        lines.push(format!("- `{}`: {}", error.error, row.meaning));
        let example = json!({"summary": row.meaning, "value": error});
        examples.insert(error.error.to_string(), example);
        answer_headers.extend(match row.header {
            ErrorHeader::MayChallenge | ErrorHeader::Challenge(_) => Some(CHALLENGE),
            ErrorHeader::RetryAfter => Some(RETRY_AFTER),
            ErrorHeader::Upgrade => Some(UPGRADE),
            // A method that a path does not have is no operation.
            ErrorHeader::None | ErrorHeader::Allow => None,
        });
    }
    json!({
        "description": lines.join("\n"),
        "headers": headers(&answer_headers),
        "content": {JSON: {"schema": schema("Error"), "examples": examples}},
    })
}
