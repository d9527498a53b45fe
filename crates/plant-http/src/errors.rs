//! Everything that can go wrong with a request, in one table, and the answer that tells of it.
//!
//! The answers, the OpenAPI document and the test of the guide read the same table. To add an error is to add a row here,
//! and its name among the failures of the operations that may have it (`openapi/operations.rs`).
//! A message says what is wrong, then what to do. What only the operator may see goes to the log.

use std::fmt;
use std::time::Duration;

use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{Response, StatusCode, body::BoxBody};
use actix_web::{HttpResponse, ResponseError};
use plant_domain::{Error, NAME_MAX_CHARACTERS, Violations, error_number};
use plant_store::{Precondition, StoreError, StoreFailure};

use crate::limits::{BODY_DEADLINE, BODY_MAX_BYTES};

/// After how many seconds a client may try again that met a busy or a failed store, or whose token is over its rate: at
/// one request a second, the slowest rate, the next one may be made by then.
const RETRY_AFTER_SECONDS: &str = "1";

/// The challenges of RFC 6750, section 3. Without a token there is no error code.
const NO_TOKEN_CHALLENGE: &str = r#"Bearer realm="plant-store""#;
pub(crate) const INVALID_TOKEN_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="invalid_token""#;
const INSUFFICIENT_SCOPE_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="insufficient_scope""#;
const INVALID_REQUEST_CHALLENGE: &str = r#"Bearer realm="plant-store", error="invalid_request""#;

/// What is known of an error.
pub(crate) struct ErrorRow {
    pub(crate) status: StatusCode,
    pub(crate) header: ErrorHeader,
    /// When it happens.
    pub(crate) meaning: &'static str,
    /// What a client can do about it.
    pub(crate) advice: &'static str,
    /// The message, or an example where each cause has its own.
    pub(crate) message: fn() -> String,
}

/// A header of an answer that tells of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorHeader {
    None,
    /// Some answers have one: a second `Authorization` header (RFC 6750, section 3.1).
    MayChallenge,
    /// `WWW-Authenticate`.
    Challenge(&'static str),
    RetryAfter,
    /// The version of HTTP that the request needs (RFC 9110, section 15.5.22). actix-http adds `Connection`.
    Upgrade,
    /// `Allow`, which differs from path to path.
    Allow,
}

/// Makes the enum and the table of the rows below. A row is: name, number, status, header; when it happens; what to do
/// about it; its message.
macro_rules! errors {
    ($($name:ident = $number:expr, $status:ident, $header:expr; $meaning:literal; $advice:literal; $message:expr;)+) => {
        /// The number of an error. Each cause has one number, and each number one status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub(crate) enum ErrorNumber {
            $($name = $number,)+
        }

        impl ErrorNumber {
            /// Every number, in the order of the table.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];

            /// What the table has of it.
            pub(crate) const fn row(self) -> &'static ErrorRow {
                match self {
                    $(Self::$name => &ErrorRow {
                        status: StatusCode::$status,
                        header: $header,
                        meaning: $meaning,
                        advice: $advice,
                        message: $message,
                    },)+
                }
            }
        }
    };
}

use ErrorHeader::{Allow, Challenge, MayChallenge, None as NoHeader, RetryAfter, Upgrade};

