//! The gate checks the bearer token of a request on its head alone, before its body is read and before its path is
//! looked up (RFC 6750; specification, section "Authentication").

use std::rc::Rc;
use std::sync::Arc;

use actix_http::header::{self, HeaderMap};
use actix_http::{Method, RequestHead};

use crate::access::token::Token;
use crate::access::token_record::{Scope, TokenRecord};
use crate::access::tokens::{TokenInForce, Tokens};
use crate::errors::{ErrorNumber, Failure};

const SCHEME: &[u8] = b"bearer";

/// Knows the tokens, and the paths that need none.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) tokens: Rc<Tokens>,
    pub(crate) open_paths: Vec<&'static str>,
}

/// The token of a request. The log gets its name even if the gate then refuses the request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    tokens: Rc<Tokens>,
    token: Arc<TokenInForce>,
}

impl Gate {
    /// The token of the request; `None` for an open path. Every other request needs a token, whether its path exists or
    /// not. `path` begins behind the mount of the service.
    pub(crate) fn identify(
        &self,
        head: &RequestHead,
        path: &str,
    ) -> Result<Option<Identity>, Failure> {
        if self.is_open(&head.method, path) {
            return Ok(None);
        }
        let text = bearer_token(&head.headers)?;
        let token = self.tokens.find(text).ok_or_else(|| invalid_token(text))?;
        Ok(Some(Identity { tokens: Rc::clone(&self.tokens), token }))
    }

    fn is_open(&self, method: &Method, path: &str) -> bool {
        method == Method::OPTIONS || is_reading(method) && self.open_paths.contains(&path)
    }
}

impl Identity {
    pub(crate) fn record(&self) -> &TokenRecord {
        &self.token.record
    }

    /// Counts a request with this method, and checks the rate and then the scope.
    pub(crate) fn admit(&self, method: &Method) -> Result<(), Failure> {
        if !self.token.count_request() {
            return Err(ErrorNumber::TooManyRequests.into());
        }
        if scope_needed(method) == Scope::Write && self.token.record.scope == Scope::Read {
            return Err(ErrorNumber::InsufficientScope.into());
        }
        Ok(())
    }

    /// Whether the token is still valid.
    pub(crate) fn check_still_valid(&self) -> Result<(), Failure> {
        if self.tokens.is_in_force(&self.token) { Ok(()) } else { Err(invalid_token(&[])) }
    }
}

/// The scope that a token needs for this method.
pub(crate) fn scope_needed(method: &Method) -> Scope {
    if is_reading(method) { Scope::Read } else { Scope::Write }
}

fn is_reading(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// The token of the `Authorization` header: the scheme in any case, a space, the token.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<&[u8], Failure> {
    let mut values = headers.get_all(header::AUTHORIZATION);
    let value = values.next().ok_or(ErrorNumber::NoToken)?;
    if values.next().is_some() {
        return Err(Failure::several_tokens());
    }
    let value = value.as_bytes();
    let (scheme, token) = value.split_at(value.len().min(SCHEME.len()));
    match token {
        [b' ', token @ ..] if scheme.eq_ignore_ascii_case(SCHEME) => match token.trim_ascii() {
            [] => Err(ErrorNumber::NoToken.into()),
            token => Ok(token),
        },
        _ => Err(ErrorNumber::NoToken.into()),
    }
}

fn invalid_token(text: &[u8]) -> Failure {
    if Token::is_mistyped(text) {
        let message =
            "the token was cut or mistyped: its last characters are a checksum, which does not fit";
        Failure::new(ErrorNumber::InvalidToken, message)
    } else {
        ErrorNumber::InvalidToken.into()
    }
}
