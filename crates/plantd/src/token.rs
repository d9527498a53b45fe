//! `plantd token create`, `list` and `revoke`.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use plant_http::{Scope, Token, TokenName, TokenRecord};

use crate::exit::Stop;
use crate::files::data_folder::{DataOptions, make_folder};
use crate::files::tokens_file::{TOKEN_VARIABLE, TokensFile};
use crate::option_value::duration;
use crate::serve::first_run;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once: only its digest is stored. Also removes expired tokens
    Create(TokenCreateOptions),
    /// List the tokens
    List(DataOptions),
    /// Revoke the tokens of a name
    Revoke(TokenRevokeOptions),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TokenCreateOptions {
    /// The name in the list and the log; several tokens may have the same name
    #[arg(long, value_name = "NAME")]
    name: String,

    /// What the token permits: write is for everything, and each of the others includes metrics
    #[arg(long, value_name = "metrics|backup|read|write", default_value = "write", value_parser = scope)]
    scope: Scope,

    /// How long the token is valid, such as 30s, 12h or 90d [default: forever]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    expires: Option<Duration>,

    #[command(flatten)]
    data: DataOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TokenRevokeOptions {
    /// The name; all tokens with it are revoked
    name: String,

    /// Keep the newest of them, after clients have changed to it
    #[arg(long)]
    keep_newest: bool,

    #[command(flatten)]
    data: DataOptions,
}

fn scope(text: &str) -> Result<Scope, String> {
    let named = Scope::ALL.into_iter().find(|scope| scope.name() == text);
    named.ok_or_else(|| format!("a scope is {}", Scope::ALL.map(Scope::name).join(", ")))
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
    let mut record = TokenRecord::new(name, options.scope, &token);
    if let Some(lifetime) = options.expires {
        let expiring = record.expiring_after(lifetime).context("--expires cannot be used");
        record = expiring.map_err(Stop::Usage)?;
    }
    let path = options.data.tokens_path();
    if options.data.tokens.is_none() {
        make_folder(&options.data.folder)?;
    }
    TokensFile::add(&path, record.clone()).map_err(Stop::of_file)?;
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
    })
}

fn list(options: &DataOptions) -> Result<(), Stop> {
    let path = options.tokens_path();
    let file = TokensFile::read(&path).map_err(Stop::of_file)?;
    let file = file.ok_or_else(|| no_tokens_file(&path))?;
    Ok(print_list(&file.tokens, &mut io::stdout().lock()).context("cannot print")?)
}

fn print_list(tokens: &[TokenRecord], out: &mut impl Write) -> io::Result<()> {
    let width =
        tokens.iter().map(|token| token.name.to_string().len()).fold("NAME".len(), usize::max);
    writeln!(out, "{:width$}  SCOPE  {:20}  EXPIRES", "NAME", "CREATED")?;
    for token in tokens {
        let TokenRecord { name, scope, created, expires, .. } = token;
        write!(out, "{name:width$}  {scope:5}  {created:.0}  ")?;
        match expires {
            None => writeln!(out, "never")?,
            Some(expires) if token.is_expired() => writeln!(out, "{expires:.0} (expired)")?,
            Some(expires) => writeln!(out, "{expires:.0}")?,
        }
    }
    out.flush()
}

fn revoke(options: TokenRevokeOptions) -> Result<(), Stop> {
    let name = token_name(options.name).map_err(Stop::Usage)?;
    let path = options.data.tokens_path();
    if TokensFile::load(&path).map_err(Stop::of_file)?.is_none() {
        return Err(no_tokens_file(&path));
    }
    let (found, revoked) = TokensFile::edit(&path, |file| {
        let is_found = file.tokens.iter().any(|token| token.name == name);
        let newest =
            file.tokens.iter().rposition(|token| token.name == name && !token.is_expired());
        let kept = newest.filter(|_| options.keep_newest);
        let mut position = 0;
        let revoked = file.tokens.extract_if(.., |token| {
            let goes = token.name == name && kept != Some(position);
            position += 1;
            goes
        });
        let revoked: Vec<TokenRecord> = revoked.collect();
        Ok((is_found, revoked))
    })
    .map_err(Stop::of_file)?;
    if !found {
        return Err(Stop::Usage(anyhow!(
            "there is no token of this name; `plantd token list` shows the names"
        )));
    }
    let count = revoked.len();
    let tokens = if count == 1 { "token" } else { "tokens" };
    let data = &options.data.folder;
    let removed = first_run::remove_token_file(data, &revoked).with_context(|| {
        format!("revoked {count} {tokens}; remove first-run-token in {} yourself", data.display())
    });
    let mut said = format!("revoked {count} {tokens}");
    if let Some(path) = removed? {
        said += &format!(", and removed {}, which held it", path.display());
    }
    Ok(writeln!(io::stdout().lock(), "{said}").context("cannot print")?)
}

fn no_tokens_file(path: &Path) -> Stop {
    Stop::Io(anyhow!("there is no {}; choose another with --tokens or --data", path.display()))
}
