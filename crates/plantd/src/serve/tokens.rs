//! The tokens that the server accepts: those in the tokens file, and the one in the environment.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use plant_http::{Scope, Token, TokenName, TokenRecord, Tokens};

use crate::environment::variable;
use crate::exit::Stop;
use crate::files::followed_file::follow;
use crate::files::json_file::JsonFile as _;
use crate::files::tokens_file::{TOKEN_VARIABLE, TokensFile};

pub(crate) fn environment_token() -> anyhow::Result<Option<TokenRecord>> {
    let Some(token) = variable(TOKEN_VARIABLE) else { return Ok(None) };
    let token = token
        .into_string()
        .map_err(|_| anyhow!("the token is not UTF-8"))
        .and_then(|token| Ok(Token::chosen(token)?))
        .with_context(|| format!("{TOKEN_VARIABLE} cannot be used"))?;
    Ok(Some(TokenRecord::new(TokenName::new(TOKEN_VARIABLE)?, Scope::Write, &token)))
}

/// The tokens of the file, which is reloaded from now on, and of the environment.
pub(crate) fn in_force(
    path: PathBuf,
    environment_token: Option<TokenRecord>,
    rate_limit: Option<NonZeroU32>,
) -> Result<Tokens, Stop> {
    let content = TokensFile::read_bytes(&path).map_err(Stop::of_file)?;
    let records = move |content: &Option<Vec<u8>>| -> anyhow::Result<Vec<TokenRecord>> {
        let mut records = match content {
            Some(bytes) => TokensFile::parse(bytes)?.tokens,
            None => Vec::new(),
        };
        // A token of the file keeps its scope and its expiry: the variable is also how a client is given its token.
        let is_new = |token: &TokenRecord| !records.iter().any(|it| it.is_of_same_token(token));
        let environment_token = environment_token.clone().filter(is_new);
        records.extend(environment_token);
        Ok(records)
    };
    let first = records(&content).with_context(|| path.display().to_string());
    let first = first.map_err(Stop::Configuration)?;
    if first.is_empty() {
        log::warn!(
            "there is no token, so every request is refused; make one: plantd token create --name NAME --scope write"
        );
    }
    let tokens = match rate_limit {
        Some(rate_limit) => Tokens::with_rate_limit(first, rate_limit),
        None => Tokens::new(first),
    };
    let read = {
        let path = path.clone();
        move || TokensFile::read_bytes(&path)
    };
    let take = {
        let tokens = tokens.clone();
        move |content: &Option<Vec<u8>>| {
            ensure!(
                content.is_some(),
                "{} is gone; put it back, or revoke by `plantd token`",
                path.display()
            );
            tokens.replace(records(content)?);
            Ok(())
        }
    };
    follow("the tokens file", content, read, take)?;
    Ok(tokens)
}
