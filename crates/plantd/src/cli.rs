//! The command line. Flags win over the environment, the environment over the default.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use plant_http::transfer::{ImportFormat, TransferFormat};
use plant_http::{CorsOrigin, Scope, Token};
use plant_store::{DEFAULT_CACHE_MIB, DEFAULT_KEEP_EVENTS, OnConflict};

use crate::exit_code;
use crate::listen::ListenOptions;
use crate::postgres::{PostgresOptions, PostgresServeOptions};
use crate::remote::ServerUrl;

/// The largest cache, in MiB: more than any machine has.
const CACHE_MAX_MIB: u64 = 1_048_576;

/// A plant store in one binary: add a plant over HTTP with a bearer token, and it is on disk before
/// you get the answer.
#[derive(Debug, Parser)]
#[command(name = "plantd", version)]
#[command(after_help = "Without a subcommand, plantd serves.\n\
    PLANTD_TOKEN in the environment is one more token, with every scope.\n\
    RUST_LOG sets the log level (off, error, warn, info, debug or trace); without it the level is info.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve plants over HTTP
    Serve(Box<ServeOptions>),
    /// Send the plants in a file to a running server
    Import(ImportOptions),
    /// Get all plants from a running server, or what can be read from a folder that no server has open
    Export(ExportOptions),
    /// Compare everything that a folder holds that no server has open, and list what does not agree
    Verify(VerifyOptions),
    /// Make, list and revoke tokens; a running server notices within 2 s
    #[command(subcommand)]
    Token(TokenCommand),
    /// Make the tables in PostgreSQL, or bring them to the version of this program; servers may use them meanwhile
    Migrate(Box<MigrateOptions>),
    /// Print the OpenAPI document of what is served
    Openapi,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    pub(crate) listen: ListenOptions,

    #[command(flatten)]
    pub(crate) folder: FolderOptions,

    #[command(flatten)]
    pub(crate) postgres: PostgresServeOptions,

    /// sled's cache, in MiB; the process takes several times as much memory
    #[arg(long, value_name = "N", env = "PLANTD_CACHE_MB")]
    #[arg(default_value_t = DEFAULT_CACHE_MIB, value_parser = whole_number(1..=CACHE_MAX_MIB))]
    #[arg(allow_hyphen_values = true)]
    pub(crate) cache_mb: u64,

    /// How many of the newest events are kept
    #[arg(long, value_name = "N", env = "PLANTD_KEEP_EVENTS")]
    #[arg(default_value_t = DEFAULT_KEEP_EVENTS, value_parser = whole_number(0..=u64::MAX))]
    #[arg(allow_hyphen_values = true)]
    pub(crate) keep_events: u64,

    /// After SIGTERM, how long new connections are still taken while /readyz answers 503
    #[arg(long, value_name = "DURATION", env = "PLANTD_DRAIN_DELAY")]
    #[arg(default_value = "1s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) drain_delay: Duration,

    /// After that, how long requests in flight may take
    #[arg(long, value_name = "DURATION", env = "PLANTD_DRAIN_TIMEOUT")]
    #[arg(default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) drain_timeout: Duration,

    /// How many requests a second each token may make [default: no limit]
    #[arg(long, value_name = "N", env = "PLANTD_RATE_LIMIT", allow_hyphen_values = true)]
    #[arg(value_parser = whole_number(NonZeroU32::MIN..=NonZeroU32::MAX))]
    pub(crate) rate_limit: Option<NonZeroU32>,

    /// The origin of a web page (its scheme, host and port) that browsers let talk to this server; may
    /// stand several times, and in the environment with commas in between [default: none]
    #[arg(long, value_name = "ORIGIN", env = "PLANTD_CORS_ORIGIN", value_delimiter = ',')]
    pub(crate) cors_origin: Vec<CorsOrigin>,
}

// Where the plants and the tokens are. (As a documentation comment it would be the first line of the help.)
#[derive(Clone, Debug, Args)]
pub(crate) struct FolderOptions {
    /// The folder of the plants and the tokens; it is made when it is not there
    #[arg(long, value_name = "DIR", env = "PLANTD_DATA", default_value = "plantd-data")]
    pub(crate) data: PathBuf,

