//! `cargo xtask bench postgres` and `postgres-move`: plantd on PostgreSQL, next to what PostgreSQL does by itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use test_postgres::Cluster;

use super::load::{CONNECTIONS, Load, Request, THREADS, WARM_UP};
use super::measure::{Claim, Entry, Figures, Target, measure};
use super::options::Options;
use super::plants::{scattered, scattered_sql, write_file};
use super::program::{self, Contender, PLANTD, Program, output, serve, transfer};
use super::report::{claim_section, machine, number, publish, rate_section, table};
use crate::tools;

const CREATE_1: &str = "create, 1 connection, random ids";
const CREATE_16: &str = "create, 16 connections, random ids";
const CREATE_64: &str = "create, 64 connections, random ids";
const READ: &str = "read by id";
const LIST: &str = "list of 100";

const PGBENCH: &str = "pgbench";

const CLAIMS: [Claim; 1] = [(
    "creates at 64 connections, plantd on PostgreSQL/pgbench with a row a statement",
    Target::AtLeast(1.5),
    |round| round.ratio(CREATE_64, PLANTD, PGBENCH),
)];

/// What a rate depends on.
const SETTINGS: [&str; 7] = [
    "shared_buffers",
    "fsync",
    "synchronous_commit",
    "wal_sync_method",
    "full_page_writes",
    "max_wal_size",
    "max_connections",
];

/// The schema of the plants that are read and listed.
const STORED: &str = "stored";

/// The schema of the plants that one measurement creates.
const CREATED: &str = "created";

/// A PostgreSQL on a new folder, which is gone when this is dropped, and plantd for it.
struct Server<'a> {
    options: &'a Options,
    cluster: Cluster,
    plantd: Contender,
}

impl<'a> Server<'a> {
    fn start(options: &'a Options) -> anyhow::Result<Self> {
        tools::ensure(&[tools::POSTGRESQL])?;
        let plantd = program::plantd(&options.workspace)?;
        // As PostgreSQL sets them by itself.
        let settings = [("max_connections", "100"), ("shared_buffers", "128MB")];
        Ok(Self { options, cluster: Cluster::start_with(&settings), plantd })
    }

    /// The machine, the version, the file system and the settings. Fails if the file system is in memory.
    fn description(&self) -> anyhow::Result<String> {
        let mut stat = Command::new("stat");
        let stat = stat.args(["--file-system", "--format=%T"]).arg(self.cluster.data());
        let file_system = output(stat)?.trim().to_owned();
        ensure!(
            !["tmpfs", "ramfs"].contains(&&*file_system),
            "PostgreSQL would write into memory, where a commit costs nothing: name a folder on a disk in TMPDIR"
        );
        let show = |name: &str| self.query(&format!("SHOW {name}"));
        let mut settings = Vec::new();
        for name in SETTINGS {
            settings.push(format!("`{name}` {}", show(name)?));
        }
        let (version, settings) = (show("server_version")?, settings.join(", "));
        Ok(format!("{}. PostgreSQL {version} on {file_system}: {settings}.", machine()?))
    }

    fn query(&self, sql: &str) -> anyhow::Result<String> {
        self.cluster.database().try_query(sql).map_err(|why| anyhow!("{sql}: {why}"))
    }

    /// plantd with its plants in a schema.
    fn plantd(&self, schema: &str) -> Contender {
        let url = self.cluster.url();
        let arguments = ["--postgres", &url, "--postgres-schema", schema].map(str::to_owned);
        Contender { arguments: arguments.into(), ..self.plantd.clone() }
    }

    /// Fails if a schema has fewer plants than were acknowledged.
    fn check_count(&self, schema: &str, acknowledged: u64) -> anyhow::Result<()> {
        let count: u64 = self.query(&format!("SELECT count(*) FROM {schema}.plants"))?.parse()?;
        ensure!(
            count >= acknowledged,
            "{acknowledged} plants were acknowledged, {count} are there"
        );
        Ok(())
    }

