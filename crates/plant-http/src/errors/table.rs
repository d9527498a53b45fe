//! All errors of requests in one table.
//!
//! The answers, the metrics, the OpenAPI document and the table in `docs/api.md` are made from it. To add an error, add
//! a row here, and its number to the failures of its operations in `openapi/document.json`.
//!
//! A message says what is wrong, then what to do. Details for the operator alone go to the log.

use std::fmt;
use std::time::Duration;

use actix_http::StatusCode;
use plant_domain::{NAME_MAX_CHARACTERS, error_number};

use crate::access::token_record::Scope;
use crate::limits::{BODY_DEADLINE, BODY_MAX_BYTES};

/// The number of the error of a server that makes no backups.
pub const NO_BACKUPS: i32 = 4006;

/// The challenges of RFC 6750, section 3. Without a token there is no error code.
const NO_TOKEN_CHALLENGE: &str = r#"Bearer realm="plant-store""#;
pub(crate) const INVALID_TOKEN_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="invalid_token""#;
const INSUFFICIENT_SCOPE_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="insufficient_scope""#;
pub(crate) const INVALID_REQUEST_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="invalid_request""#;

/// A row of the table.
pub(crate) struct ErrorRow {
    pub(crate) status: StatusCode,
    pub(crate) header: ErrorHeader,
    /// When the error happens.
    pub(crate) meaning: &'static str,
    /// What the client can do about it.
    pub(crate) advice: &'static str,
    /// The message, or an example where each cause has its own.
    pub(crate) message: fn() -> String,
}

/// A header of answers with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorHeader {
    None,
    /// `WWW-Authenticate`, but only for a second `Authorization` header (RFC 6750, section 3.1).
    MayChallenge,
    /// `WWW-Authenticate`.
    Challenge(&'static str),
    RetryAfter,
    /// The version of HTTP that the request needs (RFC 9110, section 15.5.22). actix-http adds `Connection`.
    Upgrade,
    /// `Allow`, which differs from path to path.
    Allow,
}