    /// The file of the tokens' digests [default: DIR/tokens.json]
    #[arg(long, value_name = "FILE", env = "PLANTD_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
}

impl FolderOptions {
    pub(crate) fn tokens_path(&self) -> PathBuf {
        self.tokens.clone().unwrap_or_else(|| self.data.join("tokens.json"))
    }
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print it: it is shown this once, and only its digest is kept; those that have
    /// expired go
    Create(TokenCreateOptions),
    /// List the tokens
    List(FolderOptions),
    /// Let tokens be in force no more
    Revoke(TokenRevokeOptions),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TokenCreateOptions {
    /// What the list and the log call it; another token may have the same name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,

    /// What it lets its holder do; write includes read
    #[arg(long, value_name = "read|write", default_value = "write", value_parser = scope)]
    pub(crate) scope: Scope,

    /// After how long it stops being valid, such as 30s, 12h or 90d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) expires: Option<Duration>,

    #[command(flatten)]
    pub(crate) folder: FolderOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TokenRevokeOptions {
    /// The name; all tokens that have it are revoked
    pub(crate) name: String,

    /// Keep the newest of them, to which its holders have changed
    #[arg(long)]
    pub(crate) keep_newest: bool,

    #[command(flatten)]
    pub(crate) folder: FolderOptions,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "It ends with 0 when every plant was taken or skipped, and with 1 when there \
    are some that were not;\nthose are listed, and the others are in the store."
)]
pub(crate) struct ImportOptions {
    /// The file of the plants; - is standard input, which must not rest for 10 s
    pub(crate) file: PathBuf,

    /// What is in the file; json is an array of plants [default: as its name says, .csv, .json, .ndjson or .jsonl;
    /// ndjson for -]
    #[arg(long, value_name = "csv|json|ndjson")]
    pub(crate) format: Option<ImportFormat>,

    /// What becomes of a plant whose id is taken
    #[arg(long, value_name = "error|skip|replace", default_value_t)]
    pub(crate) on_conflict: OnConflict,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A file is written whole or not at all. With --data, plants that cannot be read \
    are listed and left out,\nand it ends with 1."
)]
pub(crate) struct ExportOptions {
    /// The file to write; - is standard output
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,

    /// What to write [default: as the file's name says, .csv, .ndjson or .jsonl; ndjson for -]
    #[arg(long, value_name = "csv|ndjson")]
    pub(crate) format: Option<TransferFormat>,

    /// Read the plants from this folder, which no server has open, also where it is damaged
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "token_file"])]
    pub(crate) data: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "It ends with 0 when everything agrees, with 1 when something does not or is damaged, \
    and with 74\nwhen it cannot look.\n\
    What a start would do first is done: sled recovers its log, and the journal is applied."
)]
pub(crate) struct VerifyOptions {
    /// The folder of the plants and the tokens
    #[arg(long, value_name = "DIR", env = "PLANTD_DATA", default_value = "plantd-data")]
    pub(crate) data: PathBuf,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A server does the same when it starts, where its user of the database may. This is for one who \
    may:\nmake the tables as that one, and grant the server's user USAGE on the schema, USAGE and SELECT on its sequence, and \
    SELECT, INSERT,\nUPDATE and DELETE on its tables."
)]
pub(crate) struct MigrateOptions {
    #[command(flatten)]
    pub(crate) postgres: PostgresOptions,
}

/// Where a running server is, and who asks it.
#[derive(Clone, Debug, Args)]
pub(crate) struct RemoteOptions {
    /// Where the server is; for https the certificates of this system count, or those in the file that
    /// SSL_CERT_FILE names
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    pub(crate) url: ServerUrl,

