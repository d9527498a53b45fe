//! `plantd`: a plant store in one binary.
//!
//! [`command_line`] reads what to do, one module for each command does it, and [`exit`] says how it ended. [`serve`]
//! is the server; the commands in [`transfer`] talk to a running server by [`client`]; [`files`] keeps the tokens and
//! other private files.

#![forbid(unsafe_code)]

mod client;
mod command_line;
mod environment;
mod exit;
mod files;
mod logger;
mod openapi;
mod option_value;
mod serve;
mod store;
mod terminal;
mod token;
mod transfer;

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::command_line::{Cli, Command};
use crate::store::{postgres, verify};
use crate::transfer::{export, import};

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
    if let Err(error) = logger::start(log_filter).and_then(|()| logger::check_clock()) {
        // Nobody is there to be told when it cannot be printed.
        let _ = writeln!(io::stderr(), "error: {error:#}");
        return ExitCode::from(exit::CONFIGURATION);
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
    let Err(stop) = result else { return ExitCode::SUCCESS };
    let exit_code = stop.exit_code();
    let error = stop.into_error();
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
