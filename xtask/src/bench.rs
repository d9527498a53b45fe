//! `cargo xtask bench`: measurements of plantd on this machine.

mod create;
mod interrupt;
mod machine;
mod options;
mod performance_document;
mod probe;
mod program;
mod scale;
mod spread;
mod wrk;

use crate::usage::UsageError;

const USAGE: &str = "\
usage: cargo xtask bench <bench> [options]

  create    creates per second of plantd and of the ceiling that it is measured against
  scale     what a store of ten million plants costs next to one of 100,000; it has options of its own

options of create:
  --rounds N         how often each program is measured (5)
  --seconds S        how long each measurement takes (5)
  --connections C    how many clients there are at once (64)
  --ids ORDER        in which order ids come: ascending or random (ascending)
";

/// Runs the bench that the first argument names.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let Some((bench, rest)) = arguments.split_first() else {
        return Err(UsageError::new("no bench", USAGE).into());
    };
    match bench.as_str() {
        "create" => create::run(&options::parse(rest, USAGE)?),
        "scale" => scale::run(rest),
        unknown => Err(UsageError::new(format!("there is no bench `{unknown}`"), USAGE).into()),
    }
}