    /// The file of the token [default: the token is in PLANTD_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl Cli {
    /// Reads the command line and the environment of this process. Where there is nothing to run
    /// (help, version, a mistake), it says what there is to say and how to end.
    pub(crate) fn from_process() -> Result<Self, ExitCode> {
        Self::parse(std::env::args_os().collect()).map_err(|error| {
            // Nobody is there to be told when it cannot be printed.
            let said = error.to_string();
            let secret = if said.contains(Token::PREFIX) {
                Some("token")
            } else {
                holds_password(&said).then_some("password")
            };
            let _ = match secret {
                Some(secret) => writeln!(
                    io::stderr(),
                    "error: the command line is wrong; it holds a {secret}, so it is not shown"
                ),
                None => error.print(),
            };
            if error.exit_code() == 0 {
                return ExitCode::SUCCESS;
            }
            let Some(flag) = flag_of_environment(&error) else {
                return ExitCode::from(exit_code::USAGE);
            };
            if let Some(variable) = flag.and_then(|flag| variable_of(&Self::command(), &flag)) {
                let variable = variable.display();
                let _ =
                    writeln!(io::stderr(), "The value comes from {variable} in the environment.");
            }
            ExitCode::from(exit_code::CONFIGURATION)
        })
    }

    /// `plantd` without a subcommand is `plantd serve`. The options of the subcommand are not the
    /// program's as well, for then the environment would be read for those that are not used.
    fn parse(mut arguments: Vec<OsString>) -> clap::error::Result<Self> {
        let mut command = Self::command().mut_subcommand("serve", |serve| serve.arg(port_hint()));
        let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
        match first {
            "-V" | "--version" => {}
            // The help of the program shows the options of what it does by default.
            "-h" | "--help" => command = ServeOptions::augment_args(command),
            _ if first.starts_with('-') || arguments.len() == 1 => {
                arguments.insert(1, "serve".into());
            }
            _ => {}
        }
        let matches = command.try_get_matches_from_mut(arguments)?;
        let cli = Self::from_arg_matches(&matches)?;
        if let (Command::Serve(options), Some((_, matches))) = (&cli.command, matches.subcommand())
        {
            options.listen.check(matches, &mut command)?;
        }
        Ok(cli)
    }
}

/// `Some` when a wrong value came from the environment, for its flag is not on the command line. Holds that flag, if it
/// is known.
fn flag_of_environment(error: &clap::Error) -> Option<Option<String>> {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return std::env::args_os().all(|argument| argument.to_str().is_some()).then_some(None);
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = argument.split(' ').next().unwrap_or_default();
    let on_command_line = std::env::args_os().skip(1).any(|given| {
        let given = given.to_string_lossy();
        given.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    });
    (flag.starts_with("--") && !on_command_line).then(|| Some(flag.to_owned()))
}

/// The variable in the environment that stands for a flag.
fn variable_of(command: &clap::Command, flag: &str) -> Option<OsString> {
    let long = flag.trim_start_matches("--");
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(long));
    let variable = argument.and_then(Arg::get_env).map(OsStr::to_owned);
    variable.or_else(|| command.get_subcommands().find_map(|command| variable_of(command, flag)))
}

/// Answers `--port`, which many other programs have. Without this, clap would suggest the most similar flag, which means
/// something else.
fn port_hint() -> Arg {
    let hint = "where to listen is --listen ADDRESS:PORT, such as --listen 127.0.0.1:8090";
    Arg::new("port")
        .long("port")
        .value_name("PORT")
        .hide(true)
        .value_parser(UnknownArgumentValueParser::suggest(hint))
}

/// Reads a whole number in this range.
pub(crate) fn whole_number<Number: FromStr + PartialOrd + Display>(
    range: RangeInclusive<Number>,
) -> impl Fn(&str) -> Result<Number, String> + Clone
where
    RangeInclusive<Number>: Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("give a whole number from {least} to {most}"))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|cause| {
        format!("{cause}; give a duration with its unit, such as 500ms, 10s or 90d")
    })
}

/// Whether there is a password in a URL of PostgreSQL, which somebody has put in the wrong place.
fn holds_password(text: &str) -> bool {
    let urls = ["postgres://", "postgresql://"].into_iter();
    urls.flat_map(|scheme| text.split(scheme).skip(1)).any(|rest| {
        // The help says where a password belongs.
        let is_user = |user: &str| user.contains(':') && user != "USER:PASSWORD";
        let rest = rest.lines().next().unwrap_or_default();
        rest.split_once('@').is_some_and(|(user, _)| is_user(user))
    })
}

fn scope(text: &str) -> Result<Scope, &'static str> {
    match text {
        "read" => Ok(Scope::Read),
        "write" => Ok(Scope::Write),
        _ => Err("a scope is read or write"),
    }
}
