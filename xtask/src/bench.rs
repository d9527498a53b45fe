//! `cargo xtask bench`: measurements of plantd on this machine.
//!
//! A bench (`suite`, `change`, `scale`, `search`, `readers`, `backup`, `postgres`, `instructions`) starts programs (`program`), loads them
//! (`load`) in rounds (`measure`), and writes tables (`report`).

mod backup;
mod change;
mod instructions;
mod load;
mod measure;
mod options;
mod plants;
mod postgres;
mod program;
mod readers;
mod report;
mod scale;
mod search;
mod suite;

use anyhow::ensure;
use clap::ValueEnum;

pub(crate) use self::options::Arguments;
use self::options::Options;

#[derive(Clone, ValueEnum)]
pub(crate) enum Bench {
    /// plantd next to an older one, which --before names, to see whether a change has made it slower
    Change,
    /// A store of ten million plants next to one of 100,000
    Scale,
    /// Searches of names in ten million plants, next to PostgreSQL and SQLite
    Search,
    /// What clients that follow events cost, and how soon they see an event
    Followers,
    /// What webhooks cost clients that create plants, and how soon receivers get an event
    Webhooks,
    /// Backups and restores of ten million plants, and what backups cost those that create plants
    Backup,
    /// The instructions that a read and a create cost, by the code that executes them
    Instructions,
    /// plantd on PostgreSQL next to pgbench
    Postgres,
    /// A million plants from a data folder into PostgreSQL and back
    PostgresMove,
}

/// Without a bench, measures plantd next to a server that stores nothing and to services on other frameworks.
pub(crate) fn run(bench: Option<Bench>, arguments: Arguments) -> anyhow::Result<()> {
    let options = &Options::new(arguments)?;
    let may_compare = matches!(bench, Some(Bench::Change));
    ensure!(may_compare || options.before.is_none(), "only `bench change` takes --before");
    match bench {
        None => suite::run(options),
        Some(Bench::Backup) => backup::run(options),
        Some(Bench::Change) => change::run(options),
        Some(Bench::Followers) => readers::run_followers(options),
        Some(Bench::Webhooks) => readers::run_webhooks(options),
        Some(Bench::Instructions) => instructions::run(options),
        Some(Bench::Scale) => scale::run(options),
        Some(Bench::Search) => search::run(options),
        Some(Bench::Postgres) => postgres::run(options),
        Some(Bench::PostgresMove) => postgres::run_move(options),
    }
}
