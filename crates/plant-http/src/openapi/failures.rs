//! The numbers of errors: what each means, and how an answer with it looks.

use actix_http::StatusCode;
use plant_domain::{NewPlant, PlantId};
use plant_store::{Precondition, StoreError};
use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{Ref, RefOr, Response};

use crate::access::gate;
use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::{self, JSON};
use crate::extract::parameters;
use crate::extract::wire::read_new_plant;
use crate::handlers::export;
use crate::server::http1::framing;

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
    numbers.sort_unstable_by_key(|number| (number.status(), *number as i32));
    numbers.dedup();
    numbers
        .chunk_by(|one, next| one.status() == next.status())
        .map(|numbers| (numbers[0].status(), answer(numbers, examples)))
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
        .map(|number| format!("- `{}`: {}", *number as i32, meaning(*number)))
        .collect();
    let examples = numbers.iter().map(|number| {
        let own = examples.iter().find(|failure| failure.number() == *number);
        let error = own.map_or_else(|| example(*number).error(), Failure::error);
        let example = ExampleBuilder::new().summary(meaning(*number)).value(Some(json!(error)));
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
    match number {
        // Of the wrong headers, a second `Authorization` has one (RFC 6750, section 3.1).
        ErrorNumber::WrongHeader
        | ErrorNumber::NoToken
        | ErrorNumber::InvalidToken
        | ErrorNumber::InsufficientScope => Some(AnswerHeader::Challenge),
        ErrorNumber::TooManyRequests | ErrorNumber::StoreFailed | ErrorNumber::Busy => {
            Some(AnswerHeader::RetryAfter)
        }
        ErrorNumber::OldVersion => Some(AnswerHeader::Upgrade),
        _ => None,
    }
}

/// What went wrong.
fn meaning(number: ErrorNumber) -> &'static str {
    match number {
        ErrorNumber::NotJson => "the body is not JSON to its end (RFC 8259), or not UTF-8",
        ErrorNumber::WrongContentType => {
            "the content type is not one that the operation takes, or the body is compressed"
        }
        ErrorNumber::BodyTooLarge => "the body is too large",
        ErrorNumber::WrongShape => {
            "the body is no object, or a member is missing, appears twice, or has the wrong type (an `id` \
             outside int64 too)"
        }
        ErrorNumber::RuleBroken => {
            "a member breaks a rule, or an `id` in the body is not that of the path"
        }
        ErrorNumber::WrongParameter => {
            "a path or query parameter is wrong, unknown, or appears twice"
        }
        ErrorNumber::WrongHeader => {
            "a header is wrong: `Idempotency-Key`, `If-Match`, `If-None-Match`, `Host`, `Upgrade: websocket`, \
             or two `Authorization` headers"
        }
        ErrorNumber::OldVersion => {
            "an export was asked for over HTTP/1.0, where an answer that is cut off looks whole"
        }
        ErrorNumber::NoToken => "there is no token",
        ErrorNumber::InvalidToken => "the token is unknown, expired, revoked or mistyped",
        ErrorNumber::InsufficientScope => "the token may only read",
        ErrorNumber::TooManyRequests => "the token is over its rate; nothing was done",
        ErrorNumber::IdTaken => "the id is taken; nothing changed",
        ErrorNumber::NoSuchPlant => "there is no such plant",
        ErrorNumber::PreconditionFailed => "a precondition failed; nothing changed",
        ErrorNumber::NoSuchPath | ErrorNumber::NoSuchMethod => of_no_operation(number),
        ErrorNumber::Internal => "an internal error; the outcome of a write is unknown",
        ErrorNumber::StoreFailed => {
            "the store failed and the outcome of a write is unknown, or its disk is full and nothing was written"
        }
        ErrorNumber::Busy => {
            "too busy, the database does not answer or takes no writes, or the server is shutting down; nothing was \
             written"
        }
        ErrorNumber::Refused => {
            "the server's database refuses this plant, and will refuse it again; nothing was written"
        }
        ErrorNumber::RequestTimeout => {
            "the request did not arrive in time; nothing was done, but for the rows of an import that had come"
        }
    }
}

/// A failure with this number, as the server tells it where the operation has no words of its own.
fn example(number: ErrorNumber) -> Failure {
    let plant = PlantId::from(7);
    let refusal = |body: &str| {
        let read = read_new_plant(body.as_bytes());
        read.and_then(|unchecked| Ok(NewPlant::try_from(unchecked)?)).expect_err("it is wrong")
    };
    match number {
        ErrorNumber::NotJson => refusal("{\"id\":7,"),
        ErrorNumber::WrongContentType => body::wrong_media_type(&[JSON]),
        ErrorNumber::BodyTooLarge => body::too_large(),
        ErrorNumber::WrongShape => refusal(r#"{"name":"Rosa canina"}"#),
        ErrorNumber::RuleBroken => refusal(r#"{"id":7,"name":""}"#),
        ErrorNumber::WrongParameter => parameters::needless_query(),
        ErrorNumber::WrongHeader => framing::wrong_host(),
        ErrorNumber::OldVersion => export::old_version(),
        ErrorNumber::NoToken => gate::no_token(),
        ErrorNumber::InvalidToken => gate::invalid_token(&[]),
        ErrorNumber::InsufficientScope => gate::insufficient_scope(),
        ErrorNumber::TooManyRequests => gate::too_many_requests(),
        ErrorNumber::IdTaken => StoreError::IdTaken(plant).into(),
        ErrorNumber::NoSuchPlant => StoreError::NoSuchPlant(plant).into(),
        ErrorNumber::PreconditionFailed => {
            StoreError::PreconditionFailed(Precondition::IfMatch).into()
        }
        ErrorNumber::NoSuchPath | ErrorNumber::NoSuchMethod => of_no_operation(number),
        ErrorNumber::Internal => Failure::internal(),
        ErrorNumber::StoreFailed => Failure::store_failed(),
        ErrorNumber::Busy => StoreError::Busy.into(),
        ErrorNumber::Refused => Failure::refused(),
        ErrorNumber::RequestTimeout => body::did_not_arrive(body::BODY_DEADLINE),
    }
}

/// What is answered where there is no operation is told in the description of the whole document.
fn of_no_operation(number: ErrorNumber) -> ! {
    unreachable!("no operation answers {number:?}")
}
