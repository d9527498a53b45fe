//! `plantd`: a plant store in one binary.

#![forbid(unsafe_code)]

mod certificate;
mod cli;
mod export;
mod export_check;
mod first_run;
mod follow;
mod import;
mod listen;
mod logger;
mod openapi;
mod output;
mod postgres;
mod private_file;
mod progress;
mod remote;
mod salvage;
mod serve;
mod stop_signal;
mod token;
mod tokens_file;
mod unix_socket;
mod verify;

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};

use crate::cli::{Cli, Command};

/// Where a token is in the environment.
const TOKEN_VARIABLE: &str = "PLANTD_TOKEN";

/// Where the plants are, in the folder of the data.
fn plants_folder(data: &Path) -> PathBuf {
    data.join("plants")
}

/// Makes the folder of the data, for its owner alone, and those that it is in, where they are missing.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// The code that dates answers, and that checks certificates, panics when the clock shows no date.
fn check_clock() -> anyhow::Result<()> {
    ensure!(
        logger::is_date(SystemTime::now()),
        "the clock of this machine is before 1970 or after 9999; set the clock"
    );
    Ok(())
}

/// What a process ends with, next to 0 (the numbers of BSD's `sysexits.h`).
mod exit_code {
    /// The command did its work, and found what is wrong with the data.
    pub(crate) const FINDINGS: u8 = 1;
    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 64;
    /// A folder, a file, a port or a server cannot be used, or the store failed while serving.
    pub(crate) const IO: u8 = 74;
    /// The server has ended, and had to cut off requests.
    pub(crate) const CUT_OFF: u8 = 75;
    /// What the environment or a file says cannot be right.
    pub(crate) const CONFIGURATION: u8 = 78;
}

/// Why a command stopped.
#[derive(Debug)]
enum Stop {
    Findings(anyhow::Error),
    Usage(anyhow::Error),
    Io(anyhow::Error),
    CutOff(anyhow::Error),
    Configuration(anyhow::Error),
}

impl Stop {
    fn into_error(self) -> anyhow::Error {
        let (Self::Findings(error)
        | Self::Usage(error)
        | Self::Io(error)
        | Self::CutOff(error)
        | Self::Configuration(error)) = self;
        error
    }

    /// A file that cannot be read is one thing, a file that says what cannot be right is another.
    fn of_file(error: anyhow::Error) -> Self {
        if error.chain().any(|cause| cause.is::<io::Error>()) {
            Self::Io(error)
        } else {
            Self::Configuration(error)
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(exit_code) => return exit_code,
    };
    let is_server = matches!(cli.command, Command::Serve(_));
    // What the other commands have to say is for the person who waits for it, and no log. What clients do
    // wrong in HTTP or TLS is not worth a line, and what is wrong with a server's certificate is said once.
    let log_filter = if is_server {
        "info,actix_http=off,rustls=off"
    } else {
        "error,rustls_platform_verifier=off"
    };
    if let Err(error) = logger::start(log_filter).and_then(|()| check_clock()) {
        // Nobody is there to be told when it cannot be printed.
        let _ = writeln!(io::stderr(), "error: {error:#}");
        return ExitCode::from(exit_code::CONFIGURATION);
    }
    std::panic::set_hook(Box::new(|panic| log::error!("{panic}")));

    let result = match cli.command {
        Command::Serve(options) => serve::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Migrate(options) => postgres::migrate(&options),
        Command::Token(command) => token::run(command),
        Command::Openapi => openapi::run(),
    };
    let (exit_code, error) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Stop::Findings(error)) => (exit_code::FINDINGS, error),
        Err(Stop::Usage(error)) => (exit_code::USAGE, error),
        Err(Stop::Io(error)) => (exit_code::IO, error),
        Err(Stop::CutOff(error)) => (exit_code::CUT_OFF, error),
        Err(Stop::Configuration(error)) => (exit_code::CONFIGURATION, error),
    };
    // Also where the log tells nothing, it has to be said why there is no server.
    if is_server && log::log_enabled!(log::Level::Error) {
        log::error!("{error:#}");
    } else {
        // Nobody is there to be told when it cannot be printed.
        let _ = writeln!(io::stderr(), "error: {error:#}");
    }
    // Threads may be stuck in a disk that does not answer: nothing is waited for.
    std::process::exit(i32::from(exit_code));
}
