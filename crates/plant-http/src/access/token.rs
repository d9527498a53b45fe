//! A bearer token: what one looks like, and its digest, which is all that is kept of it.
//!
//! The specification leaves open how a token is obtained, its form and its lifetime.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::limits::{CHOSEN_TOKEN_MIN_CHARACTERS, TOKEN_NAME_MAX_CHARACTERS};

const TOKEN_RANDOM_BYTES: usize = 32;

/// How many characters of a token that we make its checksum has: four bytes in base64url.
const CHECKSUM_CHARACTERS: usize = 6;

/// A token: `plantd_`, 256 random bits and a checksum (CRC-32), both in base64url.
///
/// It is shown once, to the one who asked for it; `Debug` hides it.
///
/// ```
/// use plant_http::Token;
///
/// let token = Token::random()?;
/// assert!(token.reveal().starts_with("plantd_"));
/// assert!(!format!("{token:?}").contains(token.reveal()));
/// # Ok::<(), plant_http::TokenError>(())
/// ```
pub struct Token(String);

impl Token {
    /// What every token of [`Self::random`] begins with, so that people and secret scanners recognize one.
    pub const PREFIX: &str = "plantd_";

    /// A new token.
    ///
    /// # Errors
    ///
    /// [`TokenError::NoRandomness`].
    pub fn random() -> Result<Self, TokenError> {
        let mut bytes = [0; TOKEN_RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| TokenError::NoRandomness)?;
        let random = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let checksum = checksum(&random);
        Ok(Self(format!("{}{random}{checksum}", Self::PREFIX)))
    }

    /// A token that someone chose, to be sent as it stands (RFC 6750, section 2.1: `b64token`).
    ///
    /// # Errors
    ///
    /// [`TokenError::TooShort`] and [`TokenError::NotSendable`].
    pub fn chosen(token: String) -> Result<Self, TokenError> {
        if token.chars().count() < CHOSEN_TOKEN_MIN_CHARACTERS {
            return Err(TokenError::TooShort);
        }
        let in_b64token = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
        if !token.trim_end_matches('=').chars().all(in_b64token) || token.starts_with('=') {
            return Err(TokenError::NotSendable);
        }
        Ok(Self(token))
    }

    /// Whether this is meant to be a token that we made, and is not as it was made: its checksum does not
    /// fit. It was cut, or mistyped.
    ///
    /// ```
    /// use plant_http::Token;
    ///
    /// let token = Token::random()?;
    /// let text = token.reveal().as_bytes();
    /// assert!(!Token::is_mistyped(text));
    /// assert!(Token::is_mistyped(&text[..text.len() - 1]));
    /// assert!(!Token::is_mistyped(b"a token of another kind"));
    /// # Ok::<(), plant_http::TokenError>(())
    /// ```
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

    pub(crate) fn digest(&self) -> TokenDigest {
        TokenDigest::of(self.0.as_bytes())
    }
}

/// Why there is no such token. No message tells what was given, for that may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The operating system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// A chosen token is too short.
    #[error("the token is too short; it needs at least {CHOSEN_TOKEN_MIN_CHARACTERS} characters")]
    TooShort,
    /// A chosen token could not be sent in a header.
    #[error("the token may hold ASCII letters, digits and -._~+/ only, and = at its end")]
    NotSendable,
    /// A token was given in the place of its name.
    #[error("this looks like a token, and its name is asked for")]
    TokenForName,
    /// No token can have this name.
    #[error(
        "a token's name has 1 to {TOKEN_NAME_MAX_CHARACTERS} ASCII letters, digits and -._@, and begins with a letter \
         or a digit"
    )]
    NotAName,
    /// The token would never be valid.
    #[error("the token would never be valid; let it last longer")]
    NoLifetime,
    /// The token would expire after the year 9999.
    #[error("the token would expire after the year 9999")]
    TooLongLifetime,
}

/// By which a mistyped token, and a lookalike in a scanned text, show without asking the server.
fn checksum(random: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(crc32fast::hash(random.as_bytes()).to_be_bytes())
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// The SHA-256 of a token, in hexadecimal where it is written.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(crate) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether both are the same. How long that takes tells nothing of them.
    pub(crate) fn is(&self, other: &Self) -> bool {
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
        // A number might have a sign, too.
        if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refusal);
        }
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| refusal)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| refusal)?;
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_carry_256_random_bits_and_a_checksum() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        let text = one.reveal().strip_prefix(Token::PREFIX).expect("the prefix");
        let (random, checksum) = text.split_at(text.len() - CHECKSUM_CHARACTERS);
        assert_eq!(BASE64_URL_SAFE_NO_PAD.decode(random).unwrap().len(), TOKEN_RANDOM_BYTES);
        let checksum = BASE64_URL_SAFE_NO_PAD.decode(checksum).unwrap();
        assert_eq!(checksum, crc32fast::hash(random.as_bytes()).to_be_bytes());
    }

    #[test]
    fn each_character_that_is_mistyped_shows() {
        let token = Token::random().unwrap();
        let text = token.reveal();
        assert!(!Token::is_mistyped(text.as_bytes()));
        for at in Token::PREFIX.len()..text.len() {
            let mut mistyped = text.as_bytes().to_vec();
            mistyped[at] = if mistyped[at] == b'x' { b'y' } else { b'x' };
            assert!(Token::is_mistyped(&mistyped), "at {at}");
            assert!(Token::is_mistyped(&text.as_bytes()[..at]), "cut at {at}");
        }
        for other in ["", "plantd", "x", "\u{e9}"] {
            assert!(!Token::is_mistyped(other.as_bytes()), "{other:?}");
            assert!(Token::is_mistyped(format!("plantd_{other}\u{e9}").as_bytes()), "{other:?}");
        }
        assert!(Token::is_mistyped(b"plantd_\xff\xff\xff\xff\xff\xff\xff"));
    }

    #[test]
    fn a_chosen_token_is_long_enough_and_can_be_sent() {
        for good in ["0123456789abcdef", "abcdefghijklmn==", "a-b._~+/abcdefghij"] {
            assert!(Token::chosen(good.to_owned()).is_ok(), "{good:?}");
        }
        for bad in
            ["", "0123456789abcde", "0123456789abcde f", "0123456789abcdeé", "=0123456789abcdef"]
        {
            let refusal = Token::chosen(bad.to_owned()).map(drop).unwrap_err().to_string();
            assert!(bad.is_empty() || !refusal.contains(bad), "the message tells the token");
        }
    }
}
