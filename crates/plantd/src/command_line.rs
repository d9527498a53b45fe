//! The command line. Flags override the environment, which overrides the defaults.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use plant_http::Token;

use crate::client::health::HealthOptions;
use crate::environment::without_empty_variables;
use crate::exit;
use crate::help;
use crate::serve::ServeOptions;
use crate::store::archive::ArchiveCommand;
use crate::store::postgres::MigrateOptions;
use crate::store::restore::RestoreOptions;
use crate::store::verify::VerifyOptions;
use crate::token::{TokenCommand, explain_scopes};
use crate::transfer::backup::BackupOptions;
use crate::transfer::batch::BatchOptions;
use crate::transfer::events::EventsOptions;
use crate::transfer::export::ExportOptions;
use crate::transfer::get::GetOptions;
use crate::transfer::history::HistoryOptions;
use crate::transfer::import::ImportOptions;
use crate::transfer::list::ListOptions;
use crate::webhooks::command::WebhookCommand;

/// A plant store in one binary: add a plant over HTTP with a bearer token, and it is on disk before
/// you get the answer.
#[derive(Debug, Parser)]
#[command(name = "plantd", version, max_term_width = help::MAX_COLUMNS)]
#[command(override_usage = "plantd [OPTIONS] [COMMAND]", after_help = after_help())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve plants over HTTP
    Serve(Box<ServeOptions>),
    /// Print a plant of a running server
    Get(GetOptions),
    /// List the plants of a running server
    List(ListOptions),
    /// Print the changes of one plant, the newest first
    History(HistoryOptions),
    /// Send many changes, all of which happen or none
    Batch(BatchOptions),
    /// Import the plants in a file into a running server
    Import(ImportOptions),
    /// Export plants of a running server, or those of a data folder
    Export(ExportOptions),
    /// Print the changes of plants, and follow those still to come
    Events(EventsOptions),
    /// Exit with 0 if a running server is ready
    Health(HealthOptions),
    /// Back up a running server into a file
    Backup(BackupOptions),
    /// Check a backup or a data folder, and list what does not agree
    Verify(VerifyOptions),
    /// Make a data folder of a backup
    Restore(RestoreOptions),
    /// Manage an archive of changes
    #[command(subcommand, arg_required_else_help = false)]
    Archive(ArchiveCommand),
    /// Create, list and revoke tokens
    #[command(subcommand, arg_required_else_help = false)]
    Token(TokenCommand),
    /// Create and manage webhooks, which tell other programs of changes
    #[command(subcommand, arg_required_else_help = false)]
    Webhook(WebhookCommand),
    /// Create missing tables in PostgreSQL
    Migrate(Box<MigrateOptions>),
    /// Print the OpenAPI document of the service
    Openapi,
    /// Print the completions for a shell
    Completions { shell: Shell },
    /// Write the manual pages into a folder
    Man {
        /// The folder; made if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// What the help of the program says below the options.
fn after_help() -> String {
    format!(
        "Without a subcommand, plantd serves.\n\
         PLANTD_TOKEN in the environment is one more token, with every scope.\n\
         RUST_LOG sets the log level (off, error, warn, info, debug or trace); without it the level is info.\n\n{}",
        exit::list()
    )
}

impl Cli {
    /// Parses the command line and the environment of this process. For help, the version or a mistake, prints it and returns
    /// the exit code.
    pub(crate) fn from_process() -> Result<Self, ExitCode> {
        Self::parse(std::env::args_os().collect()).map_err(|error| {
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
                return ExitCode::from(exit::USAGE);
            };
            if let Some(variable) = flag.and_then(|flag| variable_of(&Self::command(), &flag)) {
                let variable = variable.display();
                let _ =
                    writeln!(io::stderr(), "The value comes from {variable} in the environment.");
            }
            ExitCode::from(exit::CONFIGURATION)
        })
    }

    /// The program with the options of `serve` too, as the help, the completions and the manual page show it.
    pub(crate) fn documented() -> clap::Command {
        ServeOptions::augment_args(Self::command())
    }

    /// `plantd` without a subcommand is `plantd serve`. The program does not have the options of `serve` too, because clap would
    /// then read their environment variables for every command.
    fn parse(mut arguments: Vec<OsString>) -> clap::error::Result<Self> {
        let mut command = Self::command().mut_subcommand("serve", |serve| serve.arg(port_hint()));
        let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
        match first {
            "-V" | "--version" => {}
            "-h" | "--help" => command = help::grouped(Self::documented()),
            "help" if arguments.len() == 2 => {
                command = help::grouped(Self::documented());
                arguments[1] = "--help".into();
            }
            _ if first.starts_with('-') || arguments.len() == 1 => {
                arguments.insert(1, "serve".into());
            }
            _ => {}
        }
        let parsed = without_empty_variables(command.clone()).try_get_matches_from(&arguments);
        let matches = match parsed {
            // The help names every variable.
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                command.try_get_matches_from_mut(arguments)?
            }
            Err(mut error) => {
                explain_scopes(&mut error);
                return Err(error);
            }
            Ok(matches) => matches,
        };
        let cli = Self::from_arg_matches(&matches)?;
        if let (Command::Serve(options), Some((_, matches))) = (&cli.command, matches.subcommand())
        {
            options.listen.check(matches, &mut command)?;
        }
        Ok(cli)
    }
}

/// `Some` if a wrong value came from the environment, because its flag is not on the command line. Contains that flag,
/// if it is known.
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

/// The environment variable of a flag.
fn variable_of(command: &clap::Command, flag: &str) -> Option<OsString> {
    let long = flag.trim_start_matches("--");
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(long));
    let variable = argument.and_then(Arg::get_env).map(OsStr::to_owned);
    variable.or_else(|| command.get_subcommands().find_map(|command| variable_of(command, flag)))
}

/// Replaces clap's message for `--port`, which many other programs have. clap would suggest a similar flag with another
/// meaning.
fn port_hint() -> Arg {
    let hint = "where to listen is --listen ADDRESS:PORT, such as --listen 127.0.0.1:8090";
    Arg::new("port")
        .long("port")
        .value_name("PORT")
        .hide(true)
        .value_parser(UnknownArgumentValueParser::suggest(hint))
}

/// Whether a text holds the URL of a PostgreSQL with a password.
fn holds_password(text: &str) -> bool {
    let urls = ["postgres://", "postgresql://"].into_iter();
    urls.flat_map(|scheme| text.split(scheme).skip(1)).any(|rest| {
        // The help has this placeholder.
        let is_user = |user: &str| user.contains(':') && user != "USER:PASSWORD";
        let rest = rest.lines().next().unwrap_or_default();
        rest.split_once('@').is_some_and(|(user, _)| is_user(user))
    })
}
