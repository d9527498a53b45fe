//! `cargo xtask bench`: measurements of plantd on this machine.
//!
//! A bench (`suite`, `scale`, `postgres`) starts programs (`program`), puts load on them (`load`) in rounds (`measure`),
//! and writes tables and plots (`report`).

mod load;
mod measure;
mod options;
mod plants;
mod postgres;
mod program;
mod report;
mod scale;
mod suite;

use self::options::Options;
use crate::usage::UsageError;

const USAGE: &str = "\
usage: cargo xtask bench [scale | postgres | postgres-move] [options]

Without a name, it compares plantd with a server that stores nothing, and with services on Fastify and FastAPI.
  scale          a store of ten million plants next to one of 100,000
  postgres       plantd on PostgreSQL next to pgbench
  postgres-move  a million plants from a data folder into PostgreSQL and back

A full run writes its tables into docs/performance.md and its plots into docs/performance. Options:
  --rounds N     how often each program is measured (5)
  --seconds S    how long each measurement takes (4)
  --only TEXT    only works whose name contains the text, such as `64 connections, random`; not for the document
  --plants N     another number of plants; not for the document
";

/// Runs the bench that the first argument names, or the suite.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let has_name = arguments.first().is_some_and(|argument| !argument.starts_with('-'));
    let (name, rest) = arguments.split_at(usize::from(has_name));
    let bench = match name.first().map(String::as_str) {
        None => suite::run,
        Some("scale") => scale::run,
        Some("postgres") => postgres::run,
        Some("postgres-move") => postgres::run_move,
        Some(unknown) => {
            return Err(UsageError::new(format!("there is no bench `{unknown}`"), USAGE).into());
        }
    };
    bench(&Options::parse(rest, USAGE)?)
}
