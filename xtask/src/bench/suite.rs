//! `cargo xtask bench`: plantd, the ceiling that it is measured against and what others would use in its place,
//! in turn, at all that a store is asked for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use tempfile::TempDir;

use super::bench_folder::BenchFolder;
use super::contender::{self, Contender, PLANTD};
use super::load::{self, Load, Script, Store, TOKEN, WARM_UP_S};
use super::machine::Machine;
use super::measurement::{CONNECTIONS, Measurement, Reading, Round, Work};
use super::oha::{self, OpenLoop};
use super::options::IdOrder;
use super::performance_document::{self, PLOTS_FOLDER};
use super::plants::Plants;
use super::program::Program;
use super::suite_options::{Part, SuiteOptions};
use super::suite_report::SuiteReport;
use super::turns::{Entry, Programs, Task, Turn, in_order_of_round};
use super::{bare_write, interrupt, peers, store, transfer};
use crate::{cargo, tools};

/// Measures in turns, prints tables and writes the report; what a whole run says also goes into the documents.
pub(super) fn run(options: &SuiteOptions) -> anyhow::Result<()> {
    tools::ensure(&[tools::WRK, tools::GNUPLOT])?;
    let workspace = cargo::workspace()?;
    let programs = programs(&workspace, options)?;
    let bench_folder = BenchFolder::make(&workspace)?;
    let machine = Machine::this()?;
    interrupt::listen()?;
    println!(
        "{machine}\nRounds: {}, of {} s for each measurement",
        options.rounds, options.measure_s
    );
    let material = Material::make(&bench_folder, &programs, options)?;
    let suite = Suite { options, bench_folder: &bench_folder, material: &material };
    let turns = programs.turns(options);
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        rounds.push(Round { measurements: suite.play(number, &turns)? });
    }
    if let Some(oha) = &programs.oha {
        // The rate is the same in each round, and so known only now.
        let turn = programs.half_load(oha, half_load_per_s(&rounds)?);
        for (number, round) in (1..).zip(&mut rounds) {
            round.measurements.extend(suite.play(number, slice::from_ref(&turn))?);
        }
    }
    let report = SuiteReport::new(machine, options.clone(), &programs.names(), rounds);
    println!("\n{report}");
    bench_folder.write_report("report.json", &report)?;
    if options.is_whole() {
        let root = workspace.workspace_root.as_std_path();
        performance_document::refresh(root, "suite", &report.to_string())?;
        report.draw(&root.join(PLOTS_FOLDER))?;
    }
    Ok(())
}

fn programs(workspace: &Metadata, options: &SuiteOptions) -> anyhow::Result<Programs> {
    let [plantd, ceiling] = contender::build(workspace)?;
    let parts_with_peers = [Part::Create, Part::Read, Part::List, Part::Mix];
    let peers = if parts_with_peers.iter().any(|part| options.has(*part)) {
        peers::install(workspace)?.into_iter().map(Contender::from).collect()
    } else {
        Vec::new()
    };
    let bare_sled = options.has(Part::Import).then(|| transfer::build_bare_sled(workspace));
    let oha = options.has(Part::Latency).then(|| oha::ensure(workspace));
    Ok(Programs {
        plantd,
        ceiling,
        peers,
        bare_sled: bare_sled.transpose()?,
        oha: oha.transpose()?,
    })
}

/// Half of the best rate of plantd.
fn half_load_per_s(rounds: &[Round]) -> anyhow::Result<u64> {
    let is_it = |measurement: &&Measurement| {
        measurement.work == Work::create(CONNECTIONS) && measurement.program == PLANTD
    };
    let measurements = rounds.iter().flat_map(|round| &round.measurements).filter(is_it);
    let halves = measurements.filter_map(|measurement| match &measurement.reading {
        Reading::Load(outcome) => {
            outcome.requests.saturating_mul(500_000).checked_div(outcome.duration_us)
        }
        _ => None,
    });
    halves.max().context("there is no rate of plantd to take the half of")
}

/// What measurements begin with.
#[derive(Debug)]
struct Material {
    folder: TempDir,
    /// By the name of a program, the folder with its data folder in it.
    stores: BTreeMap<&'static str, PathBuf>,
}