errors! {
    NotJson = 1001, BAD_REQUEST, NoHeader;
        "the body is not JSON to its end (RFC 8259), or not UTF-8";
        "send JSON; see that the body is whole, and has no byte order mark and no half of a surrogate pair in a name or a tag";
        || "this must be JSON (RFC 8259) in UTF-8: EOF while parsing a value at column 8".to_owned();
    WrongContentType = 1002, BAD_REQUEST, NoHeader;
        "the content type is not one that the operation takes, or the body is compressed";
        "send the `Content-Type` that the message names, once, and no `Content-Encoding`";
        || wrong_content_type(&["application/json"]);
    BodyTooLarge = 1003, BAD_REQUEST, NoHeader;
        "the body is too large";
        "send less; for many plants, import";
        || format!("the body is too large; it may have {BODY_MAX_BYTES} bytes");
    WrongShape = error_number::WRONG_SHAPE, BAD_REQUEST, NoHeader;
        "the body is no object, or a member is missing, appears twice, or has the wrong type (an `id` outside int64 too)";
        "mend the members that the message names";
        || "id is missing".to_owned();
    RuleBroken = error_number::RULE_BROKEN, BAD_REQUEST, NoHeader;
        "a member breaks a rule, or an `id` in the body is not that of the path";
        "mend the members that the message names; show it to whoever typed them";
        || format!("name must have 1 to {NAME_MAX_CHARACTERS} characters");
    WrongParameter = 1006, BAD_REQUEST, NoHeader;
        "a path or query parameter is wrong, unknown, or appears twice";
        "mend the URL: ids in plain decimal form, values percent-encoded";
        || "this operation takes no query parameters; leave out what follows the `?`".to_owned();
    WrongHeader = 1007, BAD_REQUEST, MayChallenge;
        "a header is wrong: `Idempotency-Key`, `If-Match`, `If-None-Match`, `Host`, `Upgrade: websocket`, or two `Authorization` headers";
        "mend the header that the message names; send an `ETag` back as it came";
        || "the Host header must be a host and maybe a port, or empty".to_owned();
    OldVersion = 1008, UPGRADE_REQUIRED, Upgrade;
        "an export was asked for over HTTP/1.0, where an answer that is cut off looks whole";
        "use HTTP/1.1; where a proxy speaks HTTP/1.0 to the server, let it speak HTTP/1.1 (`proxy_http_version 1.1` in nginx)";
        || "an export needs HTTP/1.1, because over HTTP/1.0 an answer that is cut off looks whole; where a proxy \
            speaks HTTP/1.0 to the server, let it speak HTTP/1.1 (in nginx: proxy_http_version 1.1)".to_owned();
    NoToken = 2001, UNAUTHORIZED, Challenge(NO_TOKEN_CHALLENGE);
        "there is no token";
        "send `Authorization: Bearer TOKEN`";
        || "a token is needed; send the header `Authorization: Bearer TOKEN`".to_owned();
    InvalidToken = 2002, UNAUTHORIZED, Challenge(INVALID_TOKEN_CHALLENGE);
        "the token is unknown, expired, revoked or mistyped";
        "read the token anew from where it is kept, once; then ask whoever runs the server for another. Rows of an import that had come stay";
        || "the token is unknown, expired or revoked; get a new one".to_owned();
    InsufficientScope = 2003, FORBIDDEN, Challenge(INSUFFICIENT_SCOPE_CHALLENGE);
        "the token may only read";
        "use a token with the scope `write`";
        || "the token may only read; use one with the scope `write`".to_owned();
    TooManyRequests = 2004, TOO_MANY_REQUESTS, RetryAfter;
        "the token is over its rate; nothing was done";
        "wait as long as `Retry-After` says, send it again, and then go slower";
        || "the token has made too many requests; go on after the seconds of Retry-After, and then slower".to_owned();
    IdTaken = error_number::ID_TAKEN, BAD_REQUEST, NoHeader;
        "the id is taken; nothing changed";
        "choose another id; where your own create may have come through, read the plant; with an `Idempotency-Key` this does not come up";
        || id_taken(EXAMPLE_ID);
    NoSuchPlant = error_number::NO_SUCH_PLANT, NOT_FOUND, NoHeader;
        "there is no such plant";
        "take it for gone; after a `DELETE` that was sent again, for done";
        || no_such_plant(EXAMPLE_ID);
    PreconditionFailed = error_number::PRECONDITION_FAILED, PRECONDITION_FAILED, NoHeader;
        "a precondition failed; nothing changed";
        "read the plant, decide anew, send it with the new `ETag`; where it was sent again, the first one may have been done";
        || "the plant is not in the state that If-Match asks for, and nothing changed; read it again".to_owned();
    NoSuchPath = 4004, NOT_FOUND, NoHeader;
        "there is no such path";
        "mend the URL: no slash at its end, nothing before `/plants` but the base address";
        || no_such_path("/plants");
    NoSuchMethod = 4005, METHOD_NOT_ALLOWED, Allow;
        "there is no such method on this path";
        "use one of those that `Allow` names";
        || "there is no such method on this path; it takes GET, HEAD, OPTIONS".to_owned();
    Internal = 5001, INTERNAL_SERVER_ERROR, NoHeader;
        "an internal error; the outcome of a write is unknown";
        "read before you send it again; report it with the `X-Request-Id`";
        || "an internal error; the server's log tells more under this answer's X-Request-Id".to_owned();
    StoreFailed = 5002, SERVICE_UNAVAILABLE, RetryAfter;
        "the store failed and the outcome of a write is unknown, or its disk is full and nothing was written";
        "wait as long as `Retry-After` says, and read before you send it again";
        || "the store failed; where this was a write its outcome is unknown, so read before sending it again".to_owned();
    Busy = 5003, SERVICE_UNAVAILABLE, RetryAfter;
        "too busy, the database does not answer or takes no writes, or the server is shutting down; nothing was written";
        "wait as long as `Retry-After` says, and send it again";
        || "the store is too busy and nothing was written; try again later".to_owned();
    RequestTimeout = 5004, REQUEST_TIMEOUT, NoHeader;
        "the request did not arrive in time; nothing was done, but for the rows of an import that had come";
        "send it again, on a new connection; where it happens often, send less at once";
        || late_body(BODY_DEADLINE);
    Refused = 5005, INTERNAL_SERVER_ERROR, NoHeader;
        "the server's database refuses this plant, and will refuse it again; nothing was written";
        "do not send it again; tell those who run the server, with the `X-Request-Id`: the log has the database's reason under it";
        || "the server's database refuses this plant, and nothing was written; do not send it again, and tell those \
            who run the server: the log has the database's reason under this answer's X-Request-Id".to_owned();
}

