//! `plantd`: a plant store in one binary.
//!
//! [`command_line`] parses the arguments, each command has a module, and [`exit`] has the exit codes. [`serve`] is the server;
//! the commands in [`transfer`] use [`client`] to talk to a running server; [`webhooks`] tells other programs of changes;
//! [`files`] keeps the tokens and other private files.

#![forbid(unsafe_code)]

mod client;
mod command_line;
mod environment;
mod exit;
mod files;
mod help;
mod log_line;
mod log_queue;
mod logger;
mod manual;
mod option_value;
mod print;
mod serve;
mod store;
mod token;
mod transfer;
mod webhooks;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;

use crate::client::health;
use crate::command_line::{Cli, Command};
use crate::exit::Stop;
use crate::log_line::check_clock;
use crate::print::{ReaderGone, print};
use crate::store::{archive, postgres, restore, verify};
use crate::transfer::{backup, batch, events, export, get, history, import, list};

/// One thread allocates the pages of tables, in sizes that vary, and another frees them. With the allocator of glibc, the
/// server then needs two to three times the memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(exit_code) => return exit_code,
    };
    let log_format = match &cli.command {
        Command::Serve(options) => Some(options.log_format),
        _ => None,
    };
    let is_server = log_format.is_some();
    // Only the server logs; the other commands print for the user. The server does not log its clients' mistakes in HTTP and
    // TLS. A command reports a server's wrong certificate itself, so the crate that checks certificates does not.
    let log_filter = if is_server {
        "info,actix_http=off,rustls=off"
    } else {
        "error,rustls_platform_verifier=off"
    };
    let started = logger::start(log_filter, log_format.unwrap_or_default());
    if let Err(error) = started.and_then(|()| check_clock()) {
        let _ = writeln!(io::stderr(), "error: {error:#}");
        return ExitCode::from(exit::CONFIGURATION);
    }
    std::panic::set_hook(Box::new(|panic| {
        log::error!("{panic}");
        // A panic of the main thread ends the program, so its line has to be written first.
        if thread::current().name() == Some("main") {
            logger::flush();
        }
    }));

    let result = match cli.command {
        Command::Serve(options) => serve::run(&options),
        Command::Get(options) => get::run(&options),
        Command::List(options) => list::run(&options),
        Command::History(options) => history::run(&options),
        Command::Batch(options) => batch::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Events(options) => events::run(&options),
        Command::Health(options) => health::run(&options),
        Command::Backup(options) => backup::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::Restore(options) => restore::run(&options),
        Command::Archive(command) => archive::run(&command),
        Command::Migrate(options) => postgres::migrate(&options),
        Command::Token(command) => token::run(command),
        Command::Webhook(command) => webhooks::command::run(command),
        Command::Openapi => print(plant_http::openapi_document().as_bytes()).map_err(Stop::from),
        Command::Completions { shell } => {
            print(&manual::completions(Cli::documented(), shell)).map_err(Stop::from)
        }
        Command::Man { folder } => manual::write_pages(Cli::documented(), &folder),
    };
    let Err(stop) = result else {
        logger::flush();
        return ExitCode::SUCCESS;
    };
    let (exit_code, error) = stop.into_parts();
    if ReaderGone::is_cause_of(&error) {
        std::process::exit(i32::from(exit::READER_GONE));
    }
    // If the log is off, the error is printed all the same.
    if is_server && log::log_enabled!(log::Level::Error) {
        log::error!("{error:#}");
        logger::flush();
    } else {
        logger::flush();
        let _ = writeln!(io::stderr(), "error: {error:#}");
    }
    // Exits at once, because threads may be waiting for a disk that does not answer.
    std::process::exit(i32::from(exit_code));
}