/// Makes the enum and the table from the rows below. A row is: name, number, status, header; when the error happens;
/// what to do about it; its message.
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

            /// The number's row in the table.
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
        "the body is not one complete JSON text (RFC 8259), or not UTF-8";
        "send the whole body, as JSON in UTF-8, and without half a surrogate pair in a name or a tag";
        || "the text must be JSON (RFC 8259) in UTF-8: EOF while parsing a value at column 8".to_owned();
    WrongContentType = 1002, BAD_REQUEST, NoHeader;
        "the content type is not one that the operation takes, or the body is compressed";
        "send the `Content-Type` that the message names, once, and no `Content-Encoding`";
        || wrong_content_type(&["application/json"]);
    BodyTooLarge = 1003, BAD_REQUEST, NoHeader;
        "the body is too large";
        "send less; to create many plants, import them";
        || too_large(BODY_MAX_BYTES);
    WrongShape = error_number::WRONG_SHAPE, BAD_REQUEST, NoHeader;
        "the body is not an object, or a member is missing, appears twice, or has the wrong type (an `id` outside int64 too); a batch has an unknown member, or too many requests, or none";
        "correct the members that the message names";
        || "id is missing".to_owned();
    RuleBroken = error_number::RULE_BROKEN, BAD_REQUEST, NoHeader;
        "a member breaks a rule, or an `id` in the body is not that of the path";
        "correct the members that the message names; show the message to the person who typed them";
        || format!("name must have 1 to {NAME_MAX_CHARACTERS} characters");
    WrongParameter = 1006, BAD_REQUEST, NoHeader;
        "a path or query parameter is wrong, unknown, or appears twice";
        "correct the URL: ids in plain decimal form, values percent-encoded";
        || "this operation takes no query parameters; leave out what follows the `?`".to_owned();
    WrongHeader = 1007, BAD_REQUEST, MayChallenge;
        "a header is wrong: `Idempotency-Key`, `If-Match`, `If-None-Match`, `Last-Event-ID`, `Host`, `Upgrade: websocket`, or two `Authorization` headers";
        "correct the header that the message names; send an `ETag` back unchanged";
        || "the Host header must be a host and maybe a port, or empty".to_owned();
    OldVersion = 1008, UPGRADE_REQUIRED, Upgrade;
        "an export or a backup was requested over HTTP/1.0, where an answer that is cut off looks whole";
        "use HTTP/1.1; if a proxy speaks HTTP/1.0 to the server, configure HTTP/1.1 (`proxy_http_version 1.1` in nginx)";
        || "this answer needs HTTP/1.1, because over HTTP/1.0 an answer that is cut off looks whole; if a proxy speaks \
            HTTP/1.0 to the server, configure HTTP/1.1 (in nginx: proxy_http_version 1.1)".to_owned();
    NoToken = 2001, UNAUTHORIZED, Challenge(NO_TOKEN_CHALLENGE);
        "the request has no token";
        "send `Authorization: Bearer TOKEN`";
        || "a token is needed; send the header `Authorization: Bearer TOKEN`".to_owned();
    InvalidToken = 2002, UNAUTHORIZED, Challenge(INVALID_TOKEN_CHALLENGE);
        "the token is unknown, expired, revoked or mistyped";
        "read the token again from where it is stored, and try once more; then ask the server's operator for a new one. Rows that an import had sent stay";
        || "the token is unknown, expired or revoked; get a new one".to_owned();
    InsufficientScope = 2003, FORBIDDEN, Challenge(INSUFFICIENT_SCOPE_CHALLENGE);
        "the scope of the token does not allow the request";
        "use a token with the scope that the message names";
        || insufficient_scope(Scope::Write);
    TooManyRequests = 2004, TOO_MANY_REQUESTS, RetryAfter;
        "the token has exceeded its rate; nothing was done";
        "wait for the seconds in `Retry-After`, send the request again, then send fewer";
        || "the token has made too many requests; wait for the seconds in Retry-After, then send fewer".to_owned();
    IdTaken = error_number::ID_TAKEN, BAD_REQUEST, NoHeader;
        "the id is taken; nothing changed";
        "choose another id; if an earlier attempt of yours may have created the plant, read it; an `Idempotency-Key` avoids this";
        || id_taken(EXAMPLE_ID);
    NoSuchPlant = error_number::NO_SUCH_PLANT, NOT_FOUND, NoHeader;
        "there is no such plant";
        "treat it as deleted; after a repeated `DELETE`, as success";
        || no_such_plant(EXAMPLE_ID);
    PreconditionFailed = error_number::PRECONDITION_FAILED, PRECONDITION_FAILED, NoHeader;
        "a precondition failed; nothing changed";
        "read the plant, decide again, send the change with the new `ETag`; if the request was a repeat, the first one may have succeeded";
        || "the plant is not in the state that If-Match asks for, and nothing changed; read it again".to_owned();
    EventsGone = 3004, GONE, NoHeader;
        "the events after the cursor are not all there: some are no longer kept, or the cursor is of another store, or of changes that a restore or a failover has lost";
        "list the plants again, then follow from `X-Events-After`";
        || "the events after this cursor are not all there; list the plants again, then follow from X-Events-After".to_owned();
    VersionGone = 3005, GONE, NoHeader;
        "the plant never had this revision as a state, or the change that made it is no longer kept";
        "list the history of the plant, which has all revisions that are known";
        || version_gone(12, EXAMPLE_ID);
    NoSuchPath = 4004, NOT_FOUND, NoHeader;
        "there is no such path";
        "correct the URL: no slash at its end, nothing before `/plants` but the base address";
        || no_such_path("/plants");
    NoSuchMethod = 4005, METHOD_NOT_ALLOWED, Allow;
        "there is no such method on this path";
        "use a method that `Allow` names";
        || "there is no such method on this path; it takes GET, HEAD, OPTIONS".to_owned();
    NoBackups = NO_BACKUPS, NOT_FOUND, NoHeader;
        "this server makes no backups of its own, because its plants are in PostgreSQL";
        "back up with PostgreSQL's own tools";
        || no_backups("its plants are in PostgreSQL, so use PostgreSQL's own tools: pg_basebackup or pgBackRest");
    Internal = 5001, INTERNAL_SERVER_ERROR, NoHeader;
        "an internal error; the outcome of a write is unknown";
        "read before you send the request again; report the `X-Request-Id`";
        || "an internal error; the server's log has details under this answer's X-Request-Id".to_owned();
    StoreFailed = 5002, SERVICE_UNAVAILABLE, RetryAfter;
        "the store failed and the outcome of a write is unknown, or its disk is full and nothing was written";
        "wait for the seconds in `Retry-After`, and read before you send the request again";
        || "the store failed; the outcome of a write is unknown, so read before you send it again".to_owned();
    Busy = 5003, SERVICE_UNAVAILABLE, RetryAfter;
        "the server is too busy or shutting down, its database does not answer or takes no writes, or another backup is being made; nothing was written";
        "wait for the seconds in `Retry-After`, then send the request again";
        || "the store is too busy and nothing was written; try again later".to_owned();
    RequestTimeout = 5004, REQUEST_TIMEOUT, NoHeader;
        "the request did not arrive in time; nothing was done, except for rows of an import that had arrived";
        "send the request again on a new connection; if this happens often, send less at once";
        || late_body(BODY_DEADLINE);
    Refused = 5005, INTERNAL_SERVER_ERROR, NoHeader;
        "the server's database refuses this plant, and will refuse it again; nothing was written";
        "do not send it again; give the `X-Request-Id` to the server's operator: the log has the database's reason under it";
        || "the server's database refuses this plant, and nothing was written; do not send it again, and give the \
            X-Request-Id of this answer to the server's operator: the log has the database's reason under it".to_owned();
}

pub(crate) fn no_backups(advice: &str) -> String {
    format!("this server makes no backups; {advice}")
}

/// The plant of the examples.
const EXAMPLE_ID: i64 = 7;

pub(crate) fn id_taken(id: impl fmt::Display) -> String {
    format!("a plant with id {id} exists already; choose another id")
}

/// The message for a path that does not exist. Plants are at the path `plants`.
pub(crate) fn no_such_path(plants: &str) -> String {
    format!("there is no such path; plants are at {plants}")
}

pub(crate) fn no_such_plant(id: impl fmt::Display) -> String {
    format!("there is no plant with id {id}")
}

pub(crate) fn version_gone(revision: impl fmt::Display, id: impl fmt::Display) -> String {
    format!(
        "revision {revision} of plant {id} is not known; it may be a deletion, or no longer kept"
    )
}

pub(crate) fn insufficient_scope(needed: Scope) -> String {
    format!("the scope of the token does not allow this; use a token with the scope `{needed}`")
}

/// The message for a content type other than these media types.
pub(crate) fn wrong_content_type(media_types: &[&str]) -> String {
    let media_types = media_types.join(" or ");
    format!("the Content-Type header must appear once and be {media_types}, in UTF-8")
}

/// The message for a body of more bytes than this.
pub(crate) fn too_large(max_bytes: usize) -> String {
    format!("the body is too large; send at most {max_bytes} bytes")
}

/// The message for a body that did not arrive in this time.
pub(crate) fn late_body(allowed: Duration) -> String {
    let seconds = allowed.as_secs();
    format!("nothing, or not all, of the body arrived within {seconds} s; send it again")
}
