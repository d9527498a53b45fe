//! Bearer tokens: what one looks like, which are in force, and the file that keeps their digests.
//!
//! The specification leaves open how a token is obtained, its form and its lifetime.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The fewest characters that a token from the environment may have.
pub const ENVIRONMENT_TOKEN_MIN_CHARACTERS: usize = 16;

/// What every token that we make starts with, so that people and secret scanners recognise one.
const TOKEN_PREFIX: &str = "plantd_";
const TOKEN_RANDOM_BYTES: usize = 32;

/// The bits of a file's mode that let others than its owner at it.
const MODE_OF_OTHERS: u32 = 0o077;

/// What a token lets its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// A token: `plantd_`, 256 random bits and a checksum, both in base64url.
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
        // A mistyped token and a lookalike in a scanned text show without asking the server.
        let checksum = crc32fast::hash(random.as_bytes()).to_be_bytes();
        let checksum = BASE64_URL_SAFE_NO_PAD.encode(checksum);
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

    /// The token itself. It must not reach a log.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Writes the token to a file for its owner alone, whole or not at all.
    ///
    /// # Errors
    ///
    /// When the disk does not take it; then the file is as it was.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        write_private_file(path, &format!("{}\n", self.0))
    }

    fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// The SHA-256 of a token, in hexadecimal where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Digest([u8; 32]);

impl Digest {
    fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
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
        if text.len() != 2 * digest.len() || !text.is_ascii() {
            return Err("a SHA-256 digest has 64 hexadecimal digits");
        }
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                .ok_or("a SHA-256 digest has hexadecimal digits only")?;
        }
        Ok(Self(digest))
    }
}

/// What is kept of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// What people call the token.
    pub name: String,
    /// What it lets its holder do.
    pub scope: Scope,
    /// When it was made.
    pub created: Timestamp,
    /// When it stops being valid, if ever.
    pub expires: Option<Timestamp>,
    sha256: Digest,
}

impl TokenRecord {
    /// The record of a token that is made now and never expires.
    #[must_use]
    pub fn new(name: &str, scope: Scope, token: &Token) -> Self {
        Self {
            name: name.to_owned(),
            scope,
            created: Timestamp::now(),
            expires: None,
            sha256: token.digest(),
        }
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// The file that keeps the tokens' digests, as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensFile {
    /// The tokens, in the order in which they were made.
    pub tokens: Vec<TokenRecord>,
}

impl TokensFile {
    /// Reads the file; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be read (then there is an [`io::Error`] in the chain of causes), is not what we
    /// write, or is open to others than its owner.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let cannot_read =
            || format!("cannot read {}; check the path, and who owns it", path.display());
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                ensure!(!path.is_symlink(), "{} is a link to nothing", path.display());
                return Ok(None);
            }
            Err(cause) => return Err(cause).with_context(cannot_read),
        };
        // Before it is opened: a pipe would be waited for.
        ensure!(metadata.is_file(), "{} is not a file; name another by --tokens", path.display());
        let mode = metadata.mode();
        ensure!(
            mode & MODE_OF_OTHERS == 0,
            "{} is open to others than its owner; run: chmod 600 {}",
            path.display(),
            shlex::try_quote(&path.to_string_lossy())?
        );
        let text = fs::read(path).with_context(cannot_read)?;
        let file = serde_json::from_slice(&text).with_context(|| {
            format!("{} is broken; mend it, or remove it and make new tokens", path.display())
        })?;
        Ok(Some(file))
    }

    /// Writes the file, whole or not at all, for its owner alone.
    ///
    /// # Errors
    ///
    /// When the disk does not take it; then the file is as it was.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_private_file(path, &text)
    }
}

/// Writes a file that only its owner may read, whole or not at all, and syncs it.
fn write_private_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let write = || -> io::Result<()> {
        // It is made with the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(folder)?.sync_all()
    };
    write().with_context(|| {
        format!("cannot write {}; check who owns its folder, and that it has room", path.display())
    })
}

