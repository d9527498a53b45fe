//! What is kept of a token: its name, its scope, its life and its digest.

use std::fmt;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::access::token::{Digest, TOKEN_PREFIX, Token};

/// The longest name of a token, in characters.
pub const TOKEN_NAME_MAX_CHARACTERS: usize = 64;

/// What a token lets its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// What people call a token, and what the log calls it: 1 to [`TOKEN_NAME_MAX_CHARACTERS`] ASCII letters,
/// digits and `-._@`, of which a letter or a digit is the first. Several tokens may have one name, so that a new one can take the place of an old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenName(String);

impl TokenName {
    /// This name.
    ///
    /// # Errors
    ///
    /// When it is none. The message does not tell what was given, for that may be a token.
    pub fn new(name: impl Into<String>) -> anyhow::Result<Self> {
        let name = name.into();
        ensure!(
            !name.starts_with(TOKEN_PREFIX),
            "this looks like a token, and its name is asked for; `plantd token list` shows the names"
        );
        let in_name = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
        ensure!(
            (1..=TOKEN_NAME_MAX_CHARACTERS).contains(&name.len())
                && name.chars().all(in_name)
                && name.starts_with(|c: char| c.is_ascii_alphanumeric()),
            "a token's name has 1 to {TOKEN_NAME_MAX_CHARACTERS} ASCII letters, digits and -._@, and \
             begins with a letter or a digit"
        );
        Ok(Self(name))
    }
}

impl TryFrom<String> for TokenName {
    type Error = anyhow::Error;

    fn try_from(name: String) -> anyhow::Result<Self> {
        Self::new(name)
    }
}

impl From<TokenName> for String {
    fn from(name: TokenName) -> Self {
        name.0
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// What is kept of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// What people call the token.
    pub name: TokenName,
    /// What it lets its holder do.
    pub scope: Scope,
    /// When it was made.
    pub created: Timestamp,
    /// When it stops being valid, if ever.
    pub expires: Option<Timestamp>,
    pub(crate) sha256: Digest,
}

impl TokenRecord {
    /// The record of a token that is made now and never expires.
    #[must_use]
    pub fn new(name: TokenName, scope: Scope, token: &Token) -> Self {
        let created = now();
        Self { name, scope, created, expires: None, sha256: token.digest() }
    }

    /// The same for a token that expires so long after it was made.
    ///
    /// # Errors
    ///
    /// When that is at once, or beyond the year 9999.
    pub fn expiring_after(self, lifetime: Duration) -> anyhow::Result<Self> {
        ensure!(!lifetime.is_zero(), "the token would never be valid; let it last longer");
        let expires = self.created.checked_add(lifetime).ok();
        let expires = expires.context("the token would expire after the year 9999")?;
        Ok(Self { expires: Some(expires), ..self })
    }

    /// Whether both are records of the same token.
    #[must_use]
    pub fn is_of_same_token(&self, other: &Self) -> bool {
        self.sha256.is(&other.sha256)
    }

    /// Whether this is the record of the token that this text is.
    #[must_use]
    pub fn is_of_token(&self, text: &[u8]) -> bool {
        self.sha256.is(&Digest::of(text))
    }

    /// Whether the token has stopped being valid by its expiry.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }

    /// How long from now the token is valid by the clock; `None` when it never expires.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let left = self.expires?.duration_since(now());
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }
}

/// The time, or the nearest that can be told where the clock shows what is no date.
fn now() -> Timestamp {
    nearest(SystemTime::now())
}

fn nearest(time: SystemTime) -> Timestamp {
    let limit = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::try_from(time).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> TokenRecord {
        let name = TokenName::new(name).expect("a good name");
        TokenRecord::new(name, Scope::Read, &Token::random().expect("random bytes"))
    }

    #[test]
    fn a_name_can_stand_in_a_log_and_is_no_token() {
        for good in ["a", "first-run", "PLANTD_TOKEN", "ci.2@example", &"x".repeat(64)] {
            assert!(TokenName::new(good).is_ok(), "{good:?}");
        }
        for bad in ["", "-a", "a b", "a\nb", "é", "a=b", "plantd_secret", &"x".repeat(65)] {
            let refusal = TokenName::new(bad).unwrap_err().to_string();
            assert!(bad.is_empty() || !refusal.contains(bad), "{refusal}");
        }
    }

    #[test]
    fn a_clock_that_shows_no_date_is_the_first_or_the_last_one() {
        let years = Duration::from_secs(20_000 * 366 * 24 * 3600);
        assert_eq!(nearest(SystemTime::UNIX_EPOCH), Timestamp::UNIX_EPOCH);
        assert_eq!(nearest(SystemTime::UNIX_EPOCH + years), Timestamp::MAX);
        assert_eq!(nearest(SystemTime::UNIX_EPOCH - years), Timestamp::MIN);
    }

    #[test]
    fn a_token_expires_when_its_lifetime_is_over() {
        let expiring = |lifetime| record("test").expiring_after(lifetime);
        assert!(expiring(Duration::ZERO).is_err());
        assert!(expiring(Duration::MAX).is_err());
        assert!(!expiring(Duration::from_secs(3600)).unwrap().is_expired());
        let past = Timestamp::now() - Duration::from_secs(1);
        assert!(TokenRecord { expires: Some(past), ..record("test") }.is_expired());
    }
}
