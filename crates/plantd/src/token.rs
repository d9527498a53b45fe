//! `plantd token create`, `list` and `revoke`.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Subcommand};
use plant_http::{Scope, Token, TokenName, TokenRecord};

use crate::exit::Stop;
use crate::files::data_folder::{DataOptions, make_folder};
use crate::files::json_file::JsonFile as _;
use crate::files::tokens_file::{TOKEN_VARIABLE, TokensFile};
use crate::option_value::duration;
use crate::print::{print, say};
use crate::serve::first_run;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it, once; expired tokens are removed
    Create(TokenCreateOptions),
    /// List the tokens
    List(DataOptions),
    /// Revoke a token
    Revoke(TokenRevokeOptions),
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Standard output gets the token alone, and standard error says until when it is valid. Only a digest \
    of the token is stored, so plantd cannot show it again. A running server notices new and revoked tokens within 2 s."
)]
pub(crate) struct TokenCreateOptions {
    /// The name in the list and the log; no other token may have it
    #[arg(long, value_name = "NAME")]
    name: String,

    /// What the token permits
    #[arg(long, value_name = "SCOPE", value_parser = scope())]
    scope: Scope,

    /// How long the token is valid: a number with its unit, such as 30m, 12h or 90d
    /// [default: forever]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    expires: Option<Duration>,

    #[command(flatten, next_help_heading = "Data")]
    data: DataOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TokenRevokeOptions {
    /// The name of the token
    name: String,

    #[command(flatten, next_help_heading = "Data")]
    data: DataOptions,
}

/// What a token with this scope permits.
const fn permission(scope: Scope) -> &'static str {
    match scope {
        Scope::Metrics => "read the metrics",
        Scope::Backup => "make backups, and read the metrics",
        Scope::Read => "read plants, events and the metrics",
        Scope::Write => "everything: also create, change and delete plants",
    }
}

/// Parses a scope. The help and the completions list the scopes, and what each permits.
fn scope() -> impl TypedValueParser<Value = Scope> {
    let value = |scope: Scope| PossibleValue::new(scope.name()).help(permission(scope));
    PossibleValuesParser::new(Scope::ALL.map(value)).try_map(|name| {
        let named = Scope::ALL.into_iter().find(|scope| scope.name() == name);
        named.context("there is no such scope")
    })
}

/// Adds the scopes, and what each permits, to clap's error about a missing scope: clap names only the option.
pub(crate) fn explain_scopes(error: &mut clap::Error) {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return };
    if missing.iter().any(|option| option.starts_with("--scope ")) {
        let tip = |scope| StyledStr::from(format!("--scope {scope:7}  {}", permission(scope)));
        let tips = Scope::ALL.map(tip).to_vec();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

/// Parses a token's name. If the text is a token itself, the error asks for the name.
fn token_name(text: String) -> anyhow::Result<TokenName> {
    let is_token = text.starts_with(Token::PREFIX);
    TokenName::new(text).map_err(|error| match is_token {
        true => anyhow!("{error}; `plantd token list` shows the names"),
        false => error.into(),
    })
}

pub(crate) fn run(command: TokenCommand) -> Result<(), Stop> {
    match command {
        TokenCommand::Create(options) => create(options),
        TokenCommand::List(options) => list(&options),
        TokenCommand::Revoke(options) => revoke(options),
    }
}

fn create(options: TokenCreateOptions) -> Result<(), Stop> {
    if options.name == TOKEN_VARIABLE {
        return Err(Stop::Usage(anyhow!(
            "the log uses the name {TOKEN_VARIABLE} for the token in the environment; choose another"
        )));
    }
    let name = token_name(options.name).map_err(Stop::Usage)?;
    let token = Token::random()?;
    let mut record = TokenRecord::new(name.clone(), options.scope, &token);
    if let Some(lifetime) = options.expires {
        let expiring = record.expiring_after(lifetime).context("--expires cannot be used");
        record = expiring.map_err(Stop::Usage)?;
    }
    let path = options.data.tokens_path();
    if options.data.tokens.is_none() {
        make_folder(&options.data.folder)?;
    }
    if !TokensFile::add(&path, record.clone()).map_err(Stop::of_file)? {
        return Err(Stop::Usage(anyhow!(
            "there is a token with the name {name} already; choose another name, or revoke that token first: plantd token \
             revoke {name}"
        )));
    }
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{}", token.reveal()).and_then(|()| out.flush());
    printed.context("cannot print the token").map_err(|cause| {
        // A token that could not be printed must not stay in the list.
        let removed = TokensFile::edit(&path, |file| {
            file.tokens.retain(|other| !other.is_of_same_token(&record));
            Ok(())
        });
        Stop::Io(cause.context(match removed {
            Ok(()) => "no token was made",
            Err(_) => "a token was made and not shown; revoke it",
        }))
    })?;
    say(&match record.expires {
        Some(expires) => format!("valid until {expires:.0}"),
        None => "never expires".to_owned(),
    });
    Ok(())
}

fn list(options: &DataOptions) -> Result<(), Stop> {
    let path = options.tokens_path();
    let file = TokensFile::read(&path).map_err(Stop::of_file)?;
    let file = file.ok_or_else(|| no_tokens_file(&path))?;
    Ok(print(table(&file.tokens).as_bytes())?)
}

fn table(tokens: &[TokenRecord]) -> String {
    let lengths = tokens.iter().map(|token| token.name.to_string().len());
    let width = lengths.fold("NAME".len(), usize::max);
    let mut table = format!("{:width$}  SCOPE    {:20}  EXPIRES\n", "NAME", "CREATED");
    for token in tokens {
        let TokenRecord { name, scope, created, expires, .. } = token;
        let expires = match expires {
            None => "never".to_owned(),
            Some(expires) if token.is_expired() => format!("{expires:.0} (expired)"),
            Some(expires) => format!("{expires:.0}"),
        };
        table += &format!("{name:width$}  {scope:7}  {created:.0}  {expires}\n");
    }
    table
}

fn revoke(options: TokenRevokeOptions) -> Result<(), Stop> {
    let name = token_name(options.name).map_err(Stop::Usage)?;
    let path = options.data.tokens_path();
    if TokensFile::read_bytes(&path).map_err(Stop::of_file)?.is_none() {
        return Err(no_tokens_file(&path));
    }
    let revoked: Vec<TokenRecord> = TokensFile::edit(&path, |file| {
        Ok(file.tokens.extract_if(.., |token| token.name == name).collect())
    })
    .map_err(Stop::of_file)?;
    if revoked.is_empty() {
        return Err(Stop::Usage(anyhow!(
            "there is no token of this name; `plantd token list` shows the names"
        )));
    }
    let data = &options.data.folder;
    let removed = first_run::remove_token_file(data, &revoked).with_context(|| {
        format!("revoked {name}; remove first-run-token in {} yourself", data.display())
    });
    let mut said = format!("revoked {name}");
    if let Some(path) = removed? {
        said += &format!(", and removed {}, which held it", path.display());
    }
    Ok(print(format!("{said}\n").as_bytes())?)
}

fn no_tokens_file(path: &Path) -> Stop {
    Stop::Io(anyhow!("there is no {}; choose another with --tokens or --data", path.display()))
}