    /// Runs a measurement after a checkpoint, so that nothing older is written meanwhile; creates get new tables.
    fn entry(
        &'a self,
        work: &'static str,
        program: &'static str,
        measure: impl Fn(&Path) -> anyhow::Result<Figures> + 'a,
    ) -> Entry<'a> {
        let is_create = ![READ, LIST].contains(&work);
        let measure = move |folder: &Path| {
            if is_create {
                let Contender { executable, arguments, .. } = self.plantd(CREATED);
                output(Command::new(executable).arg("migrate").args(arguments).env_clear())?;
            }
            self.query("CHECKPOINT")?;
            let figures = measure(folder)?;
            if is_create {
                self.check_count(CREATED, figures.count)?;
                self.query(&format!("DROP SCHEMA {CREATED} CASCADE"))?;
            }
            Ok(figures)
        };
        (work, program, Box::new(measure))
    }

    /// A load on programs beside each other, on the same tables.
    fn replicas(
        &'a self,
        count: usize,
        work: &'static str,
        connections: usize,
        request: Request,
        stored: u64,
    ) -> Entry<'a> {
        let name = [PLANTD, "2 replicas of plantd", "3 replicas of plantd"][count - 1];
        self.entry(work, name, move |folder| {
            let plantd = self.plantd(if request == Request::Create { CREATED } else { STORED });
            let mut programs = Vec::new();
            for index in 0..count {
                let folder = folder.join(index.to_string());
                fs::create_dir(&folder)?;
                programs.push(Program::start(&plantd, &folder)?);
            }
            let next_number = AtomicU64::new(1);
            let duration = self.options.duration;
            let load = Load { connections, duration, stored, ..Load::new(request, &next_number) };
            let figures = load.measure(&programs.iter().collect::<Vec<_>>())?;
            programs.into_iter().try_for_each(Program::stop)?;
            Ok(figures)
        })
    }

    /// A script that pgbench runs over and over, in prepared statements. What counts are the rows of each statement.
    fn pgbench(
        &'a self,
        work: &'static str,
        program: &'static str,
        clients: usize,
        script: String,
        rows: u64,
    ) -> Entry<'a> {
        self.entry(work, program, move |folder| {
            let file = folder.join("load.sql");
            fs::write(&file, &script)?;
            let run = |first_number: u64, duration: Duration| {
                let mut command = test_postgres::command("pgbench");
                command.args(["--no-vacuum", "--protocol=prepared"]);
                command.arg(format!("--client={clients}"));
                command.arg(format!("--jobs={}", THREADS.min(clients)));
                command.arg(format!("--time={}", duration.as_secs()));
                command.arg(format!("--define=clients={clients}"));
                command.arg(format!("--define=number={first_number}"));
                command.arg("--file").arg(&file).arg(self.cluster.url());
                output(&mut command)
            };
            run(0, WARM_UP).context("the warm-up failed")?;
            // A number that the warm-up does not reach.
            pgbench_figures(&run(1_000_000, self.options.duration)?, rows)
        })
    }
}

/// Reads what pgbench prints, and fails unless every transaction was carried out.
fn pgbench_figures(stdout: &str, rows: u64) -> anyhow::Result<Figures> {
    let value = |name: &str| {
        let value = stdout.lines().find_map(|line| line.strip_prefix(name)?.split(' ').next());
        value.with_context(|| format!("pgbench printed no line `{name}`:\n{stdout}"))
    };
    let failed = value("number of failed transactions: ")?;
    ensure!(failed == "0", "{failed} transactions failed");
    let transactions: u64 = value("number of transactions actually processed: ")?.parse()?;
    ensure!(stdout.contains("(without initial connection time)"), "another rate:\n{stdout}");
    let seconds = transactions as f64 / value("tps = ")?.parse::<f64>()?;
    Ok(Figures { count: transactions * rows, seconds, latency: None })
}

/// The columns of a new plant, with as many bytes as one of the load generator has, and one of 70 tags.
fn columns(id: &str, number: &str) -> String {
    let digits = format!("{id} % 10000000");
    format!(
        "{id}, {number}, 'Quercus ' || {digits}, 'quercus ' || {digits}, 'Plantaceae' || {id} % 70, NULL"
    )
}

