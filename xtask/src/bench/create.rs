//! `cargo xtask bench create`: how many plants a second plantd stores, next to a server that
//! does the same HTTP but stores nothing, the ceiling.

use anyhow::Context as _;
use serde::Serialize;

use super::bench_folder::BenchFolder;
use super::contender::{self, Contender};
use super::interrupt;
use super::load::{self, Load, Script};
use super::machine::Machine;
use super::options::Options;
use super::spread::Spread;
use super::wrk::{self, Outcome};
use crate::{cargo, tools};

const NOTES: [&str; 4] = [
    "Load generator and server share the cores of this machine.",
    "Each measurement has a fresh process on a fresh data folder under target/bench, and a warm-up.",
    "Programs run as a user starts them: default settings, access log on, stderr to a file.",
    "An answer with a status above 399, or none, fails the bench; each program first has to create one plant.",
];

/// What ends up in `target/bench/create.json`.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    options: Options,
    warm_up_s: u32,
    wrk_max_threads: u32,
    notes: [&'static str; 4],
    ceiling: Summary,
    plantd: Summary,
    /// Creates per second of plantd divided by those of the ceiling, of each round.
    ratio: Spread,
    rounds: Vec<Round>,
}

/// One program over all rounds.
#[derive(Debug, Serialize)]
struct Summary {
    creates_per_s: Spread,
    latency_p50_us: Spread,
    latency_p99_us: Spread,
}

/// Both programs, one right after the other.
#[derive(Debug, Serialize)]
struct Round {
    is_ceiling_first: bool,
    ceiling: Outcome,
    plantd: Outcome,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.plantd.requests_per_s() / self.ceiling.requests_per_s()
    }
}

/// Builds both programs, measures them in turns, prints a table and writes the report.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::WRK])?;
    let workspace = cargo::workspace()?;
    let [plantd, ceiling] = contender::build(&workspace)?;
    let bench_folder = BenchFolder::make(&workspace)?;
    let machine = Machine::this()?;
    interrupt::listen()?;
    println!(
        "{machine}\n{} rounds of {} s, {} connections, {} ids",
        options.rounds,
        options.measure_s,
        options.connections,
        options.ids.name()
    );
    let measure = |contender: &Contender| {
        let folder = bench_folder.temporary()?;
        load::measure(contender, folder.path(), &load_of(options))
    };
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        // Who comes first meets a cooler machine and an emptier disk queue.
        let round = play_round(number % 2 == 1, || measure(&ceiling), || measure(&plantd))
            .with_context(|| format!("round {number} failed"))?;
        println!(
            "round {number}: ceiling {:.0}/s, plantd {:.0}/s, ratio {:.3}",
            round.ceiling.requests_per_s(),
            round.plantd.requests_per_s(),
            round.ratio()
        );
        rounds.push(round);
    }
    let report = report(machine, options.clone(), rounds).context("there are no rounds")?;
    print!("{}", table(&report));
    bench_folder.write_report("create.json", &report)
}

fn load_of(options: &Options) -> Load<'static> {
    Load {
        script: Script::Create,
        connections: options.connections,
        ids: options.ids,
        measure_s: options.measure_s,
        store: None,
    }
}

fn play_round(
    is_ceiling_first: bool,
    ceiling: impl FnOnce() -> anyhow::Result<Outcome>,
    plantd: impl FnOnce() -> anyhow::Result<Outcome>,
) -> anyhow::Result<Round> {
    let (ceiling, plantd) = if is_ceiling_first {
        let ceiling = ceiling()?;
        (ceiling, plantd()?)
    } else {
        let plantd = plantd()?;
        (ceiling()?, plantd)
    };
    Ok(Round { is_ceiling_first, ceiling, plantd })
}

fn report(machine: Machine, options: Options, rounds: Vec<Round>) -> Option<Report> {
    Some(Report {
        machine,
        options,
        warm_up_s: load::WARM_UP_S,
        wrk_max_threads: wrk::MAX_THREADS,
        notes: NOTES,
        ceiling: summary(rounds.iter().map(|round| &round.ceiling))?,
        plantd: summary(rounds.iter().map(|round| &round.plantd))?,
        ratio: Spread::of(rounds.iter().map(Round::ratio))?,
        rounds,
    })
}

fn summary<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Option<Summary> {
    let spread = |value: fn(&Outcome) -> f64| Spread::of(outcomes.clone().map(value));
    Some(Summary {
        creates_per_s: spread(Outcome::requests_per_s)?,
        latency_p50_us: spread(|outcome| outcome.latency_p50_us as f64)?,
        latency_p99_us: spread(|outcome| outcome.latency_p99_us as f64)?,
    })
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "\n{:<8} {:>10} {:>10} {:>10} {:>8} {:>8}\n{:<8} {:>10} {:>10} {:>10} {:>8} {:>8}\n",
        "", "creates/s", "", "", "p50 ms", "p99 ms", "", "median", "min", "max", "median", "median"
    );
    for (name, summary) in [("ceiling", &report.ceiling), ("plantd", &report.plantd)] {
        let Summary { creates_per_s, latency_p50_us, latency_p99_us } = summary;
        text.push_str(&format!(
            "{name:<8} {:>10.0} {:>10.0} {:>10.0} {:>8.2} {:>8.2}\n",
            creates_per_s.median,
            creates_per_s.min,
            creates_per_s.max,
            latency_p50_us.median / 1_000.0,
            latency_p99_us.median / 1_000.0,
        ));
    }
    text.push_str(&format!(
        "\nplantd/ceiling, median of the rounds: {:.3} (min {:.3}, max {:.3})\n\n",
        report.ratio.median, report.ratio.min, report.ratio.max
    ));
    for note in report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::wrk::tests::outcome;
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_the_ratios_and_not_the_ratio_of_the_medians() {
        let rounds = [(100, 90), (200, 100), (400, 160)];
        let ratios = rounds.map(|(ceiling, plantd)| {
            let round = Round {
                is_ceiling_first: true,
                ceiling: outcome(ceiling),
                plantd: outcome(plantd),
            };
            round.ratio()
        });
        let ratio = Spread::of(ratios).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.4, 0.5, 0.9));
    }

    #[test]
    fn a_summary_holds_the_spread_of_all_rounds() {
        let outcomes = [outcome(10), outcome(30), outcome(20)];
        let summary = summary(outcomes.iter()).unwrap();
        assert_eq!(summary.creates_per_s.median, 20.0);
        assert_eq!(summary.creates_per_s.max, 30.0);
        assert_eq!(summary.latency_p99_us.min, 3_000.0);
    }
}
