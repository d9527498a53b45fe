//! `cargo xtask bench postgres`: plantd on PostgreSQL, next to what PostgreSQL does when it is asked by itself.

mod options;
mod pgbench;
mod real_plants;
mod replicas;
mod report;
mod round_trip;
mod server;
mod statement;
mod turns;

use std::fs;

use anyhow::{Context as _, ensure};

pub(super) use self::pgbench::Outcome as PgbenchOutcome;
pub(super) use self::round_trip::run as run_move;

use self::options::Options;
use self::report::Report;
use self::server::Server;
use self::statement::Statement;
use self::turns::{Entry, Task, turns};
use super::bench_folder::BenchFolder;
use super::contender::{self, Contender};
use super::load::{
    self, Load, MEASURE_FIRST_COUNTER, Script, Store, TOKEN, WARM_UP_FIRST_COUNTER, WARM_UP_S,
};
use super::machine::Machine;
use super::measurement::{Measurement, Reading, Round};
use super::options::IdOrder;
use super::plants::{Plants, scattered};
use super::turns::in_order_of_round;
use super::{interrupt, performance_document, transfer};
use crate::{cargo, tools};

/// The schema of the plants that are read and listed.
const STORED: &str = "stored";

/// The schema of the plants that one measurement creates.
const CREATED: &str = "created";

/// Measures in turns, prints tables and writes the report and, unless it is a quick run, the document.
pub(super) fn run(arguments: &[String], usage: &'static str) -> anyhow::Result<()> {
    let options = options::parse(arguments, usage)?;
    tools::ensure(&[tools::WRK, tools::POSTGRESQL])?;
    let workspace = cargo::workspace()?;
    let plantd = contender::build_plantd(&workspace)?;
    let folder = BenchFolder::make(&workspace)?;
    let machine = Machine::this()?;
    interrupt::listen()?;
    let server = Server::start()?;
    println!("{machine}\n{}", server.settings());
    let bench = Bench { options, folder, plants: Plants::of_the_scripts()?, plantd, server };
    bench.store_plants().context("cannot store the plants that are read and listed")?;
    let rounds: Vec<Round> =
        (1..=bench.options.rounds).map(|number| bench.play(number)).collect::<Result<_, _>>()?;
    let Bench { options, folder, server, .. } = bench;
    let report = Report::new(machine, server.settings().clone(), options.clone(), rounds);
    println!("\n{report}");
    folder.write_report("postgres.json", &report)?;
    if options.is_documented() {
        let root = workspace.workspace_root.as_std_path();
        performance_document::refresh(root, "postgres", &report.to_string())?;
    }
    Ok(())
}

/// What all measurements have in common.
#[derive(Debug)]
struct Bench {
    options: Options,
    folder: BenchFolder,
    plants: Plants,
    plantd: Contender,
    server: Server,
}

impl Bench {
    fn store_plants(&self) -> anyhow::Result<()> {
        let count = self.options.stored_plants;
        println!("plantd imports {count} plants");
        let folder = self.folder.temporary()?;
        let file = folder.path().join("plants.ndjson");
        self.plants.write(&file, (1..=count).map(scattered))?;
        let contender = self.server.contender(&self.plantd, STORED);
        replicas::run(&contender, 1, folder.path(), |addresses| {
            let address = *addresses.first().context("there is no server")?;
            transfer::timed(&contender, "import", address, &file, count, TOKEN)
        })?;
        self.check_count(STORED, count)?;
        // Else it would come to that in the middle of a measurement.
        self.server.query(&format!("VACUUM ANALYZE {STORED}.plants")).map(drop)
    }

    /// Fails where there are fewer plants than were acknowledged.
    fn check_count(&self, schema: &str, acknowledged: u64) -> anyhow::Result<()> {
        let count = self.server.query(&format!("SELECT count(*) FROM {schema}.plants"))?;
        let count: u64 = count.parse().with_context(|| format!("{count} is no count"))?;
        ensure!(
            count >= acknowledged,
            "{acknowledged} plants were acknowledged, and {count} are there"
        );
        Ok(())
    }

    fn play(&self, round: u32) -> anyhow::Result<Round> {
        let mut measurements = Vec::new();
        for turn in turns() {
            for entry in in_order_of_round(&turn, round)? {
                interrupt::check()?;
                let Entry { work, program, .. } = *entry;
                let reading = self.measure(entry).with_context(|| {
                    format!("cannot measure {program} at `{work}` in round {round}")
                })?;
                println!("round {round}: {work}: {program}: {}", reading.figures());
                measurements.push(Measurement { work, program, reading });
            }
        }
        Ok(Round { measurements })
    }

    fn measure(&self, entry: &Entry) -> anyhow::Result<Reading> {
        let reads = match entry.task {
            Task::Pgbench(statement) => statement.needs_plants(),
            Task::Plantd { script, .. } => script != Script::Create,
        };
        if reads {
            self.server.come_to_rest()?;
            return Ok(self.measure_in(STORED, entry)?.0);
        }
        self.server.migrate(&self.plantd, CREATED)?;
        self.server.come_to_rest()?;
        let (reading, acknowledged) = self.measure_in(CREATED, entry)?;
        self.check_count(CREATED, acknowledged)?;
        self.server.query(&format!("DROP SCHEMA {CREATED} CASCADE"))?;
        Ok(reading)
    }

    /// Returns what came out, and how many plants or lists were acknowledged.
    fn measure_in(&self, schema: &str, entry: &Entry) -> anyhow::Result<(Reading, u64)> {
        match entry.task {
            Task::Pgbench(statement) => {
                let outcome = self.pgbench(statement, schema, entry.connections)?;
                let rows = outcome.rows();
                Ok((Reading::Pgbench(outcome), rows))
            }
            Task::Plantd { replicas, script } => {
                let contender = self.server.contender(&self.plantd, schema);
                let folder = self.folder.temporary()?;
                let is_create = script == Script::Create;
                let load = Load {
                    script,
                    connections: entry.connections,
                    ids: IdOrder::Random,
                    measure_s: self.options.measure_s,
                    store: (!is_create)
                        .then_some(Store { plants: self.options.stored_plants, folder: None }),
                };
                let outcome = replicas::run(&contender, replicas, folder.path(), |addresses| {
                    load::measure_running(addresses, folder.path(), &load)
                })?;
                let answers = outcome.requests;
                Ok((Reading::Load(outcome), answers))
            }
        }
    }

    fn pgbench(
        &self,
        statement: Statement,
        schema: &str,
        clients: u32,
    ) -> anyhow::Result<pgbench::Outcome> {
        let folder = self.folder.temporary()?;
        let script = folder.path().join("load.sql");
        fs::write(&script, statement.script(schema, &self.plants, self.options.stored_plants))
            .with_context(|| format!("cannot write {}", script.display()))?;
        let url = self.server.url();
        let run = |duration_s, first_number| {
            pgbench::run(&pgbench::Load {
                url: &url,
                script: &script,
                clients,
                duration_s,
                first_number,
                rows: statement.rows(),
            })
        };
        run(WARM_UP_S, WARM_UP_FIRST_COUNTER).context("the warm-up failed")?;
        run(self.options.measure_s, MEASURE_FIRST_COUNTER)
    }
}
