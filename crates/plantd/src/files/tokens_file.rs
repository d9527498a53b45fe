//! The file with the digests of the tokens.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use plant_http::TokenRecord;
use serde::{Deserialize, Serialize};

use crate::files::private_file::{self, PrivateFile};

/// The environment variable that holds one more token of a server, with every scope, or the token that a client sends.
pub(crate) const TOKEN_VARIABLE: &str = "PLANTD_TOKEN";

/// The most tokens in a file: the token of each request is compared with every one of them.
pub(crate) const TOKENS_MAX: usize = 1000;

/// The permissions of users other than the owner; but see [`PrivateFile::is_open_to`].
const MODE_OF_OTHERS: u32 = 0o077;

/// The content of the file, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokensFile {
    /// The tokens, oldest first. At most [`TOKENS_MAX`], each with a name of its own.
    pub(crate) tokens: Vec<TokenRecord>,
}

impl TokensFile {
    /// The bytes of the file; `None` if there is none. Fails as [`PrivateFile::read`], and when other users have permissions.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(file) = PrivateFile::read(path, "--tokens")? else { return Ok(None) };
        ensure!(
            !file.is_open_to(MODE_OF_OTHERS),
            "other users have permissions on {}; run: chmod 600 {}",
            path.display(),
            shlex::try_quote(&path.to_string_lossy())?
        );
        Ok(Some(file.bytes))
    }

    /// Parses the bytes. The error says where the file is broken, but quotes nothing, because the text may be a secret.
    pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let file = Self::parse_unchecked(bytes)?;
        let count = file.tokens.len();
        ensure!(count <= TOKENS_MAX, "it has {count} tokens, more than {TOKENS_MAX}; revoke some");
        let mut names = HashSet::new();
        for TokenRecord { name, .. } in &file.tokens {
            ensure!(
                names.insert(name.to_string()),
                "it has several tokens with the name {name}; revoke them: plantd token revoke {name}"
            );
        }
        Ok(file)
    }

    /// Parses a file that may have too many tokens, or several with one name, so that they can be revoked.
    fn parse_unchecked(bytes: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(bytes).map_err(|cause| {
            anyhow::anyhow!(
                "it is broken at line {}, column {}; correct it, or remove it and make new tokens",
                cause.line(),
                cause.column()
            )
        })
    }

    /// Reads and parses the file; `None` if there is none.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let Some(bytes) = Self::load(path)? else { return Ok(None) };
        Self::parse(&bytes).map(Some).with_context(|| path.display().to_string())
    }

    /// Removes the tokens that have expired, and adds a token unless another one has its name. Returns whether the token was
    /// added.
    pub(crate) fn add(path: &Path, record: TokenRecord) -> anyhow::Result<bool> {
        Self::edit(path, |file| {
            file.tokens.retain(|token| !token.is_expired());
            let is_free = file.tokens.iter().all(|token| token.name != record.name);
            if is_free {
                file.tokens.push(record);
            }
            Ok(is_free)
        })
    }

    /// Changes or makes the file, atomically and under a lock. After an error, the file is unchanged.
    pub(crate) fn edit<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let _lock = private_file::lock(path)?;
        let mut file = match Self::load(path)? {
            None => Self::default(),
            Some(bytes) => {
                Self::parse_unchecked(&bytes).with_context(|| path.display().to_string())?
            }
        };
        let before = file.tokens.len();
        let changed = change(&mut file)?;
        // A file with too many tokens can be edited as long as it does not grow.
        if file.tokens.len() > TOKENS_MAX.max(before) {
            bail!("there are {TOKENS_MAX} tokens already; revoke some");
        }
        let mut text = serde_json::to_string_pretty(&file)?;
        text.push('\n');
        private_file::write(path, &text)?;
        Ok(changed)
    }
}
