//! `cargo xtask bench create`: how many plants a second plantd stores, next to a server that
//! does the same HTTP but stores nothing, the ceiling.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::machine::Machine;
use super::options::{IdOrder, Options};
use super::probe;
use super::program::Program;
use super::spread::Spread;
use super::wrk::{self, Load, Outcome};
use crate::{cargo, tools};

const SCRIPT: &str = include_str!("create.lua");
/// Both programs run for the bench only, on addresses that nobody else can reach.
const TOKEN: &str = "token-of-the-bench";
const WARM_UP_S: u32 = 1;

// Ids never come twice: the script maps counters to ids one to one, and zero to zero.
/// What the probe creates.
const PROBE_PLANT: &str = r#"{"id":0,"name":"Eastern white pine 0","tag":"Pinaceae"}"#;
/// Below the ids of the measurement, so that ascending ids ascend all the way.
const WARM_UP_FIRST_COUNTER: u64 = 1;
const MEASURE_FIRST_COUNTER: u64 = 1_000_000_000;

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
    wrk_threads: u32,
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

/// Where things are.
#[derive(Debug)]
struct Place {
    ceiling: PathBuf,
    plantd: PathBuf,
    /// On the same disk as the checkout: a temporary folder of the system may be in memory.
    bench_folder: PathBuf,
}

/// Builds both programs, measures them in turns, prints a table and writes the report.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::WRK])?;
    let place = build()?;
    let machine = Machine::this()?;
    println!(
        "{machine}\n{} rounds of {} s, {} connections, {} ids",
        options.rounds,
        options.measure_s,
        options.connections,
        options.ids.name()
    );
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        // Who comes first meets a cooler machine and an emptier disk queue.
        let round = play_round(&place, options, number % 2 == 1)
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
    let path = place.bench_folder.join("create.json");
    let json = serde_json::to_string_pretty(&report).context("cannot write the report as JSON")?;
    fs::write(&path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    println!("All numbers: {}", path.display());
    Ok(())
}

fn build() -> anyhow::Result<Place> {
    let workspace = cargo::workspace()?;
    // Two builds, since one with both would give plantd the features that examples ask for.
    for what in [["--bin", "plantd"], ["--example", "ceiling"]] {
        cargo::run(
            cargo::command(&workspace.workspace_root)
                .args(["build", "--release", "--package", "plant-http"])
                .args(what),
        )?;
    }
    let target_folder = workspace.target_directory.into_std_path_buf();
    let bench_folder = target_folder.join("bench");
    fs::create_dir_all(&bench_folder)
        .with_context(|| format!("cannot make {}", bench_folder.display()))?;
    Ok(Place {
        ceiling: target_folder.join("release/examples/ceiling"),
        plantd: target_folder.join("release/plantd"),
        bench_folder,
    })
}

fn play_round(place: &Place, options: &Options, is_ceiling_first: bool) -> anyhow::Result<Round> {
    let ceiling = || measure(&place.ceiling, &place.bench_folder, options);
    let plantd = || measure(&place.plantd, &place.bench_folder, options);
    let (ceiling, plantd) = if is_ceiling_first {
        let ceiling = ceiling()?;
        (ceiling, plantd()?)
    } else {
        let plantd = plantd()?;
        (ceiling()?, plantd)
    };
    Ok(Round { is_ceiling_first, ceiling, plantd })
}

fn measure(executable: &Path, bench_folder: &Path, options: &Options) -> anyhow::Result<Outcome> {
    let folder = tempfile::Builder::new()
        .prefix("create-")
        .tempdir_in(bench_folder)
        .with_context(|| format!("cannot make a folder in {}", bench_folder.display()))?;
    let script = folder.path().join("create.lua");
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    let program = Program::start(executable, folder.path(), TOKEN)?;
    program.run(|program| put_load(program, &script, options))
}

fn put_load(program: &Program, script: &Path, options: &Options) -> anyhow::Result<Outcome> {
    probe::create(program.address(), TOKEN, PROBE_PLANT)?;
    let load = |first_counter, duration_s| {
        wrk::run(&Load {
            address: program.address(),
            token: TOKEN,
            script,
            script_arguments: &script_arguments(first_counter, options.ids),
            connections: options.connections,
            duration_s,
        })
    };
    load(WARM_UP_FIRST_COUNTER, WARM_UP_S).context("the warm-up failed")?;
    load(MEASURE_FIRST_COUNTER, options.measure_s)
}

fn script_arguments(first_counter: u64, ids: IdOrder) -> [String; 2] {
    [first_counter.to_string(), ids.name().to_owned()]
}

fn report(machine: Machine, options: Options, rounds: Vec<Round>) -> Option<Report> {
    Some(Report {
        machine,
        options,
        warm_up_s: WARM_UP_S,
        wrk_threads: wrk::THREADS,
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
    use super::*;

    fn outcome(requests: u64) -> Outcome {
        Outcome {
            requests,
            duration_us: 1_000_000,
            status_errors: 0,
            socket_errors: 0,
            latency_p50_us: 1_500,
            latency_p90_us: 2_000,
            latency_p99_us: 3_000,
        }
    }

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
