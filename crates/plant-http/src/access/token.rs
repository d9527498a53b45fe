//! A bearer token, and its digest. Only the digest is stored.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::limits::CHOSEN_TOKEN_MIN_CHARACTERS;

const TOKEN_RANDOM_BYTES: usize = 32;

/// The length of a checksum: four bytes in base64url.
const CHECKSUM_CHARACTERS: usize = 6;

/// A token: `plantd_`, 256 random bits and a checksum (CRC-32), both in base64url; or a token that a person chose.
///
/// A token is shown once, to its owner. `Debug` hides the token.
pub struct Token(String);

impl Token {
    /// The prefix of every token of [`Self::random`], by which people and secret scanners recognize one.
    pub const PREFIX: &str = "plantd_";

    /// A new token.
    ///
    /// # Errors
    ///
    /// When the operating system gives no random bytes.
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; TOKEN_RANDOM_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|_| TokenError::new("the system gives no random bytes"))?;
        let random = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let checksum = checksum(&random);
        Ok(Self(format!("{}{random}{checksum}", Self::PREFIX)))
    }

    /// A token that a person chose, sent unchanged (RFC 6750, section 2.1: `b64token`).
    ///
    /// # Errors
    ///
    /// When it is too short, or has characters that cannot be sent.
    pub fn chosen(token: String) -> Result<Self, TokenError> {
        if token.chars().count() < CHOSEN_TOKEN_MIN_CHARACTERS {
            return Err(TokenError::new(format!(
                "the token is too short; it needs at least {CHOSEN_TOKEN_MIN_CHARACTERS} characters"
            )));
        }
        let in_b64token = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
        if !token.trim_end_matches('=').chars().all(in_b64token) || token.starts_with('=') {
            return Err(TokenError::new(
                "the token may hold ASCII letters, digits and -._~+/ only, and = at its end",
            ));
        }
        Ok(Self(token))
    }

    /// Whether this looks like a token of [`Self::random`] but has a wrong checksum: it was truncated or mistyped.
    #[must_use]
    pub fn is_mistyped(text: &[u8]) -> bool {
        let Some(rest) = text.strip_prefix(Self::PREFIX.as_bytes()) else { return false };
        let fits = std::str::from_utf8(rest).is_ok_and(|rest| {
            let at = rest.len().saturating_sub(CHECKSUM_CHARACTERS);
            rest.split_at_checked(at).is_some_and(|(random, sum)| checksum(random) == sum)
        });
        !fits
    }

    /// The token itself. It must not reach a log.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> TokenDigest {
        TokenDigest::of(self.0.as_bytes())
    }
}

/// What is wrong with a token, its name or its lifetime. The message never repeats the input, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenError(String);

impl TokenError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The checksum of a token. It reveals a mistyped token, and identifies a text as a token, without asking the
/// server.
fn checksum(random: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(crc32fast::hash(random.as_bytes()).to_be_bytes())
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// The SHA-256 of a token, written in hexadecimal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(super) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl From<TokenDigest> for String {
    fn from(digest: TokenDigest) -> Self {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for TokenDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut digest = [0; 32];
        let refusal = "a SHA-256 digest has 64 hexadecimal digits";
        // `from_str_radix` would accept a sign.
        if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refusal);
        }
        for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| refusal)?;
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_carries_256_random_bits_and_a_checksum_and_debug_hides_it() {
        let token = Token::random().unwrap();
        let text = token.reveal().strip_prefix(Token::PREFIX).expect("the prefix");
        let (random, checksum) = text.split_at(text.len() - CHECKSUM_CHARACTERS);
        assert_eq!(BASE64_URL_SAFE_NO_PAD.decode(random).unwrap().len(), TOKEN_RANDOM_BYTES);
        let checksum = BASE64_URL_SAFE_NO_PAD.decode(checksum).unwrap();
        assert_eq!(checksum, crc32fast::hash(random.as_bytes()).to_be_bytes());
        assert!(!format!("{token:?}").contains(random));
    }
}
