//! What the bench on PostgreSQL says: as JSON and as tables.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::options::Options;
use super::server::Settings;
use super::turns::{PROGRAMS, WORKS};
use crate::bench::claims::{self, Judgement, PGBENCH};
use crate::bench::load::WARM_UP_S;
use crate::bench::machine::Machine;
use crate::bench::measurement::{Round, Summary, summaries};
use crate::bench::spread::Spread;
use crate::bench::table::{Table, milliseconds, whole, with_ends};
use crate::bench::wrk;

/// What ends up in `target/bench/postgres.json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    postgres: Settings,
    options: Options,
    warm_up_s: u32,
    /// Of pgbench, and of wrk unless there are more servers.
    max_threads: u32,
    claims: Vec<Judgement>,
    summaries: Vec<Summary>,
    rounds: Vec<Round>,
}

impl Report {
    pub(super) fn new(
        machine: Machine,
        postgres: Settings,
        options: Options,
        rounds: Vec<Round>,
    ) -> Self {
        Self {
            machine,
            postgres,
            options,
            warm_up_s: WARM_UP_S,
            max_threads: wrk::MAX_THREADS,
            claims: claims::judge(&rounds),
            summaries: summaries(&rounds, &WORKS, &PROGRAMS, PGBENCH),
            rounds,
        }
    }

    fn rate_table(&self) -> Table {
        let head = ["work", "program", "per second", "p50, ms", "p99, ms", "of pgbench"];
        let mut table = Table::new(&head, 2);
        for Summary { work, program, per_s, p50_us, p99_us, p999_us: _, ratio } in &self.summaries {
            let median =
                |spread: &Option<Spread>| spread.as_ref().map(|spread| milliseconds(spread.median));
            let ratio = ratio.as_ref().filter(|_| *program != PGBENCH);
            table.push([
                work.to_string(),
                (*program).to_owned(),
                with_ends(per_s, whole),
                median(p50_us).unwrap_or_default(),
                median(p99_us).unwrap_or_default(),
                ratio
                    .map(|ratio| with_ends(ratio, |value| format!("{value:.2}")))
                    .unwrap_or_default(),
            ]);
        }
        table
    }
}

impl Display for Report {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Options { rounds, measure_s, stored_plants, .. } = &self.options;
        writeln!(
            formatter,
            "{}. {}.\n\n\
             Rounds: {rounds}, of {measure_s} s for each measurement. {} plants are there for reads and lists. The \
             median of the\nrounds, with the least and the greatest in brackets.",
            self.machine,
            self.postgres,
            whole(*stored_plants as f64),
        )?;
        for (heading, table) in [
            ("Claims; each value is one of a round.", claims::table(&self.claims)),
            (
                "Rates of plants that are created or read, and of lists, as fast as it goes.",
                self.rate_table(),
            ),
        ] {
            if !table.is_empty() {
                write!(formatter, "\n{heading}\n\n{table}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::super::server::tests::settings;
    use super::super::turns::create;
    use super::*;
    use crate::bench::contender::PLANTD;
    use crate::bench::measurement::CONNECTIONS;
    use crate::bench::measurement::tests::measurement;
    use crate::bench::table::tests::narrow_lines;

    #[test]
    fn tables_show_what_was_measured_and_the_claim_about_it() {
        let round = |plantd| Round {
            measurements: vec![
                measurement(create(CONNECTIONS), PGBENCH, 10_000, 6_000),
                measurement(create(CONNECTIONS), PLANTD, plantd, 3_000),
            ],
        };
        let report = Report::new(
            Machine::this().unwrap(),
            settings(),
            options::parse(&[], "").unwrap(),
            vec![round(18_000), round(14_000), round(16_000)],
        );
        let text = report.to_string();
        assert!(text.contains("`fsync` on"), "{text}");
        let lines = narrow_lines(&text);
        for line in [
            "| creates at 64 connections, plantd on PostgreSQL/pgbench with a row a statement | met \
             | ≥ 1.5 | 1.60 | 1.40 | 1.80 |",
            "| create, 64 connections, random ids | pgbench | 10,000 (10,000 to 10,000) | 6.000 | \
             6.000 | |",
            "| create, 64 connections, random ids | plantd | 16,000 (14,000 to 18,000) | 3.000 | \
             3.000 | 1.60 (1.40 to 1.80) |",
        ] {
            assert!(lines.iter().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
