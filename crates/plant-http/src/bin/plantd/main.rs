//! `plantd`: a plant store in one binary.

mod cli;
mod first_run;
mod serve;

use std::process::ExitCode;

use env_logger::Env;

use crate::cli::{Cli, Command};

/// What a process ends with, next to 0 (the numbers of BSD's `sysexits.h`).
mod exit_code {
    /// The command line is wrong.
    pub(crate) const USAGE: u8 = 64;
    /// A folder, a file or a port cannot be used, or the store failed while serving.
    pub(crate) const IO: u8 = 74;
    /// What the environment or a file says cannot be right.
    pub(crate) const CONFIGURATION: u8 = 78;
}

/// Why a command stopped.
enum Stop {
    Io(anyhow::Error),
    Configuration(anyhow::Error),
}

fn main() -> ExitCode {
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(exit_code) => return exit_code,
    };
    env_logger::init_from_env(
        Env::default().default_filter_or("info,actix_server=warn,actix_http=off"),
    );
    std::panic::set_hook(Box::new(|panic| log::error!("{panic}")));

    let result = match cli.command {
        Command::Serve(options) => serve::run(&options),
    };
    let (exit_code, error) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Stop::Io(error)) => (exit_code::IO, error),
        Err(Stop::Configuration(error)) => (exit_code::CONFIGURATION, error),
    };
    log::error!("{error:#}");
    // Threads may be stuck in a disk that does not answer: nothing is waited for.
    std::process::exit(i32::from(exit_code));
}
