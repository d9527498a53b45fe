//! The first start: a token, and a command that shows how to use it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use plant_http::{Scope, Token, TokenName, TokenRecord};

use crate::files::private_file::{self, PrivateFile};
use crate::files::tokens_file::TokensFile;
use crate::serve::server_address::ServerAddress;

const TOKEN_NAME: &str = "first-run";

/// Makes a token with every scope, in the file `first-run-token` in `data`. The token is written before its digest, so
/// that a kill in between does not leave the digest of an unknown token, and the next start is a first start again.
pub(crate) fn make_token(data: &Path, tokens_path: &Path) -> anyhow::Result<()> {
    let token = Token::random()?;
    private_file::write(&token_path(data), &format!("{}\n", token.reveal()))?;
    let record = TokenRecord::new(TokenName::new(TOKEN_NAME)?, Scope::Write, &token);
    TokensFile::add(tokens_path, record)
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

/// A command to paste that creates a plant with the token. `data` must exist.
pub(crate) fn curl_command(data: &Path, address: &ServerAddress) -> anyhow::Result<String> {
    let data = data.canonicalize().with_context(|| format!("cannot find {}", data.display()))?;
    let token_path = token_path(&data);
    let token_path = token_path
        .to_str()
        .with_context(|| format!("{} is not UTF-8; name another by --data", data.display()))?;
    let token_path = shlex::try_quote(token_path)?;
    let address = address.curl_arguments()?;
    Ok(format!(
        "curl -sS -H \"Authorization: Bearer $(cat {token_path})\" \
         -H 'Content-Type: application/json' \
         -d '{{\"id\":1,\"name\":\"Rosa canina\",\"tag\":\"Rosaceae\"}}' {address}"
    ))
}

fn token_path(data: &Path) -> PathBuf {
    data.join("first-run-token")
}
