//! Who may pass: the bearer token of a request is checked on its head alone, before its body is read
//! and before its path is known to exist (RFC 6750; specification, section "Authentication").

use actix_http::header::{self, HeaderMap, HeaderValue};
use actix_http::{Method, RequestHead};

use crate::failure::{ErrorNumber, Failure};
use crate::tokens::{Scope, Tokens};

const SCHEME: &[u8] = b"bearer";

/// The challenges of RFC 6750, section 3. Without a token there is no error code in it.
const NO_TOKEN_CHALLENGE: &str = r#"Bearer realm="plant-store""#;
const INVALID_TOKEN_CHALLENGE: &str = r#"Bearer realm="plant-store", error="invalid_token""#;
const INSUFFICIENT_SCOPE_CHALLENGE: &str =
    r#"Bearer realm="plant-store", error="insufficient_scope""#;
const INVALID_REQUEST_CHALLENGE: &str = r#"Bearer realm="plant-store", error="invalid_request""#;

/// Lets requests pass whose token has the scope that they need.
#[derive(Debug)]
pub(crate) struct Gate {
    tokens: Tokens,
    open_paths: Vec<&'static str>,
}

impl Gate {
    pub(crate) fn new(tokens: Tokens, open_paths: Vec<&'static str>) -> Self {
        Self { tokens, open_paths }
    }

    /// Every request needs a token, whatever its path, but those to the open paths.
    pub(crate) fn check(&self, head: &RequestHead) -> Result<(), Failure> {
        if self.is_open(head) {
            return Ok(());
        }
        let token = bearer_token(&head.headers)?;
        let scope = self.tokens.scope_of(token).ok_or_else(invalid_token)?;
        match (scope, is_reading(&head.method)) {
            (Scope::Write, _) | (Scope::Read, true) => Ok(()),
            (Scope::Read, false) => Err(insufficient_scope()),
        }
    }

    fn is_open(&self, head: &RequestHead) -> bool {
        head.method == Method::OPTIONS
            || is_reading(&head.method) && self.open_paths.contains(&head.uri.path())
    }
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

fn no_token() -> Failure {
    Failure::new(
        ErrorNumber::NoToken,
        "a token is needed; send the header `Authorization: Bearer TOKEN`",
    )
    .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(NO_TOKEN_CHALLENGE))
}

fn invalid_token() -> Failure {
    Failure::new(
        ErrorNumber::InvalidToken,
        "the token is unknown, expired or revoked; get a new one",
    )
    .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(INVALID_TOKEN_CHALLENGE))
}

fn insufficient_scope() -> Failure {
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
