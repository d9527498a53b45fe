//! `cargo xtask bench`: measurements of plantd on this machine.
//!
//! A bench (`suite`, `change`, `scale`, `search`, `followers`, `backup`, `postgres`, `webhooks`) starts programs (`program`),
//! loads them (`load`) in rounds (`measure`), and writes tables and plots (`report`).

mod backup;
mod change;
mod followers;
mod load;
mod measure;
mod options;
mod plants;
mod postgres;
mod program;
mod report;
mod scale;
mod search;
mod suite;
mod webhooks;

use clap::ValueEnum;

pub(crate) use self::options::Arguments;
use self::options::Options;

#[derive(Clone, ValueEnum)]
pub(crate) enum Bench {
    /// plantd next to an older one (--before), to see whether a change has made it slower
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
    /// plantd on PostgreSQL next to pgbench
    Postgres,
    /// A million plants from a data folder into PostgreSQL and back
    PostgresMove,
}

/// Without a bench, measures plantd next to a server that stores nothing and to services on other frameworks.
pub(crate) fn run(bench: Option<Bench>, arguments: Arguments) -> anyhow::Result<()> {
    let options = &Options::new(arguments)?;
    match bench {
        None => suite::run(options),
        Some(Bench::Backup) => backup::run(options),
        Some(Bench::Change) => change::run(options),
        Some(Bench::Followers) => followers::run(options),
        Some(Bench::Webhooks) => webhooks::run(options),
        Some(Bench::Scale) => scale::run(options),
        Some(Bench::Search) => search::run(options),
        Some(Bench::Postgres) => postgres::run(options),
        Some(Bench::PostgresMove) => postgres::run_move(options),
    }
}
