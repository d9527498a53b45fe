//! The file that keeps the tokens' digests.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::private_file::{self, PrivateFile};
use crate::token::{Digest, TOKEN_PREFIX, Token};

/// The most tokens that there may be: each request is compared with every one of them.
pub const TOKENS_MAX: usize = 1000;

/// The longest name of a token, in characters.
pub const TOKEN_NAME_MAX_CHARACTERS: usize = 64;

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

/// What is in the file, as JSON.
///
/// ```
/// use std::time::Duration;
///
/// use plant_http::{Scope, Token, TokenName, TokenRecord, Tokens, TokensFile};
///
/// # fn main() -> anyhow::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("tokens.json");
/// let token = Token::random()?;
/// let record = TokenRecord::new(TokenName::new("app")?, Scope::Read, &token);
/// TokensFile::add(&path, record.expiring_after(Duration::from_secs(90 * 24 * 3600))?)?;
///
/// let file = TokensFile::read(&path)?.unwrap_or_default();
/// let tokens = Tokens::new(file.tokens);
///
/// // Revokes it, in the file and in a service that has these tokens.
/// let left = TokensFile::edit(&path, |file| {
///     file.tokens.retain(|record| record.name.to_string() != "app");
///     Ok(file.tokens.clone())
/// })?;
/// assert!(left.is_empty());
/// tokens.replace(left);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensFile {
    /// The tokens, in the order in which they were made. At most [`TOKENS_MAX`].
    pub tokens: Vec<TokenRecord>,
}

impl TokensFile {
    /// The bytes of the file; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As [`PrivateFile::read`], and when it is open to others than its owner.
    pub fn load(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(file) = PrivateFile::read(path, "--tokens")? else { return Ok(None) };
        ensure!(
            !file.is_open_to(MODE_OF_OTHERS),
            "{} is open to others than its owner; run: chmod 600 {}",
            path.display(),
            shlex::try_quote(&path.to_string_lossy())?
        );
        Ok(Some(file.bytes))
    }

