//! A bearer token: what one looks like, and its digest, which is all that is kept of it.
//!
//! The specification leaves open how a token is obtained, its form and its lifetime.

use std::fmt;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The fewest characters that a token from the environment may have.
pub const ENVIRONMENT_TOKEN_MIN_CHARACTERS: usize = 16;

/// What every token that we make starts with, so that people and secret scanners recognise one.
pub const TOKEN_PREFIX: &str = "plantd_";

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
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Token(String);

impl Token {
    /// A new token.
    ///
    /// # Errors
    ///
    /// When the operating system has no randomness to give.
    pub fn random() -> anyhow::Result<Self> {
        let mut bytes = [0; TOKEN_RANDOM_BYTES];
        getrandom::fill(&mut bytes).context("the system gives no random bytes")?;
        let random = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let checksum = checksum(&random);
        Ok(Self(format!("{TOKEN_PREFIX}{random}{checksum}")))
    }

    /// A token that someone chose, to be sent as it stands (RFC 6750, section 2.1: `b64token`).
    ///
    /// # Errors
    ///
    /// When it is shorter than [`ENVIRONMENT_TOKEN_MIN_CHARACTERS`], or could not be sent in a header.
    pub fn chosen(token: String) -> anyhow::Result<Self> {
        ensure!(
            token.chars().count() >= ENVIRONMENT_TOKEN_MIN_CHARACTERS,
            "the token is too short; it needs at least {ENVIRONMENT_TOKEN_MIN_CHARACTERS} characters"
        );
        let in_b64token = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
        ensure!(
            token.trim_end_matches('=').chars().all(in_b64token) && !token.starts_with('='),
            "the token may hold ASCII letters, digits and -._~+/ only, and = at its end"
        );
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
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    #[must_use]
    pub fn is_mistyped(text: &[u8]) -> bool {
        let Some(rest) = text.strip_prefix(TOKEN_PREFIX.as_bytes()) else { return false };
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

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
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
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether both are the same. How long that takes tells nothing of them.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for Digest {
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
        let text = one.reveal().strip_prefix(TOKEN_PREFIX).expect("the prefix");
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
        for at in TOKEN_PREFIX.len()..text.len() {
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
