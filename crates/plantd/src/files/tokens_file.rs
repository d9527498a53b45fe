//! The file with the digests of the tokens.

use std::collections::HashSet;
use std::path::Path;

use anyhow::ensure;
use plant_http::TokenRecord;
use serde::{Deserialize, Serialize};

use crate::files::json_file::JsonFile;

/// The environment variable that holds one more token of a server, with every scope, or the token that a client sends.
pub(crate) const TOKEN_VARIABLE: &str = "PLANTD_TOKEN";

/// The most tokens in a file: the token of each request is compared with every one of them.
pub(crate) const TOKENS_MAX: usize = 1000;

/// The content of the file, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokensFile {
    /// The tokens, oldest first. At most [`TOKENS_MAX`], each with a name of its own.
    pub(crate) tokens: Vec<TokenRecord>,
}

impl JsonFile for TokensFile {
    const FLAG: &'static str = "--tokens";
    const ADVICE: &'static str = "correct it, or remove it and make new tokens";

    fn check(&self) -> anyhow::Result<()> {
        let count = self.tokens.len();
        ensure!(count <= TOKENS_MAX, "it has {count} tokens, more than {TOKENS_MAX}; revoke some");
        let mut names = HashSet::new();
        for TokenRecord { name, .. } in &self.tokens {
            ensure!(
                names.insert(name.to_string()),
                "it has several tokens with the name {name}; revoke them: plantd token revoke {name}"
            );
        }
        Ok(())
    }
}

impl TokensFile {
    /// Removes the tokens that have expired, and adds a token unless another one has its name. Returns whether the token was
    /// added.
    pub(crate) fn add(path: &Path, record: TokenRecord) -> anyhow::Result<bool> {
        Self::edit(path, |file| {
            file.tokens.retain(|token| !token.is_expired());
            let is_free = file.tokens.iter().all(|token| token.name != record.name);
            if is_free {
                let count = file.tokens.len();
                ensure!(count < TOKENS_MAX, "there are {TOKENS_MAX} tokens already; revoke some");
                file.tokens.push(record);
            }
            Ok(is_free)
        })
    }
}
