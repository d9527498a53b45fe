//! The chores of plantd's developers: `cargo xtask check`, `test`, `torture`, `bench` and two comparisons with the outside.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for people: its output is its product"
)]

mod advisories;
mod bench;
mod cargo;
mod check;
mod fuzz;
mod invariants;
mod module_cycles;
mod packages;
mod swagger_ui;
mod test;
mod tools;
mod torture;
mod usage;

use std::env;
use std::process::ExitCode;

use usage::UsageError;

/// `EX_USAGE` of sysexits.h.
const EXIT_USAGE: u8 = 64;

const USAGE: &str = "\
usage: cargo xtask <command>

  check                    format, lints, documentation, dependencies, module cycles
  test [arguments]         all tests; with arguments, one run of cargo test with them
  torture [part]...        the long form of the torture tests, and a table of their figures
  bench [suite] [options]  the benchmarks, and docs/performance.md from them
  advisories [PATH]        compare the dependencies with the newest RustSec advisories, or with a copy at PATH
  swagger-ui [VERSION]     compare the vendored Swagger UI with its npm package, or take VERSION
";

fn main() -> ExitCode {
    let Err(error) = run() else {
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

fn run() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args_os()
        .skip(1)
        .map(|argument| argument.into_string())
        .collect::<Result<_, _>>()
        .map_err(|argument| UsageError::new(format!("{argument:?} is not UTF-8"), USAGE))?;
    let (command, rest) =
        arguments.split_first().ok_or_else(|| UsageError::new("no command", USAGE))?;
    match command.as_str() {
        "check" => check::run(rest),
        "test" => test::run(rest),
        "torture" => torture::run(rest),
        "bench" => bench::run(rest),
        "advisories" => advisories::run(rest),
        "swagger-ui" => swagger_ui::run(rest),
        unknown => Err(UsageError::new(format!("there is no command `{unknown}`"), USAGE).into()),
    }
}
