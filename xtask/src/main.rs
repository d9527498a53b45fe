//! What people who work on plantd repeat: `cargo xtask check`, `advisories`, `swagger-ui`, `test`, `torture`
//! and `bench`.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for people: its output is its product"
)]

mod advisories;
mod bench;
mod cargo;
mod check;
mod crates_io;
mod deny;
mod fuzz;
mod invariants;
mod packages;
mod swagger_ui;
mod test;
mod tools;
mod torture;
mod usage;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use usage::UsageError;

/// What a shell expects from a program that was called wrongly (`EX_USAGE` of sysexits.h).
const EXIT_USAGE: u8 = 64;

const USAGE: &str = "\
usage: cargo xtask <command>

  check                    format, clippy, rustdoc, dependencies and the invariants of the workspace
  advisories [path]        whether an advisory database knows something of a dependency
  swagger-ui [version]     whether the files of Swagger UI are those of its npm package, or taking newer ones
  test [arguments]         all tests; the arguments go to cargo test
  torture [part]...        the long form of the tests of what is promised, with their figures
  bench [bench] [options]  measurements, and docs/performance.md from them
";

fn main() -> ExitCode {
    let Err(error) = run(env::args_os().skip(1)) else {
        return ExitCode::SUCCESS;
    };
    match error.downcast_ref::<UsageError>() {
        Some(usage_error) => {
            eprint!("{usage_error}");
            ExitCode::from(EXIT_USAGE)
        }
        None => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(raw_arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let arguments = raw_arguments
        .map(OsString::into_string)
        .collect::<Result<Vec<String>, OsString>>()
        .map_err(|argument| UsageError::new(format!("{argument:?} is not UTF-8"), USAGE))?;
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => return Err(UsageError::new("no command", USAGE).into()),
    };
    match command {
        "check" => check::run(rest),
        "advisories" => advisories::run(rest),
        "swagger-ui" => swagger_ui::run(rest),
        "test" => test::run(rest),
        "torture" => torture::run(rest),
        "bench" => bench::run(rest),
        unknown => Err(UsageError::new(format!("there is no command `{unknown}`"), USAGE).into()),
    }
}
