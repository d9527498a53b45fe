//! The answers that report errors.

use std::fmt;

use actix_http::StatusCode;
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use plant_domain::{Error, Violations};
use plant_store::{Precondition, StoreError, StoreFailure};

use crate::access::token_record::Scope;
use crate::errors::table::{
    self, ErrorHeader, ErrorNumber, INVALID_REQUEST_CHALLENGE, id_taken, no_backups, no_such_plant,
    version_gone,
};

/// The seconds in `Retry-After`. Even at the slowest rate of a token, one request a second, the next one is allowed by
/// then.
const RETRY_AFTER_SECONDS: &str = "1";

/// Why a request failed. The answer is made from this, and carries it for the log.
#[derive(Debug)]
pub(crate) struct Failure {
    number: ErrorNumber,
    message: String,
    /// A header beyond the one in the table.
    header: Option<(HeaderName, HeaderValue)>,
    cause: Option<StoreFailure>,
}

impl Failure {
    /// A failure with its own message: what is wrong, then what to do.
    pub(crate) fn new(number: ErrorNumber, message: impl Into<String>) -> Self {
        Self { number, message: message.into(), header: None, cause: None }
    }

    /// A method that the path does not have.
    pub(crate) fn no_such_method(allow: &str) -> Self {
        let message = format!("there is no such method on this path; it takes {allow}");
        let allow = HeaderValue::from_str(allow).ok().map(|allow| (header::ALLOW, allow));
        Self { header: allow, ..Self::new(ErrorNumber::NoSuchMethod, message) }
    }

    /// A token whose scope does not include the needed one.
    pub(crate) fn insufficient_scope(needed: Scope) -> Self {
        Self::new(ErrorNumber::InsufficientScope, table::insufficient_scope(needed))
    }

    /// Two or more `Authorization` headers.
    pub(crate) fn several_tokens() -> Self {
        let challenge = HeaderValue::from_static(INVALID_REQUEST_CHALLENGE);
        let message = "the Authorization header appears more than once; send one token";
        Self {
            header: Some((header::WWW_AUTHENTICATE, challenge)),
            ..Self::new(ErrorNumber::WrongHeader, message)
        }
    }

    pub(crate) const fn number(&self) -> ErrorNumber {
        self.number
    }

    /// The cause for the log, which clients must not see.
    pub(crate) const fn cause(&self) -> Option<&StoreFailure> {
        self.cause.as_ref()
    }

    /// The Error resource (specification, section "Error").
    pub(crate) fn error(&self) -> Error {
        Error { error: self.number as i32, message: self.message.clone() }
    }

    /// Names the request of a batch that failed, counted from 0.
    pub(crate) fn of_request(mut self, index: usize) -> Self {
        self.message = format!("requests[{index}]: {}", self.message);
        self
    }

    /// Appends a clause to the message.
    pub(crate) fn and_say(mut self, more: &str) -> Self {
        self.message = format!("{}; {more}", self.message);
        self
    }

    /// An error of the program itself.
    pub(crate) fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::from(ErrorNumber::Internal).caused_by(StoreFailure::new(cause))
    }

    fn caused_by(self, cause: StoreFailure) -> Self {
        Self { cause: Some(cause), ..self }
    }
}

/// A failure with the message in the table.
impl From<ErrorNumber> for Failure {
    fn from(number: ErrorNumber) -> Self {
        Self::new(number, (number.row().message)())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (error {})", self.message, self.number as i32)
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        self.number.row().status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(header) = &self.header {
            response.insert_header(header.clone());
        }
        match self.number.row().header {
            ErrorHeader::Challenge(challenge) => {
                response.insert_header((header::WWW_AUTHENTICATE, challenge));
            }
            ErrorHeader::RetryAfter => {
                response.insert_header((header::RETRY_AFTER, RETRY_AFTER_SECONDS));
            }
            ErrorHeader::Upgrade => {
                response.insert_header((header::UPGRADE, "HTTP/1.1"));
            }
            ErrorHeader::None | ErrorHeader::MayChallenge | ErrorHeader::Allow => {}
        }
        if self.number == ErrorNumber::RequestTimeout {
            response.force_close();
        }
        response.json(self.error())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self { error: failure.number as i32, message: failure.message }
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
            StoreError::IdTaken(id) => Self::new(ErrorNumber::IdTaken, id_taken(id)),
            StoreError::NoSuchPlant(id) => Self::new(ErrorNumber::NoSuchPlant, no_such_plant(id)),
            StoreError::PreconditionFailed(Precondition::IfMatch) => {
                ErrorNumber::PreconditionFailed.into()
            }
            StoreError::PreconditionFailed(Precondition::IfNoneMatch) => Self::new(
                ErrorNumber::PreconditionFailed,
                "the plant is in a state that If-None-Match excludes, and nothing changed; read it",
            ),
            StoreError::EventsGone => ErrorNumber::EventsGone.into(),
            StoreError::VersionGone(id, revision) => {
                Self::new(ErrorNumber::VersionGone, version_gone(revision, id))
            }
            StoreError::Closed => Self::new(
                ErrorNumber::Busy,
                "the server is shutting down and nothing was written; send the request to another server",
            ),
            StoreError::Busy => ErrorNumber::Busy.into(),
            StoreError::NoBackups(advice) => Self::new(ErrorNumber::NoBackups, no_backups(advice)),
            StoreError::BackupRunning => Self::new(
                ErrorNumber::Busy,
                "another backup is being made; wait until it has ended, then send the request again",
            ),
            StoreError::NotArchived(cause) => Self::new(
                ErrorNumber::Busy,
                "the server's archive takes no changes; its operator finds the reason in the log",
            )
            .caused_by(cause),
            StoreError::DiskFull(shortage) => Self::new(
                ErrorNumber::StoreFailed,
                format!(
                    "the disk of the store is full ({shortage}) and nothing was written; make room on it, then send it again"
                ),
            ),
            StoreError::Unavailable(cause) => Self::new(
                ErrorNumber::Busy,
                "the server's database does not answer or takes no writes, and nothing was written; try again later",
            )
            .caused_by(cause),
            StoreError::Refused(cause) => Self::from(ErrorNumber::Refused).caused_by(cause),
            StoreError::Failed(cause) => Self::from(ErrorNumber::StoreFailed).caused_by(cause),
        }
    }
}
