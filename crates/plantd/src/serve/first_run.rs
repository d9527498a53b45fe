//! The first start: a token, and how to use it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use plant_http::{Scope, Token, TokenName, TokenRecord};

use crate::files::json_file::JsonFile as _;
use crate::files::private_file::{self, PrivateFile};
use crate::files::tokens_file::TokensFile;
use crate::serve::server_address::ServerAddress;

const TOKEN_NAME: &str = "first-run";

/// Makes a token with every scope, in the file `first-run-token` in `data`, unless another server that shares the tokens
/// file has just made one. Returns whether a token was made. The token is written before its digest, so that a kill in
/// between does not leave the digest of an unknown token, and the next start is a first start again.
pub(crate) fn make_token(data: &Path, tokens_path: &Path) -> anyhow::Result<bool> {
    TokensFile::edit(tokens_path, |file| {
        if !file.tokens.is_empty() {
            return Ok(false);
        }
        let token = Token::random()?;
        private_file::write(&token_path(data), &format!("{}\n", token.reveal()))?;
        file.tokens.push(TokenRecord::new(TokenName::new(TOKEN_NAME)?, Scope::Write, &token));
        Ok(true)
    })
}

/// Removes the file `first-run-token` in `data` if its token is among these revoked ones. Returns the file.
pub(crate) fn remove_token_file(
    data: &Path,
    revoked: &[TokenRecord],
) -> anyhow::Result<Option<PathBuf>> {
    let path = token_path(data);
    let Some(file) = PrivateFile::read(&path, "--data")? else { return Ok(None) };
    let token = file.bytes.trim_ascii();
    if !revoked.iter().any(|record| record.is_of_token(token)) {
        return Ok(None);
    }
    fs::remove_file(&path)?;
    Ok(Some(path))
}

/// Where the token is, and what to do with it: the page for people, and a command to paste that creates a plant. `data`
/// must exist.
pub(crate) fn advice(data: &Path, address: &ServerAddress) -> anyhow::Result<String> {
    let data = data.canonicalize().with_context(|| format!("cannot find {}", data.display()))?;
    let token_path = token_path(&data);
    let token_path = token_path
        .to_str()
        .with_context(|| format!("{} is not UTF-8; choose another with --data", data.display()))?;
    let sign_in = address.url().map_or_else(String::new, |url| format!("sign in at {url}, or "));
    let quoted_path = shlex::try_quote(token_path)?;
    let address = address.curl_arguments()?;
    Ok(format!(
        "made a token, which is in {token_path}: {sign_in}create a plant with\n\n\
         curl -sS -H \"Authorization: Bearer $(cat {quoted_path})\" \
         -H 'Content-Type: application/json' \
         -d '{{\"id\":1,\"name\":\"Rosa canina\",\"tag\":\"Rosaceae\"}}' {address}\n"
    ))
}

fn token_path(data: &Path) -> PathBuf {
    data.join("first-run-token")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn first_starts_at_once_make_one_token_which_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (data, tokens_path) = (folder.path(), folder.path().join("tokens.json"));
        let made: usize = thread::scope(|scope| {
            let start = || make_token(data, &tokens_path).unwrap();
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            starts.into_iter().filter_map(|start| start.join().unwrap().then_some(())).count()
        });
        let tokens = TokensFile::read(&tokens_path).unwrap().unwrap().tokens;
        assert_eq!((made, tokens.len()), (1, 1));
        let token = fs::read(token_path(data)).unwrap();
        assert!(tokens[0].is_of_token(token.trim_ascii()));
    }
}
