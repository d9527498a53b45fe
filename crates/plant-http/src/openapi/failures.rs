//! The numbers of errors: what each means, and how an answer with it looks.

use actix_http::StatusCode;
use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{Ref, RefOr, Response};

use crate::errors::{ErrorHeader, ErrorNumber, Failure};
use crate::extract::media_type::JSON;

use super::headers::AnswerHeader;
use super::schemas::Shape;

/// Answers that many operations have in common, each with the name that it has in the document.
const SHARED: [(&str, &[ErrorNumber]); 7] = [
    ("NoValidToken", &[ErrorNumber::NoToken, ErrorNumber::InvalidToken]),
    ("InsufficientScope", &[ErrorNumber::InsufficientScope]),
    ("RequestTimeout", &[ErrorNumber::RequestTimeout]),
    ("TooManyRequests", &[ErrorNumber::TooManyRequests]),
    ("InternalError", &[ErrorNumber::Internal]),
    ("InternalErrorOrRefusal", &[ErrorNumber::Internal, ErrorNumber::Refused]),
    ("Unavailable", &[ErrorNumber::StoreFailed, ErrorNumber::Busy]),
];

/// The answers with these numbers, each with its status, in the order of both. Of those that an operation tells in
/// its own words, `examples` has one.
pub(super) fn answers(
    mut numbers: Vec<ErrorNumber>,
    examples: &[Failure],
) -> Vec<(StatusCode, RefOr<Response>)> {
    numbers.sort_unstable_by_key(|number| (number.row().status, *number as i32));
    numbers.dedup();
    numbers
        .chunk_by(|one, next| one.row().status == next.row().status)
        .map(|numbers| (numbers[0].row().status, answer(numbers, examples)))
        .collect()
}

/// The answers that operations have in common.
pub(super) fn shared_answers() -> impl Iterator<Item = (&'static str, Response)> {
    SHARED.into_iter().map(|(name, numbers)| (name, describe(numbers, &[])))
}

fn answer(numbers: &[ErrorNumber], examples: &[Failure]) -> RefOr<Response> {
    match SHARED.iter().find(|(_, shared)| *shared == numbers) {
        Some((name, _)) => Ref::from_response_name(*name).into(),
        None => describe(numbers, examples).into(),
    }
}

/// One answer with one of these numbers, which have the same status.
fn describe(numbers: &[ErrorNumber], examples: &[Failure]) -> Response {
    let lines: Vec<String> = numbers
        .iter()
        .map(|number| format!("- `{}`: {}", *number as i32, number.row().meaning))
        .collect();
    let examples = numbers.iter().map(|number| {
        let own = examples.iter().find(|failure| failure.number() == *number);
        let error = own.map_or_else(|| Failure::from(*number).error(), Failure::error);
        let example = ExampleBuilder::new().summary(number.row().meaning).value(Some(json!(error)));
        ((*number as i32).to_string(), example)
    });
    let content =
        ContentBuilder::new().schema(Some(Shape::Error.reference())).examples_from_iter(examples);
    let mut response = ResponseBuilder::new()
        .description(lines.join("\n"))
        .header_ref(AnswerHeader::RequestId.field_name(), AnswerHeader::RequestId.reference())
        .content(JSON, content.build());
    for header in numbers.iter().filter_map(|number| header(*number)) {
        response = response.header_ref(header.field_name(), header.reference());
    }
    response.build()
}

/// The header that an answer with this number has, or may have.
fn header(number: ErrorNumber) -> Option<AnswerHeader> {
    match number.row().header {
        ErrorHeader::MayChallenge | ErrorHeader::Challenge(_) => Some(AnswerHeader::Challenge),
        ErrorHeader::RetryAfter => Some(AnswerHeader::RetryAfter),
        ErrorHeader::Upgrade => Some(AnswerHeader::Upgrade),
        // What has `Allow` is no operation.
        ErrorHeader::None | ErrorHeader::Allow => None,
    }
}
