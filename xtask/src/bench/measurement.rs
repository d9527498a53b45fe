//! What was measured, in rounds.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

use super::bare_write::BareWrites;
use super::oha::Latency;
use super::options::IdOrder;
use super::postgres::PgbenchOutcome;
use super::spread::Spread;
use super::transfer::Transfer;
use super::wrk::Outcome;

/// How many clients there are at once, wherever their number is not what is compared.
pub(super) const CONNECTIONS: u32 = 64;

/// What a program has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Create { connections: u32, ids: IdOrder },
    Read,
    List,
    Mix,
    Import,
    Export,
    CreateAtHalfLoad,
}

impl Work {
    /// Creates with ascending ids, as most clients make them.
    pub(super) const fn create(connections: u32) -> Self {
        Self::Create { connections, ids: IdOrder::Ascending }
    }
}

impl Display for Work {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { connections, ids } => {
                let plural = if *connections == 1 { "" } else { "s" };
                write!(formatter, "create, {connections} connection{plural}, {} ids", ids.name())
            }
            Self::Read => formatter.write_str("read by id"),
            Self::List => formatter.write_str("list of 100"),
            Self::Mix => formatter.write_str("mix, 90 % reads and 10 % creates"),
            Self::Import => formatter.write_str("import"),
            Self::Export => formatter.write_str("export"),
            Self::CreateAtHalfLoad => formatter.write_str("create at half load"),
        }
    }
}

impl Serialize for Work {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One program at one work, in one round.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    pub(super) work: Work,
    pub(super) program: &'static str,
    pub(super) reading: Reading,
}

/// What came out, as it came.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reading {
    Load(Outcome),
    Transfer(Transfer),
    BareWrites(BareWrites),
    OpenLoop(Latency),
    Pgbench(PgbenchOutcome),
}

/// What can be compared of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) per_s: f64,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    p999_us: Option<f64>,
}

impl Display for Figures {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.0}/s", self.per_s)?;
        match self.p99_us {
            Some(p99_us) => write!(formatter, ", p99 {:.3} ms", p99_us / 1_000.0),
            None => Ok(()),
        }
    }
}

impl Reading {
    pub(super) fn figures(&self) -> Figures {
        match self {
            Self::Load(outcome) => Figures {
                per_s: outcome.requests_per_s(),
                p50_us: Some(outcome.latency_p50_us as f64),
                p99_us: Some(outcome.latency_p99_us as f64),
                p999_us: None,
            },
            Self::Transfer(transfer) => Figures {
                per_s: transfer.plants_per_s(),
                p50_us: None,
                p99_us: None,
                p999_us: None,
            },
            Self::BareWrites(writes) => Figures {
                per_s: writes.writes as f64 / (writes.duration_us / 1_000_000.0),
                p50_us: Some(writes.latency_p50_us),
                p99_us: Some(writes.latency_p99_us),
                p999_us: None,
            },
            Self::OpenLoop(latency) => Figures {
                per_s: latency.rate_per_s,
                p50_us: Some(latency.p50_us),
                p99_us: Some(latency.p99_us),
                p999_us: Some(latency.p999_us),
            },
            Self::Pgbench(outcome) => {
                Figures { per_s: outcome.rows_per_s(), p50_us: None, p99_us: None, p999_us: None }
            }
        }
    }
}

/// All programs at all works, in the order in which they were measured.
#[derive(Debug, Default, Serialize)]
pub(super) struct Round {
    pub(super) measurements: Vec<Measurement>,
}

impl Round {
    pub(super) fn figures(&self, work: Work, program: &str) -> Option<Figures> {
        self.measurements
            .iter()
            .find(|measurement| measurement.work == work && measurement.program == program)
            .map(|measurement| measurement.reading.figures())
    }
}

/// One program at one work, over all rounds.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) work: Work,
    pub(super) program: &'static str,
    pub(super) per_s: Spread,
    pub(super) p50_us: Option<Spread>,
    pub(super) p99_us: Option<Spread>,
    pub(super) p999_us: Option<Spread>,
    /// The rate of each round divided by that of the program that all are compared with.
    pub(super) ratio: Option<Spread>,
}

/// The summaries of `works`, in that order; within each, `programs` stand in theirs. All are compared with `reference`.
pub(super) fn summaries(
    rounds: &[Round],
    works: &[Work],
    programs: &[&'static str],
    reference: &str,
) -> Vec<Summary> {
    let pairs = works.iter().flat_map(|work| programs.iter().map(move |program| (*work, *program)));
    pairs.filter_map(|(work, program)| summary(rounds, work, program, reference)).collect()
}

fn summary(
    rounds: &[Round],
    work: Work,
    program: &'static str,
    reference: &str,
) -> Option<Summary> {
    let spread = |value: fn(Figures) -> Option<f64>| {
        Spread::of(rounds.iter().filter_map(|round| value(round.figures(work, program)?)))
    };
    let ratio = |round: &Round| {
        let reference = round.figures(work, reference)?;
        Some(round.figures(work, program)?.per_s / reference.per_s)
    };
    Some(Summary {
        work,
        program,
        per_s: spread(|figures| Some(figures.per_s))?,
        p50_us: spread(|figures| figures.p50_us),
        p99_us: spread(|figures| figures.p99_us),
        p999_us: spread(|figures| figures.p999_us),
        ratio: Spread::of(rounds.iter().filter_map(ratio)),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::contender::CEILING;
    use super::super::wrk::tests::outcome;
    use super::*;

    /// What would be measured of a program with this rate and these latencies.
    pub(in crate::bench) fn measurement(
        work: Work,
        program: &'static str,
        per_s: u64,
        latency_us: u64,
    ) -> Measurement {
        let outcome =
            Outcome { latency_p50_us: latency_us, latency_p99_us: latency_us, ..outcome(per_s) };
        Measurement { work, program, reading: Reading::Load(outcome) }
    }

    #[test]
    fn a_summary_has_the_median_of_the_ratios_and_not_the_ratio_of_the_medians() {
        let rounds = [(100, 90), (200, 100), (400, 160)].map(|(ceiling, plantd)| Round {
            measurements: vec![
                measurement(Work::Read, CEILING, ceiling, 10),
                measurement(Work::Read, "plantd", plantd, 20),
            ],
        });
        let summaries = summaries(&rounds, &[Work::List, Work::Read], &["plantd", "rose"], CEILING);
        assert_eq!(summaries.len(), 1);
        assert_eq!(summaries[0].per_s, Spread { median: 100.0, min: 90.0, max: 160.0 });
        let ratio = Spread { median: 0.5, min: 0.4, max: 0.9 };
        assert_eq!(summaries[0].ratio, Some(ratio));
        assert_eq!(summaries[0].p999_us, None);
    }

    #[test]
    fn creates_are_of_a_number_of_connections_and_an_order_of_ids() {
        assert_eq!(Work::create(1).to_string(), "create, 1 connection, ascending ids");
        let random = Work::Create { connections: 64, ids: IdOrder::Random };
        assert_eq!(random.to_string(), "create, 64 connections, random ids");
    }
}
