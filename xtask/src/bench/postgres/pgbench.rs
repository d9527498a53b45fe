//! A run of pgbench, the load generator that comes with PostgreSQL.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;

use crate::bench::transfer::run_for_output;
use crate::bench::wrk::MAX_THREADS;

/// What stands before the values that it prints.
const TRANSACTIONS: &str = "number of transactions actually processed: ";
const FAILED: &str = "number of failed transactions: ";
const LATENCY: &str = "latency average = ";
const RATE: &str = "tps = ";
/// Behind the rate, from version 14 on: to connect takes a while, and is no part of the work.
const RATE_IS_OF: &str = " (without initial connection time)";

/// What pgbench is to do.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) url: &'a str,
    pub(super) script: &'a Path,
    pub(super) clients: u32,
    pub(super) duration_s: u32,
    /// The numbers of the rows that are inserted come behind it.
    pub(super) first_number: u64,
    /// How many rows a statement inserts or looks for; what counts is their number.
    pub(super) rows: u32,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::bench) struct Outcome {
    pub(super) transactions: u64,
    transactions_per_s: f64,
    latency_average_ms: f64,
    rows_per_transaction: u32,
}

impl Outcome {
    pub(in crate::bench) fn rows_per_s(&self) -> f64 {
        self.transactions_per_s * f64::from(self.rows_per_transaction)
    }

    pub(super) fn rows(&self) -> u64 {
        self.transactions.saturating_mul(self.rows_per_transaction.into())
    }
}

/// Runs it, and fails unless every transaction was carried out.
pub(super) fn run(load: &Load<'_>) -> anyhow::Result<Outcome> {
    let Load { url, script, clients, duration_s, first_number, rows } = load;
    let mut command = test_postgres::command("pgbench");
    command
        .args(["--no-vacuum", "--protocol=prepared"])
        .arg(format!("--client={clients}"))
        .arg(format!("--jobs={}", MAX_THREADS.min(*clients)))
        .arg(format!("--time={duration_s}"))
        .arg(format!("--define=clients={clients}"))
        .arg(format!("--define=number={first_number}"))
        .arg("--file")
        .arg(script)
        .arg(url);
    let stdout = run_for_output(&mut command)?;
    parse(&stdout, *rows).with_context(|| format!("cannot use what pgbench printed:\n{stdout}"))
}

fn parse(stdout: &str, rows_per_transaction: u32) -> anyhow::Result<Outcome> {
    let transactions = value(stdout, TRANSACTIONS)?.parse().context("no number of transactions")?;
    let failed: u64 = {
        let (count, _) = value(stdout, FAILED)?.split_once(' ').context("no share of them")?;
        count.parse().context("no number of failed transactions")?
    };
    if failed > 0 {
        bail!("{failed} transactions failed: mend that first, since an error can be faster");
    }
    let latency = value(stdout, LATENCY)?.strip_suffix(" ms").context("no milliseconds")?;
    let rate = value(stdout, RATE)?.strip_suffix(RATE_IS_OF).context("another rate")?;
    let outcome = Outcome {
        transactions,
        transactions_per_s: rate.parse().context("no rate")?,
        latency_average_ms: latency.parse().context("no latency")?,
        rows_per_transaction,
    };
    ensure!(outcome.transactions > 0, "it counted no transactions: measure for longer");
    Ok(outcome)
}

/// What stands behind a text at the beginning of a line.
fn value<'a>(stdout: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let value = stdout.lines().find_map(|line| line.strip_prefix(name));
    value.with_context(|| format!("there is no line that begins with `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = concat!(
        "pgbench (15.18 (Debian 15.18-0+deb12u1))\n",
        "transaction type: insert.sql\n",
        "scaling factor: 1\n",
        "query mode: prepared\n",
        "number of clients: 64\n",
        "number of threads: 2\n",
        "maximum number of tries: 1\n",
        "duration: 4 s\n",
        "number of transactions actually processed: 40211\n",
        "number of failed transactions: 0 (0.000%)\n",
        "latency average = 6.358 ms\n",
        "initial connection time = 71.403 ms\n",
        "tps = 10065.912334 (without initial connection time)\n",
    );

    #[test]
    fn counts_rate_and_latency_are_found_and_read() {
        let outcome = parse(OUTPUT, 1).unwrap();
        assert_eq!(
            outcome,
            Outcome {
                transactions: 40_211,
                transactions_per_s: 10_065.912_334,
                latency_average_ms: 6.358,
                rows_per_transaction: 1,
            }
        );
        assert_eq!(outcome.rows_per_s(), 10_065.912_334);
    }

    #[test]
    fn rows_count_where_a_statement_inserts_many() {
        let outcome = parse(OUTPUT, 64).unwrap();
        assert_eq!(outcome.rows(), 64 * 40_211);
        assert_eq!(outcome.rows_per_s(), 64.0 * 10_065.912_334);
    }

    #[test]
    fn one_failed_transaction_fails_the_run() {
        let output = OUTPUT.replace("transactions: 0 (0.000%)", "transactions: 1 (0.002%)");
        let error = parse(&output, 1).unwrap_err().to_string();
        assert!(error.starts_with("1 transactions failed"), "{error}");
    }

    #[test]
    fn a_run_without_transactions_fails() {
        assert!(parse(&OUTPUT.replace("40211", "0"), 1).is_err());
    }

    #[test]
    fn output_without_one_of_the_lines_is_an_error() {
        assert!(parse("", 1).is_err());
        for name in [TRANSACTIONS, FAILED, LATENCY, RATE] {
            let error = parse(&OUTPUT.replace(name, "other"), 1).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_rate_with_the_time_to_connect_in_it_is_not_taken() {
        let output = OUTPUT.replace("without initial", "including initial");
        assert!(parse(&output, 1).is_err());
    }
}
