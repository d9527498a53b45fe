//! The stored record of a token: its name, scope, lifetime and digest.

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use plant_store::Author;
use serde::{Deserialize, Serialize};

use crate::access::token::{Token, TokenDigest, TokenError};
use crate::limits::TOKEN_NAME_MAX_CHARACTERS;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read the metrics, and no plants.
    Metrics,
    /// Make backups, and read the metrics.
    Backup,
    /// Read plants, and the metrics.
    Read,
    /// Everything.
    Write,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Metrics, Self::Backup, Self::Read, Self::Write];

    /// The name of the scope: what is stored, shown, and given to `plantd token create`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Backup => "backup",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Whether a token with this scope may do what needs `needed`.
    pub(crate) const fn includes(self, needed: Self) -> bool {
        matches!(
            (self, needed),
            (_, Self::Metrics)
                | (Self::Write, _)
                | (Self::Read, Self::Read)
                | (Self::Backup, Self::Backup)
        )
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The name of a token, for people and for the log: 1 to
/// [`TOKEN_NAME_MAX_CHARACTERS`](crate::limits::TOKEN_NAME_MAX_CHARACTERS) ASCII letters, digits and `-._@`, of which the
/// first is a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenName(Author);

impl TokenName {
    /// This name.
    ///
    /// # Errors
    ///
    /// When it breaks a rule of names, or is a token itself.
    pub fn new(name: impl Into<String>) -> Result<Self, TokenError> {
        let name = name.into();
        if name.starts_with(Token::PREFIX) {
            return Err(TokenError::new("this looks like a token; give the name of one"));
        }
        let in_name = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
        let is_name = (1..=TOKEN_NAME_MAX_CHARACTERS).contains(&name.len())
            && name.chars().all(in_name)
            && name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !is_name {
            return Err(TokenError::new(format!(
                "a token's name has 1 to {TOKEN_NAME_MAX_CHARACTERS} ASCII letters, digits and -._@, and begins with a \
                 letter or a digit"
            )));
        }
        Author::new(name).map(Self).map_err(|cause| TokenError::new(cause.to_string()))
    }

    /// The name as that of who makes a change.
    #[must_use]
    pub const fn author(&self) -> &Author {
        &self.0
    }
}

impl TryFrom<String> for TokenName {
    type Error = TokenError;

    fn try_from(name: String) -> Result<Self, TokenError> {
        Self::new(name)
    }
}

impl From<TokenName> for String {
    fn from(name: TokenName) -> Self {
        name.0.into()
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The stored record of a token, which does not reveal the token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// The token's name.
    pub name: TokenName,
    /// What the token allows.
    pub scope: Scope,
    /// When it was made.
    pub created: Timestamp,
    /// When it stops being valid, if ever.
    pub expires: Option<Timestamp>,
    pub(super) sha256: TokenDigest,
}

impl TokenRecord {
    /// The record of a token that is made now and never expires.
    #[must_use]
    pub fn new(name: TokenName, scope: Scope, token: &Token) -> Self {
        let created = now();
        Self { name, scope, created, expires: None, sha256: token.digest() }
    }

    /// The same for a token that expires this long after it was made.
    ///
    /// # Errors
    ///
    /// When the token would never be valid, or would expire after the year 9999.
    pub fn expiring_after(self, lifetime: Duration) -> Result<Self, TokenError> {
        if lifetime.is_zero() {
            return Err(TokenError::new("the token would never be valid; let it last longer"));
        }
        let expires = self.created.checked_add(lifetime);
        let expires =
            expires.map_err(|_| TokenError::new("the token would expire after the year 9999"))?;
        Ok(Self { expires: Some(expires), ..self })
    }

    /// Whether both are records of the same token.
    #[must_use]
    pub fn is_of_same_token(&self, other: &Self) -> bool {
        self.sha256.is(&other.sha256)
    }

    /// Whether this is the record of the token with this text.
    #[must_use]
    pub fn is_of_token(&self, text: &[u8]) -> bool {
        self.sha256.is(&TokenDigest::of(text))
    }

    /// Whether the token has expired by the clock.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    /// How long the token is still valid by the clock; `None` when it never expires.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = self.expires?.duration_since(now());
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }
}

/// The current time, or the nearest timestamp if the clock is out of the range of timestamps.
fn now() -> Timestamp {
    let time = SystemTime::now();
    let limit = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::try_from(time).unwrap_or(limit)
}
