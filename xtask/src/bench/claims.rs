//! What plantd is to reach, and whether it did.

use serde::Serialize;

use super::contender::{CEILING, PLANTD};
use super::measurement::{CONNECTIONS, Round, Work};
use super::options::IdOrder;
use super::spread::Spread;
use super::table::Table;

/// The programs that are no servers.
pub(super) const BARE_SLED: &str = "bare sled";
pub(super) const FOLDING_SLED: &str = "bare sled, folding";
pub(super) const BARE_WRITE: &str = "bare write";
/// Does with PostgreSQL itself what plantd does over HTTP, by one statement for each plant that is created, each read
/// and each list.
pub(super) const PGBENCH: &str = "pgbench";
const FASTIFY: &str = "Fastify + better-sqlite3";

#[derive(Debug)]
struct Claim {
    what: &'static str,
    target: Target,
    /// The value of one round, if it has all that it needs.
    value: fn(&Round) -> Option<f64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(target) => value >= target,
            Self::AtMost(target) => value <= target,
        }
    }
}

const CLAIMS: [Claim; 9] = [
    Claim {
        what: "creates at 64 connections, plantd/ceiling",
        target: Target::AtLeast(0.55),
        value: |round| rates(round, Work::create(CONNECTIONS), PLANTD, CEILING),
    },
    Claim {
        what: "creates at 64 connections, plantd/Fastify",
        target: Target::AtLeast(8.0),
        value: |round| rates(round, Work::create(CONNECTIONS), PLANTD, FASTIFY),
    },
    Claim {
        what: "what a create at 1 connection takes more than with the ceiling, by one bare write",
        target: Target::AtMost(1.5),
        value: added_by_bare_write,
    },
    Claim {
        what: "reads by id, plantd/ceiling",
        target: Target::AtLeast(0.9),
        value: |round| rates(round, Work::Read, PLANTD, CEILING),
    },
    Claim {
        what: "lists of 100, plantd/ceiling",
        target: Target::AtLeast(0.6),
        value: |round| rates(round, Work::List, PLANTD, CEILING),
    },
    Claim {
        what: "import, plantd/bare sled",
        target: Target::AtLeast(0.8),
        value: |round| rates(round, Work::Import, PLANTD, BARE_SLED),
    },
    Claim {
        what: "import, plantd/bare sled, folding",
        target: Target::AtLeast(0.8),
        value: |round| rates(round, Work::Import, PLANTD, FOLDING_SLED),
    },
    Claim {
        what: "p99 of creates at half load, plantd/ceiling",
        target: Target::AtMost(3.0),
        value: |round| {
            let p99_us = |program| round.figures(Work::CreateAtHalfLoad, program)?.p99_us;
            Some(p99_us(PLANTD)? / p99_us(CEILING)?)
        },
    },
    Claim {
        what: "creates at 64 connections, plantd on PostgreSQL/pgbench with a row a statement",
        target: Target::AtLeast(1.5),
        value: |round| {
            let work = Work::Create { connections: CONNECTIONS, ids: IdOrder::Random };
            rates(round, work, PLANTD, PGBENCH)
        },
    },
];

fn rates(round: &Round, work: Work, program: &str, other: &str) -> Option<f64> {
    Some(round.figures(work, program)?.per_s / round.figures(work, other)?.per_s)
}

fn added_by_bare_write(round: &Round) -> Option<f64> {
    let p50_us = |program| round.figures(Work::create(1), program)?.p50_us;
    Some((p50_us(PLANTD)? - p50_us(CEILING)?) / p50_us(BARE_WRITE)?)
}

/// A claim, and what came out.
#[derive(Debug, Serialize)]
pub(super) struct Judgement {
    pub(super) what: &'static str,
    pub(super) target: Target,
    /// Of the values of the rounds.
    pub(super) value: Spread,
    /// Whether the median reaches the target.
    pub(super) is_met: bool,
}

/// All claims that the rounds say something about.
pub(super) fn judge(rounds: &[Round]) -> Vec<Judgement> {
    let judgement = |claim: &Claim| {
        let Claim { what, target, value } = *claim;
        let value = Spread::of(rounds.iter().filter_map(value))?;
        Some(Judgement { what, target, is_met: target.is_met(value.median), value })
    };
    CLAIMS.iter().filter_map(judgement).collect()
}

/// What came out, as it stands in documents.
pub(super) fn table(judgements: &[Judgement]) -> Table {
    let mut table = Table::new(&["claim", "", "target", "median", "min", "max"], 2);
    for Judgement { what, target, value, is_met } in judgements {
        let target = match target {
            Target::AtLeast(target) => format!("≥ {target}"),
            Target::AtMost(target) => format!("≤ {target}"),
        };
        let verdict = if *is_met { "met" } else { "missed" };
        let [median, min, max] =
            [value.median, value.min, value.max].map(|value| format!("{value:.2}"));
        table.push([(*what).to_owned(), verdict.to_owned(), target, median, min, max]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::measurement::tests::measurement;
    use super::*;

    #[test]
    fn a_claim_is_judged_by_the_median_of_its_rounds() {
        let rounds = [(100, 85), (100, 90), (100, 95)].map(|(ceiling, plantd)| Round {
            measurements: vec![
                measurement(Work::Read, PLANTD, plantd, 10),
                measurement(Work::Read, CEILING, ceiling, 10),
            ],
        });
        let [judgement] = judge(&rounds).try_into().unwrap();
        assert_eq!(judgement.what, "reads by id, plantd/ceiling");
        assert_eq!(judgement.value, Spread { median: 0.9, min: 0.85, max: 0.95 });
        assert!(judgement.is_met);
        assert!(!judge(&rounds[..1])[0].is_met);
    }

    #[test]
    fn what_is_added_to_the_ceiling_is_counted_in_bare_writes() {
        let measurements = vec![
            measurement(Work::create(1), PLANTD, 1, 260),
            measurement(Work::create(1), CEILING, 1, 60),
            measurement(Work::create(1), BARE_WRITE, 1, 100),
        ];
        let [.., judgement] = &judge(&[Round { measurements }])[..] else { panic!("no claim") };
        assert_eq!(judgement.value.median, 2.0);
        assert!(!judgement.is_met);
    }

    #[test]
    fn nothing_is_said_about_what_was_not_measured() {
        assert!(judge(&[Round::default()]).is_empty());
    }
}
