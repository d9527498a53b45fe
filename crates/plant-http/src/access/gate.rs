//! The gate checks the bearer token of a request on its head alone, before its body is read and before its path is
//! looked up (RFC 6750; specification, section "Authentication").

use std::rc::Rc;
use std::sync::Arc;

use actix_http::header::{self, HeaderMap};

use crate::access::last_token::LastToken;
use crate::access::token::{Token, TokenDigest};
use crate::access::token_record::{Scope, TokenRecord};
use crate::access::tokens::{TokenInForce, Tokens};
use crate::errors::{ErrorNumber, Failure};

const SCHEME: &[u8] = b"bearer";

/// What a request needs to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No token.
    Open,
    /// A token, with any scope.
    AnyToken,
    /// A token with this scope, or one that includes it.
    Scope(Scope),
}

/// Knows the tokens.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) tokens: Rc<Tokens>,
}

/// The token of a request. The log gets its name even if the gate then refuses the request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    tokens: Rc<Tokens>,
    token: Arc<TokenInForce>,
}

impl Gate {
    /// The token of a request that needs one. `last` is that of the connection.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        last: Option<&LastToken>,
    ) -> Result<Identity, Failure> {
        let text = bearer_token(headers)?;
        let known = last.and_then(|last| last.digest_of(text));
        let digest = known.unwrap_or_else(|| TokenDigest::of(text));
        let token = self.tokens.find(&digest).ok_or_else(|| invalid_token(text))?;
        if let (Some(last), None) = (last, known) {
            last.remember(text, digest);
        }
        Ok(Identity { tokens: Rc::clone(&self.tokens), token })
    }
}

impl Identity {
    pub(crate) fn record(&self) -> &TokenRecord {
        &self.token.record
    }

    /// Counts a request, and checks the rate and then the scope.
    pub(crate) fn admit(&self, access: Access) -> Result<(), Failure> {
        if !self.token.count_request() {
            return Err(ErrorNumber::TooManyRequests.into());
        }
        match access {
            Access::Scope(needed) if !self.token.record.scope.includes(needed) => {
                Err(Failure::insufficient_scope(needed))
            }
            _ => Ok(()),
        }
    }

    /// Whether the token is still valid.
    pub(crate) fn check_still_valid(&self) -> Result<(), Failure> {
        if self.tokens.is_in_force(&self.token) { Ok(()) } else { Err(invalid_token(&[])) }
    }
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