impl Material {
    fn make(
        bench_folder: &BenchFolder,
        programs: &Programs,
        options: &SuiteOptions,
    ) -> anyhow::Result<Self> {
        let mut material = Self { folder: bench_folder.temporary()?, stores: BTreeMap::new() };
        let plants = Plants::of_the_scripts()?;
        if options.has(Part::Import) {
            plants.write(&material.plants_path(), 1..=options.imported_plants)?;
        }
        let parts_with_stores = [Part::Read, Part::List, Part::Mix];
        if parts_with_stores.iter().any(|part| options.has(*part)) {
            let contenders = [&programs.plantd].into_iter().chain(&programs.peers);
            for (number, contender) in contenders.enumerate() {
                println!("{} creates {} plants", contender.name, options.stored_plants);
                let folder = material.folder.path().join(format!("store-{number}"));
                fs::create_dir(&folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                store::fill(contender, &folder, TOKEN, &plants, options.stored_plants)?;
                material.stores.insert(contender.name, folder);
            }
        }
        Ok(material)
    }

    fn plants_path(&self) -> PathBuf {
        self.folder.path().join("plants.ndjson")
    }

    fn store(&self, contender: &Contender, plants: u64) -> Store<'_> {
        // The ceiling stores nothing.
        Store { plants, folder: self.stores.get(contender.name).map(PathBuf::as_path) }
    }
}

/// What all measurements have in common.
#[derive(Debug)]
struct Suite<'a> {
    options: &'a SuiteOptions,
    bench_folder: &'a BenchFolder,
    material: &'a Material,
}

impl Suite<'_> {
    fn play(&self, round: u32, turns: &[Turn<'_>]) -> anyhow::Result<Vec<Measurement>> {
        let mut measurements = Vec::new();
        for turn in turns {
            for Entry { work, program, task } in in_order_of_round(turn, round)? {
                interrupt::check()?;
                let readings = self.measure(*work, task).with_context(|| {
                    format!("cannot measure {program} at `{work}` in round {round}")
                })?;
                for (work, reading) in readings {
                    println!("round {round}: {work}: {program}: {}", reading.figures());
                    measurements.push(Measurement { work, program, reading });
                }
            }
        }
        Ok(measurements)
    }

    fn measure(&self, work: Work, task: &Task<'_>) -> anyhow::Result<Vec<(Work, Reading)>> {
        let &SuiteOptions { measure_s, stored_plants, imported_plants, .. } = self.options;
        let folder = self.bench_folder.temporary()?;
        let folder = folder.path();
        let reading = match task {
            Task::Load { contender, script, connections, ids } => {
                let store = match script {
                    Script::Create => None,
                    _ => Some(self.material.store(contender, stored_plants)),
                };
                let load = Load {
                    script: *script,
                    connections: *connections,
                    ids: *ids,
                    measure_s,
                    store,
                };
                Reading::Load(load::measure(contender, folder, &load)?)
            }
            Task::OpenLoop { contender, oha, rate_per_s } => {
                Reading::OpenLoop(self.open_loop(contender, oha, *rate_per_s, folder)?)
            }
            Task::ThereAndBack { plantd } => {
                let path = self.material.plants_path();
                let both = transfer::there_and_back(plantd, &path, imported_plants, folder, TOKEN)?;
                return Ok(vec![
                    (work, Reading::Transfer(both.import)),
                    (Work::Export, Reading::Transfer(both.export)),
                ]);
            }
            Task::BareSled { executable, way } => Reading::Transfer(transfer::run_bare_sled(
                executable,
                way,
                imported_plants,
                folder,
            )?),
            Task::BareWrites => Reading::BareWrites(bare_write::measure(
                folder,
                Duration::from_secs(WARM_UP_S.into()),
                Duration::from_secs(measure_s.into()),
            )?),
        };
        Ok(vec![(work, reading)])
    }

    fn open_loop(
        &self,
        contender: &Contender,
        oha: &Path,
        rate_per_s: u64,
        folder: &Path,
    ) -> anyhow::Result<oha::Latency> {
        let duration_s = self.options.measure_s;
        let warm_up = Load {
            script: Script::Create,
            connections: CONNECTIONS,
            ids: IdOrder::Ascending,
            measure_s: duration_s,
            store: None,
        };
        Program::start(contender, folder, TOKEN)?.run(|program| {
            let address = program.address();
            load::warm_up(&[address], folder, &warm_up)?;
            oha::run(&OpenLoop {
                executable: oha,
                address,
                token: TOKEN,
                rate_per_s,
                connections: CONNECTIONS,
                duration_s,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::measurement::tests::measurement;
    use super::*;

    #[test]
    fn half_load_is_half_of_the_best_round_of_plantd() {
        let round = |plantd, ceiling| Round {
            measurements: vec![
                measurement(Work::create(CONNECTIONS), PLANTD, plantd, 1),
                measurement(Work::create(CONNECTIONS), "ceiling", ceiling, 1),
                measurement(Work::create(1), PLANTD, 70_000, 1),
            ],
        };
        let rounds = [round(40_000, 90_000), round(50_001, 80_000)];
        assert_eq!(half_load_per_s(&rounds).unwrap(), 25_000);
        assert!(half_load_per_s(&[Round::default()]).is_err());
    }
}