/// The tokens in force.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    records: Vec<TokenRecord>,
}

impl Tokens {
    /// These tokens, each until it expires.
    #[must_use]
    pub fn new(records: Vec<TokenRecord>) -> Self {
        Self { records }
    }

    /// What the holder of `token` may do; `None` when the token is unknown or has expired.
    ///
    /// The time that this takes tells nothing of the tokens: digests are compared, each with each,
    /// in constant time.
    #[must_use]
    pub fn scope_of(&self, token: &[u8]) -> Option<Scope> {
        let digest = Digest::of(token);
        let mut found = None;
        for record in &self.records {
            if bool::from(record.sha256.0.ct_eq(&digest.0)) {
                found = Some(record);
            }
        }
        found.filter(|record| !record.is_expired(Timestamp::now())).map(|record| record.scope)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    fn record(scope: Scope, token: &Token) -> TokenRecord {
        TokenRecord::new("test", scope, token)
    }

    #[test]
    fn a_token_in_force_has_its_scope_and_others_have_none() {
        let (reader, writer) = (Token::random().unwrap(), Token::random().unwrap());
        let tokens = Tokens::new(vec![record(Scope::Read, &reader), record(Scope::Write, &writer)]);
        assert_eq!(tokens.scope_of(reader.reveal().as_bytes()), Some(Scope::Read));
        assert_eq!(tokens.scope_of(writer.reveal().as_bytes()), Some(Scope::Write));
        for unknown in ["", "plantd_", &reader.reveal()[1..], &format!("{}=", reader.reveal())] {
            assert_eq!(tokens.scope_of(unknown.as_bytes()), None, "{unknown:?}");
        }
    }

    #[test]
    fn an_expired_token_is_not_in_force() {
        let token = Token::random().unwrap();
        let now = Timestamp::now();
        for (expires, scope) in [
            (now - Duration::from_secs(1), None),
            (now + Duration::from_secs(3600), Some(Scope::Write)),
        ] {
            let record = TokenRecord { expires: Some(expires), ..record(Scope::Write, &token) };
            let tokens = Tokens::new(vec![record]);
            assert_eq!(tokens.scope_of(token.reveal().as_bytes()), scope);
        }
    }

    #[test]
    fn tokens_differ_and_carry_256_random_bits_and_a_checksum() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        let text = one.reveal().strip_prefix(TOKEN_PREFIX).expect("the prefix");
        let (random, checksum) = text.split_at(text.len() - 6);
        assert_eq!(BASE64_URL_SAFE_NO_PAD.decode(random).unwrap().len(), TOKEN_RANDOM_BYTES);
        let checksum = BASE64_URL_SAFE_NO_PAD.decode(checksum).unwrap();
        assert_eq!(checksum, crc32fast::hash(random.as_bytes()).to_be_bytes());
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

    #[test]
    fn the_tokens_file_reads_back_and_holds_digests_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        assert!(TokensFile::read(&path).unwrap().is_none());

        let token = Token::random().unwrap();
        TokensFile { tokens: vec![record(Scope::Read, &token)] }.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(&path).unwrap().contains(token.reveal()));

        let read_back = TokensFile::read(&path).unwrap().expect("it is there");
        let tokens = Tokens::new(read_back.tokens);
        assert_eq!(tokens.scope_of(token.reveal().as_bytes()), Some(Scope::Read));
    }

    #[test]
    fn a_tokens_file_that_is_broken_or_open_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        TokensFile::default().write(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = TokensFile::read(&path).unwrap_err().to_string();
        assert!(refusal.contains("chmod 600"), "{refusal}");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for broken in ["", "{", "[]", r#"{"tokens":[{"name":"x"}]}"#, r#"{"tokens":[],"more":1}"#] {
            fs::write(&path, broken).unwrap();
            assert!(TokensFile::read(&path).is_err(), "{broken:?}");
        }
    }
}