    /// Reads what [`load`](Self::load) has given.
    ///
    /// # Errors
    ///
    /// When it is not what we write. The message says where, and nothing of what stands there: it may be a
    /// secret that someone put there.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let file = Self::parse_any_number(bytes)?;
        let count = file.tokens.len();
        ensure!(
            count <= TOKENS_MAX,
            "it has {count} tokens, and at most {TOKENS_MAX} may be; revoke some"
        );
        Ok(file)
    }

    fn parse_any_number(bytes: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(bytes).map_err(|cause| {
            anyhow::anyhow!(
                "it is broken at line {}, column {}; mend it, or remove it and make new tokens",
                cause.line(),
                cause.column()
            )
        })
    }

    /// Reads the file; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load) and [`parse`](Self::parse).
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let Some(bytes) = Self::load(path)? else { return Ok(None) };
        Self::parse(&bytes).map(Some).with_context(|| path.display().to_string())
    }

    /// Adds a token to the file, or makes the file. Tokens that have expired go.
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit).
    pub fn add(path: &Path, record: TokenRecord) -> anyhow::Result<()> {
        Self::edit(path, |file| {
            file.tokens.retain(|token| !token.is_expired());
            file.tokens.push(record);
            Ok(())
        })
    }

    /// Changes the file, or makes it, whole or not at all, for its owner alone. Nobody else changes it
    /// meanwhile by this.
    ///
    /// # Errors
    ///
    /// When it cannot be read, when `change` fails, or when the disk does not take it; then the file is as
    /// it was.
    pub fn edit<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let _lock = private_file::lock(path)?;
        let mut file = match Self::load(path)? {
            None => Self::default(),
            Some(bytes) => {
                Self::parse_any_number(&bytes).with_context(|| path.display().to_string())?
            }
        };
        let before = file.tokens.len();
        let changed = change(&mut file)?;
        // Where there are too many, some can be revoked.
        if file.tokens.len() > TOKENS_MAX.max(before) {
            bail!("there are {TOKENS_MAX} tokens already; revoke some");
        }
        let mut text = serde_json::to_string_pretty(&file)?;
        text.push('\n');
        private_file::write(path, &text)?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::thread;

    use super::*;
    use crate::private_file::PRIVATE_FILE_MAX_BYTES;

    fn record(name: &str) -> TokenRecord {
        let name = TokenName::new(name).expect("a good name");
        TokenRecord::new(name, Scope::Read, &Token::random().expect("random bytes"))
    }

    #[test]
    fn the_tokens_file_reads_back_and_holds_digests_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        assert!(TokensFile::read(&path).unwrap().is_none());

        let token = Token::random().unwrap();
        let record = TokenRecord::new(TokenName::new("test").unwrap(), Scope::Read, &token);
        TokensFile::add(&path, record).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(&path).unwrap().contains(token.reveal()));

        let read_back = TokensFile::read(&path).unwrap().expect("it is there");
        assert!(read_back.tokens[0].sha256.is(&token.digest()));
        assert!(!read_back.tokens[0].sha256.is(&Token::random().unwrap().digest()));
    }

    #[test]
    fn those_who_change_the_file_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..8 {
                        let record = record(&format!("by-{number}"));
                        TokensFile::add(path, record).unwrap();
                    }
                });
            }
        });
        assert_eq!(TokensFile::read(&path).unwrap().expect("it is there").tokens.len(), 64);
    }

    #[test]
    fn a_link_to_the_file_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("tokens.json"), folder.path().join("link"));
        TokensFile::edit(&path, |_| Ok(())).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        TokensFile::add(&link, record("test")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(TokensFile::read(&path).unwrap().expect("it is there").tokens.len(), 1);
    }

    #[test]
    fn there_are_no_more_tokens_than_there_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let many = vec![record(&"x".repeat(TOKEN_NAME_MAX_CHARACTERS)); TOKENS_MAX];
        TokensFile::edit(&path, |file| {
            file.tokens = many;
            Ok(())
        })
        .unwrap();
        let length = fs::metadata(&path).unwrap().len();
        assert!(length * 3 <= PRIVATE_FILE_MAX_BYTES, "the file is too large");
        let refused = TokensFile::add(&path, record("test"));
        assert!(refused.unwrap_err().to_string().contains("revoke"));
        assert_eq!(TokensFile::read(&path).unwrap().expect("it is there").tokens.len(), TOKENS_MAX);

        // A file of someone else's making is no dead end.
        let file = TokensFile { tokens: vec![record("x"); TOKENS_MAX + 2] };
        fs::write(&path, serde_json::to_string(&file).unwrap()).unwrap();
        assert!(TokensFile::read(&path).is_err());
        TokensFile::edit(&path, |file| {
            file.tokens.pop();
            Ok(())
        })
        .unwrap();
        assert!(TokensFile::add(&path, record("test")).is_err());
    }

    #[test]
    fn a_token_that_has_expired_goes_when_another_one_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let past = Timestamp::now() - Duration::from_secs(1);
        TokensFile::add(&path, TokenRecord { expires: Some(past), ..record("old") }).unwrap();
        let names = || -> Vec<String> {
            let file = TokensFile::read(&path).unwrap().expect("it is there");
            file.tokens.into_iter().map(|token| token.name.to_string()).collect()
        };
        assert_eq!(names(), ["old"]);
        TokensFile::add(&path, record("new")).unwrap();
        assert_eq!(names(), ["new"]);
    }

    #[test]
    fn a_tokens_file_that_is_broken_or_open_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        TokensFile::edit(&path, |_| Ok(())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = TokensFile::read(&path).unwrap_err().to_string();
        assert!(refusal.contains("chmod 600"), "{refusal}");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for broken in [
            "",
            "{",
            "[]",
            r#"{"tokens":["secret"]}"#,
            r#"{"tokens":[{"name":"x"}]}"#,
            r#"{"tokens":[],"secret":1}"#,
            r#"{"tokens":[{"name":"x","scope":"secret"}]}"#,
            r#"{"tokens":[{"name":"secret "}]}"#,
            r#"{"tokens":[{"sha256":"secret"}]}"#,
            &format!(r#"{{"tokens":[{{"sha256":"{}"}}]}}"#, "+f".repeat(32)),
        ] {
            fs::write(&path, broken).unwrap();
            let refusal = format!("{:#}", TokensFile::read(&path).map(drop).unwrap_err());
            assert!(refusal.contains("line") && !refusal.contains("secret"), "{refusal}");
        }
        fs::write(&path, vec![b' '; usize::try_from(PRIVATE_FILE_MAX_BYTES).unwrap() + 1]).unwrap();
        assert!(TokensFile::read(&path).is_err(), "a file that is too large");
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
