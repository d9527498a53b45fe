//! Development tasks: checks, tests, benchmarks, releases, and a comparison with RustSec.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for people: its output is its product"
)]

mod advisories;
mod bench;
mod cargo;
mod check;
mod deb;
mod figures;
mod fuzz;
mod invariants;
mod module_cycles;
mod packages;
mod release;
mod test;
mod tools;
mod torture;

use std::path::PathBuf;

use clap::Parser;
use clap::builder::PossibleValuesParser;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Command {
    /// Check format, lints, documentation, dependencies and module cycles
    Check,
    /// Run all tests, or `cargo test` once with the given arguments
    Test {
        /// Leave out what takes long: the browsers, the tests on PostgreSQL, and the Debian system
        #[arg(long)]
        quick: bool,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the long form of the torture tests, and print a table of their figures
    Torture {
        /// The parts to run; all by default
        #[arg(value_parser = PossibleValuesParser::new(torture::parts()))]
        parts: Vec<String>,
    },
    /// Measure plantd on this machine, and write docs/performance.md
    Bench {
        /// What to measure; by default plantd next to a server that stores nothing, and to services on other frameworks
        bench: Option<bench::Bench>,
        #[command(flatten)]
        arguments: bench::Arguments,
    },
    /// Make the Debian package of a program that is built already
    Deb(deb::Arguments),
    /// Make the files of a release in target/release-VERSION
    Release {
        /// Make the release again in a copy of the last commit, and compare the two
        #[arg(long)]
        check: bool,
    },
    /// Compare the dependencies with the newest RustSec advisories
    Advisories {
        /// A copy of the RustSec advisory database
        path: Option<PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Check => check::run(),
        Command::Test { quick, arguments } => test::run(quick, &arguments),
        Command::Torture { parts } => torture::run(&parts),
        Command::Bench { bench, arguments } => bench::run(bench, arguments),
        Command::Deb(arguments) => deb::run(&arguments),
        Command::Release { check } => release::run(check),
        Command::Advisories { path } => advisories::run(path.as_deref()),
    }
}