/// The plant of the examples.
const EXAMPLE_ID: i64 = 7;

fn id_taken(id: impl fmt::Display) -> String {
    format!("a plant with id {id} exists already; choose another id")
}

/// The message for a path that leads nowhere, where plants are at this one.
pub(crate) fn no_such_path(plants: &str) -> String {
    format!("there is no such path; plants are at {plants}")
}

fn no_such_plant(id: impl fmt::Display) -> String {
    format!("there is no plant with id {id}")
}

/// The message for a content type that is none of these media types.
pub(crate) fn wrong_content_type(media_types: &[&str]) -> String {
    let media_types = media_types.join(" or ");
    format!("the Content-Type header must stand once and be {media_types}, in UTF-8")
}

/// The message for a body that had so long to arrive.
pub(crate) fn late_body(allowed: Duration) -> String {
    let seconds = allowed.as_secs();
    format!("nothing, or not all, of the body arrived within {seconds} s; send it again")
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Failure {
    number: ErrorNumber,
    message: String,
    /// One that the table does not have.
    header: Option<(HeaderName, HeaderValue)>,
    cause: Option<StoreFailure>,
}

/// What the log says of a failed request beyond its status; it travels in the response's extensions.
#[derive(Clone, Debug)]
pub(crate) struct LoggedFailure {
    pub(crate) number: ErrorNumber,
    pub(crate) cause: Option<StoreFailure>,
}

impl Failure {
    /// A failure with a message that says what to do about it.
    pub(crate) fn new(number: ErrorNumber, message: impl Into<String>) -> Self {
        Self { number, message: message.into(), header: None, cause: None }
    }

    /// A method that a path does not have.
    pub(crate) fn no_such_method(allow: &str) -> Self {
        let message = format!("there is no such method on this path; it takes {allow}");
        let allow = HeaderValue::from_str(allow).ok().map(|allow| (header::ALLOW, allow));
        Self { header: allow, ..Self::new(ErrorNumber::NoSuchMethod, message) }
    }

    /// More than one token.
    pub(crate) fn several_tokens() -> Self {
        let challenge = HeaderValue::from_static(INVALID_REQUEST_CHALLENGE);
        let message = "the Authorization header must stand once";
        Self {
            header: Some((header::WWW_AUTHENTICATE, challenge)),
            ..Self::new(ErrorNumber::WrongHeader, message)
        }
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

    fn caused_by(self, cause: StoreFailure) -> Self {
        Self { cause: Some(cause), ..self }
    }
}

/// With the message of the table.
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
            Challenge(challenge) => {
                response.insert_header((header::WWW_AUTHENTICATE, challenge));
            }
            RetryAfter => {
                response.insert_header((header::RETRY_AFTER, RETRY_AFTER_SECONDS));
            }
            Upgrade => {
                response.insert_header((header::UPGRADE, "HTTP/1.1"));
            }
            NoHeader | MayChallenge | Allow => {}
        }
        if self.number == ErrorNumber::RequestTimeout {
            response.force_close();
        }
        let mut response = response.json(self.error());
        let logged = LoggedFailure { number: self.number, cause: self.cause.clone() };
        response.extensions_mut().insert(logged);
        response
    }
}

impl From<Failure> for Response<BoxBody> {
    fn from(failure: Failure) -> Self {
        failure.error_response().into()
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
                "the plant is in a state that If-None-Match rules out, and nothing changed; read it",
            ),
            StoreError::Closed => Self::new(
                ErrorNumber::Busy,
                "the server is shutting down and nothing was written; send it to another one",
            ),
            StoreError::Busy => ErrorNumber::Busy.into(),
            StoreError::DiskFull => Self::new(
                ErrorNumber::StoreFailed,
                "the disk of the store is full and nothing was written; make room on it, then send it again",
            ),
            StoreError::Unavailable(cause) => Self::new(
                ErrorNumber::Busy,
                "the server's database does not answer or takes no writes, and nothing was written; try again later",
            )
            .caused_by(cause),
            StoreError::Refused(cause) => Self::from(ErrorNumber::Refused).caused_by(cause),
            StoreError::Failed(cause) => Self::from(ErrorNumber::StoreFailed).caused_by(cause),
            unknown => {
                Self::from(ErrorNumber::StoreFailed).caused_by(StoreFailure::new(unknown))
            }
        }
    }
}
