//! The answers with errors: the meaning of each number, and an example.

use actix_http::StatusCode;
use serde_json::{Map, Value, json};

use crate::errors::{ErrorHeader, ErrorNumber, ErrorRow, Failure};
use crate::extract::media_type::JSON;

/// A header of answers: its name in HTTP, and its name in the document.
type AnswerHeader = (&'static str, &'static str);

pub(super) const REQUEST_ID: AnswerHeader = ("X-Request-Id", "RequestId");
const CHALLENGE: AnswerHeader = ("WWW-Authenticate", "Challenge");
const RETRY_AFTER: AnswerHeader = ("Retry-After", "RetryAfter");
const UPGRADE: AnswerHeader = ("Upgrade", "Upgrade");

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

/// A header of an answer: its name, and a reference to its description.
pub(super) fn header((field, name): &AnswerHeader) -> (String, Value) {
    ((*field).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))
}

/// The numbers in this array.
pub(super) fn numbers(array: &Value) -> Vec<ErrorNumber> {
    let known = |number: &Value| {
        let known = ErrorNumber::ALL.iter().find(|known| number == &json!(**known as i32));
        *known.unwrap_or_else(|| panic!("document.json has {number}, which is no error"))
    };
    array.as_array().into_iter().flatten().map(known).collect()
}

/// Each number with its meaning, and what a client can do about it.
pub(super) fn description() -> String {
    let lines = ErrorNumber::ALL.iter().map(|number| {
        let ErrorRow { meaning, advice, .. } = number.row();
        format!("- `{}`: {meaning}. What to do: {advice}.", *number as i32)
    });
    format!("What went wrong.\n\n{}", lines.collect::<Vec<_>>().join("\n"))
}

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
        "headers": Map::from_iter(answer_headers.iter().chain([&REQUEST_ID]).map(header)),
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/Error"}, "examples": examples},
        },
    })
}