/// Inserts one row, or 64 at once.
fn insert_script(is_many: bool) -> String {
    let (id, rows) = (scattered_sql(":own"), if is_many { 64 } else { 1 });
    let values = if is_many {
        let id = scattered_sql("number");
        let numbers = "generate_series(CAST(:own AS bigint), CAST(:own AS bigint) + 63)";
        format!("SELECT {} FROM {numbers} AS new (number)", columns(&id, "number"))
    } else {
        format!("VALUES ({})", columns("CAST(:id AS bigint)", "CAST(:own AS bigint)"))
    };
    format!(
        "\\set number :number + :clients * {rows}\n\\set own :number + :client_id * {rows}\n\\set id {id}\n\
         INSERT INTO {CREATED}.plants (id, revision, name, folded_name, tag, idempotency) {values};\n"
    )
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let server = Server::start(options)?;
    let description = server.description()?;
    let stored = options.plants(100_000);
    let material = options.temporary()?;
    let file = material.path().join("plants.ndjson");
    write_file(&file, (1..=stored).map(scattered))?;
    let plantd = server.plantd(STORED);
    serve(&plantd, material.path(), |program| transfer(&plantd, "import", program, &file, stored))?;
    server.check_count(STORED, stored)?;
    // Otherwise autovacuum would do both during a measurement.
    server.query(&format!("VACUUM ANALYZE {STORED}.plants"))?;

    let mut turns = Vec::new();
    for (work, connections) in [(CREATE_1, 1), (CREATE_16, 16), (CREATE_64, CONNECTIONS)] {
        let replicas = |count| server.replicas(count, work, connections, Request::Create, stored);
        let pgbench = server.pgbench(work, PGBENCH, connections, insert_script(false), 1);
        turns.push(vec![pgbench, replicas(1)]);
        if work == CREATE_64 {
            let (name, script) = ("pgbench, 64 rows a statement", insert_script(true));
            let many = server.pgbench(work, name, connections, script, 64);
            turns[2].extend([replicas(2), replicas(3), many]);
        }
    }
    for (work, request, condition) in
        [(READ, Request::Read, "id = :id"), (LIST, Request::List, "id > :id ORDER BY id LIMIT 100")]
    {
        let script = format!(
            "\\set number random(1, {stored})\n\\set id {}\n\
             SELECT id, revision, name, tag FROM {STORED}.plants WHERE {condition};\n",
            scattered_sql(":number")
        );
        turns.push(vec![
            server.pgbench(work, PGBENCH, CONNECTIONS, script, 1),
            server.replicas(1, work, CONNECTIONS, request, stored),
        ]);
    }
    let mut rounds = Vec::new();
    measure(options, &mut rounds, &turns)?;
    let text = format!(
        "{description}\n\n\
         Rounds: {}, of {} s for each measurement. {} plants are stored for reads and lists. Values are medians of the\n\
         rounds, with the least and the greatest in brackets. Rates are of plants, and of lists.\n{}{}",
        options.rounds,
        options.duration.as_secs(),
        number(stored as f64, 0),
        claim_section(&CLAIMS, &rounds),
        rate_section(&rounds, &[PGBENCH], ""),
    );
    publish(options, "postgres", &text)
}

/// Moves plants from a data folder into PostgreSQL and back into a folder, by import and export alone, and fails
/// unless all exports are the same.
pub(super) fn run_move(options: &Options) -> anyhow::Result<()> {
    let server = Server::start(options)?;
    let description = server.description()?;
    let plants = options.plants(1_000_000);
    let material = options.temporary()?;
    let file = |name: &str| material.path().join(name);
    write_file(&file("plants.ndjson"), (1..=plants).map(scattered))?;
    let [folder, postgres] = [server.plantd.clone(), server.plantd("moved")];
    let mut rows = Vec::new();
    for (index, (plantd, place)) in
        [(&folder, "a data folder"), (&postgres, "PostgreSQL"), (&folder, "another data folder")]
            .into_iter()
            .enumerate()
    {
        let source = if index == 0 {
            file("plants.ndjson")
        } else {
            file(&format!("export-{index}.ndjson"))
        };
        let export = file(&format!("export-{}.ndjson", index + 1));
        let steps = serve(plantd, options.temporary()?.path(), |program| {
            Ok([
                (
                    format!("import into {place}"),
                    transfer(plantd, "import", program, &source, plants)?,
                ),
                (
                    "export from there".to_owned(),
                    transfer(plantd, "export", program, &export, plants)?,
                ),
            ])
        })?;
        for (step, figures) in steps {
            rows.push(vec![step, number(figures.seconds, 1), number(figures.per_s(), 0)]);
        }
        let is_same = fs::read(&export)? == fs::read(file("export-1.ndjson"))?;
        ensure!(is_same, "the export from {place} differs from the first one");
    }
    let text = format!(
        "{description}\n\n\
         {} plants, moved once. The three exports have {} bytes each, and are the same byte by byte.\n\n{}",
        number(plants as f64, 0),
        number(fs::metadata(file("export-1.ndjson"))?.len() as f64, 0),
        table(&["step", "seconds", "plants/s"], 1, &rows),
    );
    publish(options, "postgres-move", &text)
}
