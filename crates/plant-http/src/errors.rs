//! The one place that turns what went wrong into an answer.
//!
//! The message for the client says what to do; what only the operator may see goes to the log.

use std::fmt;

use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{Response, StatusCode, body::BoxBody};
use actix_web::{HttpResponse, ResponseError};
use plant_domain::{Error, Violations, error_number};
use plant_store::{Precondition, StoreError, StoreFailure};

/// After how many seconds a client may try again that met a busy or a failed store, or whose token is over
/// its rate: at one request a second, the slowest that there is, the next one may be made by then.
const RETRY_AFTER_SECONDS: u16 = 1;

/// Each cause of a failure has one number and one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum ErrorNumber {
    /// The body is not JSON to its end.
    NotJson = 1001,
    /// The content type is not one that the operation takes.
    WrongContentType = 1002,
    BodyTooLarge = 1003,
    WrongShape = error_number::WRONG_SHAPE,
    RuleBroken = error_number::RULE_BROKEN,
    WrongParameter = 1006,
    WrongHeader = 1007,
    /// An export over HTTP/1.0, which could be cut without a sign of it.
    OldVersion = 1008,
    NoToken = 2001,
    InvalidToken = 2002,
    InsufficientScope = 2003,
    TooManyRequests = 2004,
    IdTaken = error_number::ID_TAKEN,
    NoSuchPlant = error_number::NO_SUCH_PLANT,
    PreconditionFailed = error_number::PRECONDITION_FAILED,
    NoSuchPath = 4004,
    NoSuchMethod = 4005,
    Internal = 5001,
    /// The outcome of a write is unknown, unless the message says that the disk is full.
    StoreFailed = 5002,
    /// Nothing was written.
    Busy = 5003,
    RequestTimeout = 5004,
    /// The database refuses this write, and will refuse it again; nothing was written.
    Refused = 5005,
}

impl ErrorNumber {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::NotJson
            | Self::WrongContentType
            | Self::BodyTooLarge
            | Self::WrongShape
            | Self::RuleBroken
            | Self::WrongParameter
            | Self::WrongHeader
            | Self::IdTaken => StatusCode::BAD_REQUEST,
            Self::OldVersion => StatusCode::UPGRADE_REQUIRED,
            Self::NoToken | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::InsufficientScope => StatusCode::FORBIDDEN,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::NoSuchPlant | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Internal | Self::Refused => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreFailed | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Failure {
    number: ErrorNumber,
    message: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<StoreFailure>,
}

/// What the log says of a failed request beyond its status; it travels in the response's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) number: ErrorNumber,
    pub(crate) cause: Option<StoreFailure>,
}

impl Failure {
    /// A failure with a message that says what to do about it.
    pub(crate) fn new(number: ErrorNumber, message: impl Into<String>) -> Self {
        let mut headers = Vec::new();
        let is_for_now = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS]
            .contains(&number.status());
        if is_for_now {
            headers.push((header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS)));
        }
        Self { number, message: message.into(), headers, cause: None }
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) const fn number(&self) -> ErrorNumber {
        self.number
    }

    /// The Error resource (specification, section "Error").
    pub(crate) fn error(&self) -> Error {
        Error { error: self.number as i32, message: self.message.clone() }
    }

    /// The same failure, with more to say about it.
    pub(crate) fn and_say(mut self, more: &str) -> Self {
        self.message = format!("{}; {more}", self.message);
        self
    }

    /// A 500 says nothing but that.
    pub(crate) fn internal() -> Self {
        Self::new(
            ErrorNumber::Internal,
            "an internal error; the server's log tells more under this answer's X-Request-Id",
        )
    }

    pub(crate) fn store_failed() -> Self {
        Self::new(
            ErrorNumber::StoreFailed,
            "the store failed; where this was a write its outcome is unknown, so read before sending it \
             again",
        )
    }

    pub(crate) fn refused() -> Self {
        Self::new(
            ErrorNumber::Refused,
            "the server's database refuses this plant, and nothing was written; do not send it again, and tell those \
             who run the server: the log has the database's reason under this answer's X-Request-Id",
        )
    }

    pub(crate) fn unavailable() -> Self {
        Self::new(
            ErrorNumber::Busy,
            "the server's database does not answer or takes no writes, and nothing was written; try again later",
        )
    }

    pub(crate) fn to_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.number.status());
        for (name, value) in &self.headers {
            response.insert_header((name.clone(), value.clone()));
        }
        if self.number == ErrorNumber::RequestTimeout {
            response.force_close();
        }
        let mut response = response.json(self.error());
        let failed = Failed { number: self.number, cause: self.cause.clone() };
        response.extensions_mut().insert(failed);
        response
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (error {})", self.message, self.number as i32)
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        self.number.status()
    }

    fn error_response(&self) -> HttpResponse {
        self.to_response()
    }
}

impl From<Failure> for Response<BoxBody> {
    fn from(failure: Failure) -> Self {
        failure.to_response().into()
    }
}

impl From<Violations> for Failure {
    fn from(violations: Violations) -> Self {
        Self::new(ErrorNumber::RuleBroken, violations.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::IdTaken(id) => Self::new(
                ErrorNumber::IdTaken,
                format!("a plant with id {id} exists already; choose another id"),
            ),
            StoreError::NoSuchPlant(id) => {
                Self::new(ErrorNumber::NoSuchPlant, format!("there is no plant with id {id}"))
            }
            StoreError::PreconditionFailed(precondition) => Self::new(
                ErrorNumber::PreconditionFailed,
                match precondition {
                    Precondition::IfMatch => {
                        "the plant is not in the state that If-Match asks for, and nothing \
                         changed; read it again"
                    }
                    Precondition::IfNoneMatch => {
                        "the plant is in a state that If-None-Match rules out, and nothing \
                         changed; read it"
                    }
                },
            ),
            StoreError::Closed => Self::new(
                ErrorNumber::Busy,
                "the server is shutting down and nothing was written; send it to another one",
            ),
            StoreError::Busy => Self::new(
                ErrorNumber::Busy,
                "the store is too busy and nothing was written; try again later",
            ),
            StoreError::DiskFull => Self::new(
                ErrorNumber::StoreFailed,
                "the disk of the store is full and nothing was written; make room on it, then send it again",
            ),
            StoreError::Unavailable(cause) => Self { cause: Some(cause), ..Self::unavailable() },
            StoreError::Refused(cause) => Self { cause: Some(cause), ..Self::refused() },
            StoreError::Failed(cause) => Self { cause: Some(cause), ..Self::store_failed() },
        }
    }
}
