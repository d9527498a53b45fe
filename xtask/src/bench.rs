//! `cargo xtask bench`: measurements of plantd on this machine.

mod bare_write;
mod bench_folder;
mod claims;
mod contender;
mod create;
mod interrupt;
mod load;
mod machine;
mod measurement;
mod oha;
mod options;
mod peers;
mod performance_document;
mod plants;
mod plot;
mod postgres;
mod probe;
mod program;
mod scale;
mod spread;
mod store;
mod suite;
mod suite_options;
mod suite_report;
mod table;
mod transfer;
mod turns;
mod wrk;

use crate::usage::UsageError;

const USAGE: &str = "\
usage: cargo xtask bench [options]
       cargo xtask bench create [options]
       cargo xtask bench scale [options]
       cargo xtask bench postgres [options]
       cargo xtask bench postgres-move [options]

Without a name, it measures plantd, the ceiling that it is measured against, and what others would use
in its place, writes docs/performance.md and draws its plots:
  --rounds N         how often each program is measured (5)
  --seconds S        how long each measurement takes (4)
  --only PARTS       parts with commas between them, of create, read, list, mix, import, latency and single;
                     the documents stay as they are
  --quick            one round of one second, with few plants, to try the bench itself; the documents stay
                     as they are

create measures creates per second of plantd and of the ceiling, to try one thing:
  --rounds N         how often each program is measured (5)
  --seconds S        how long each measurement takes (5)
  --connections C    how many clients there are at once (64)
  --ids ORDER        in which order ids come: ascending or random (ascending)

scale measures what a store of many plants costs next to one of 100,000, and writes that into the same document:
  --plants N         how many plants the large store has (10000000); with other than that, the documents stay
                     as they are
  --quick            a second for what takes several otherwise, to try the bench itself; the documents stay
                     as they are

postgres measures plantd with its plants in PostgreSQL, next to pgbench, and writes that into the same document:
  --rounds N         how often each program is measured (5)
  --seconds S        how long each measurement takes (4)
  --quick            one round of one second, with few plants, to try the bench itself; the documents stay
                     as they are

postgres-move brings plants from a data folder into PostgreSQL and back, by import and export, compares all
exports, and writes into the same document how long that took:
  --plants N         how many (1000000); with other than that, the documents stay as they are
";

/// Runs the bench that the first argument names, or the suite.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    match arguments.split_first() {
        Some((bench, rest)) if !bench.starts_with('-') => match bench.as_str() {
            "create" => create::run(&options::parse(rest, USAGE)?),
            "scale" => scale::run(rest, USAGE),
            "postgres" => postgres::run(rest, USAGE),
            "postgres-move" => postgres::run_move(rest, USAGE),
            unknown => Err(UsageError::new(format!("there is no bench `{unknown}`"), USAGE).into()),
        },
        _ => suite::run(&suite_options::parse(arguments, USAGE)?),
    }
}
