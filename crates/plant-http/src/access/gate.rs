//! Who may pass: the bearer token of a request is checked on its head alone, before its body is read
//! and before its path is known to exist (RFC 6750; specification, section "Authentication").

use std::sync::Arc;

use actix_http::header::{self, HeaderMap, HeaderValue};
use actix_http::{Method, RequestHead};

use crate::access::token::Token;
use crate::access::token_record::{Scope, TokenName};
use crate::access::tokens::{TokenInForce, Tokens};
use crate::errors::{ErrorNumber, Failure};

const SCHEME: &[u8] = b"bearer";

/// The challenges of RFC 6750, section 3. Without a token there is no error code in it.
const NO_TOKEN_CHALLENGE: &str = r#"Bearer realm="plant-store""#;
pub(crate) const INVALID_TOKEN_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="invalid_token""#;
const INSUFFICIENT_SCOPE_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="insufficient_scope""#;
const INVALID_REQUEST_CHALLENGE: &str = r#"Bearer realm="plant-store", error="invalid_request""#;

/// Lets requests pass whose token has the scope that they need.
#[derive(Debug)]
pub(crate) struct Gate {
    tokens: Tokens,
    open_paths: Vec<&'static str>,
}

/// Whose token a request came with. It is known before it is decided what that lets the request do.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    tokens: Tokens,
    token: Arc<TokenInForce>,
}

impl Gate {
    pub(crate) fn new(tokens: Tokens, open_paths: Vec<&'static str>) -> Self {
        Self { tokens, open_paths }
    }

    /// Whose token the request came with. Every request needs one, whatever its path, but those to the open
    /// paths, for which this is `None`.
    pub(crate) fn identify(&self, head: &RequestHead) -> Result<Option<Identity>, Failure> {
        if self.is_open(head) {
            return Ok(None);
        }
        let text = bearer_token(&head.headers)?;
        let token = self.tokens.find(text).ok_or_else(|| invalid_token(text))?;
        Ok(Some(Identity { tokens: self.tokens.clone(), token }))
    }

    fn is_open(&self, head: &RequestHead) -> bool {
        head.method == Method::OPTIONS
            || is_reading(&head.method) && self.open_paths.contains(&head.uri.path())
    }
}

impl Identity {
    /// What the log calls the token.
    pub(crate) fn token_name(&self) -> &TokenName {
        self.token.name()
    }

    /// Counts a request with this method, and lets it in where the rate and the scope allow it.
    pub(crate) fn admit(&self, method: &Method) -> Result<(), Failure> {
        if !self.token.count_request() {
            return Err(too_many_requests());
        }
        if scope_needed(method) == Scope::Write && self.token.scope() == Scope::Read {
            return Err(insufficient_scope());
        }
        Ok(())
    }

    /// Whether the token still is in force.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.tokens.is_in_force(&self.token) { Ok(()) } else { Err(invalid_token(&[])) }
    }
}

/// What a token has to let its holder do for this method.
pub(crate) fn scope_needed(method: &Method) -> Scope {
    if is_reading(method) { Scope::Read } else { Scope::Write }
}

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// The token of the `Authorization` header: the scheme in any case, a space, the token.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<&[u8], Failure> {
    let mut values = headers.get_all(header::AUTHORIZATION);
    let value = values.next().ok_or_else(no_token)?;
    if values.next().is_some() {
        return Err(several_tokens());
    }
    let value = value.as_bytes();
    let (scheme, token) = value.split_at(value.len().min(SCHEME.len()));
    match token {
        [b' ', token @ ..] if scheme.eq_ignore_ascii_case(SCHEME) => match token.trim_ascii() {
            [] => Err(no_token()),
            token => Ok(token),
        },
        _ => Err(no_token()),
    }
}

pub(crate) fn no_token() -> Failure {
    Failure::new(
        ErrorNumber::NoToken,
        "a token is needed; send the header `Authorization: Bearer TOKEN`",
    )
    .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(NO_TOKEN_CHALLENGE))
}

pub(crate) fn invalid_token(text: &[u8]) -> Failure {
    let message = if Token::is_mistyped(text) {
        "the token was cut or mistyped: its last characters are a checksum, which does not fit"
    } else {
        "the token is unknown, expired or revoked; get a new one"
    };
    Failure::new(ErrorNumber::InvalidToken, message)
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_TOKEN_CHALLENGE))
}

pub(crate) fn too_many_requests() -> Failure {
    Failure::new(
        ErrorNumber::TooManyRequests,
        "the token has made too many requests; go on after the seconds of Retry-After, and then slower",
    )
}

pub(crate) fn insufficient_scope() -> Failure {
    Failure::new(
        ErrorNumber::InsufficientScope,
        "the token may only read; use one with the scope `write`",
    )
    .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(INSUFFICIENT_SCOPE_CHALLENGE))
}

fn several_tokens() -> Failure {
    Failure::new(ErrorNumber::WrongHeader, "the Authorization header must stand once")
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_REQUEST_CHALLENGE))
}
