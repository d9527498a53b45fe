//! `cargo xtask bench postgres` and `postgres-move`: plantd on PostgreSQL, next to PostgreSQL alone.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use test_postgres::Cluster;

use super::load::{CONNECTIONS, Load, Request, WARM_UP};
use super::measure::{Entry, Measurement, Results, Target};
use super::options::Options;
use super::plants::{scattered, write_file};
use super::program::{Contender, PLANTD, output, plantd, serve, transfer};
use super::report::{claims, machine, measurements, number, publish, table};
use crate::tools;

const CREATE_64: &str = "create, 64 connections, random ids";
const PGBENCH: &str = "pgbench";

/// Each workload with the script in bench/pgbench that does the same.
const WORKS: [(&str, usize, Request, &str); 5] = [
    ("create, 1 connection, random ids", 1, Request::Create, "create"),
    ("create, 16 connections, random ids", 16, Request::Create, "create"),
    (CREATE_64, CONNECTIONS, Request::Create, "create"),
    ("read by id", CONNECTIONS, Request::Read, "read"),
    ("list of 100", CONNECTIONS, Request::List, "list"),
];

/// The settings that a rate depends on.
const SETTINGS: &str = "SELECT string_agg(format('`%s` %s', name, current_setting(name)), ', ' ORDER BY name) \
    FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'max_connections', 'max_wal_size', 'shared_buffers', \
    'synchronous_commit', 'wal_sync_method')";

/// A PostgreSQL server on a new folder, removed when this is dropped, and plantd for it.
pub(super) struct Server<'a> {
    options: &'a Options,
    cluster: Cluster,
    plantd: Contender,
    /// The machine, the version, the file system and the settings.
    pub(super) description: String,
}

impl<'a> Server<'a> {
    /// Fails if the file system is in memory.
    pub(super) fn start(options: &'a Options) -> anyhow::Result<Self> {
        tools::ensure(&[tools::POSTGRESQL])?;
        let plantd = plantd(options)?;
        // The defaults of PostgreSQL.
        let settings = [("max_connections", "100"), ("shared_buffers", "128MB")];
        let cluster = Cluster::start_with(&settings);
        let mut stat = Command::new("stat");
        let stat = stat.args(["--file-system", "--format=%T"]).arg(cluster.data());
        let file_system = output(stat)?.trim().to_owned();
        ensure!(
            !["tmpfs", "ramfs"].contains(&&*file_system),
            "PostgreSQL would write into memory, where a commit costs nothing: name a folder on a disk in TMPDIR"
        );
        let mut server = Self { options, cluster, plantd, description: machine()? };
        let [version, settings] = ["SHOW server_version", SETTINGS].map(|sql| server.query(sql));
        let postgres = format!(". PostgreSQL {} on {file_system}: {}.", version?, settings?);
        server.description += &postgres;
        Ok(server)
    }

    pub(super) fn query(&self, sql: &str) -> anyhow::Result<String> {
        self.cluster.database().try_query(sql).map_err(|why| anyhow!("{sql}: {why}"))
    }

    /// plantd with its plants in a schema.
    pub(super) fn plantd(&self, schema: &str) -> Contender {
        self.plantd.with(&["--postgres", &self.cluster.url(), "--postgres-schema", schema])
    }

    /// Measures a workload after a checkpoint, so that no older data is written during the measurement. Creates begin
    /// with new tables, which must have all acknowledged plants afterwards.
    fn entry(
        &'a self,
        workload: &'static str,
        program: &'static str,
        request: Request,
        measure: impl Fn(&Path) -> anyhow::Result<Measurement> + 'a,
    ) -> Entry<'a> {
        let measure = move |folder: &Path| {
            if request != Request::Create {
                self.query("CHECKPOINT")?;
                return measure(folder);
            }
            let plantd = self.plantd("created").command;
            output(Command::new(&plantd[0]).arg("migrate").args(&plantd[1..]).env_clear())?;
            self.query("CHECKPOINT")?;
            let measurement = measure(folder)?;
            let count: u64 = self.query("SELECT count(*) FROM created.plants")?.parse()?;
            let acknowledged = measurement.count;
            ensure!(count >= acknowledged, "of {acknowledged} created plants, {count} are there");
            self.query("DROP SCHEMA created CASCADE")?;
            Ok(measurement)
        };
        Entry::new(workload, program, measure)
    }

    /// Runs a script over and over, in prepared statements. Fails unless every transaction was carried out.
    fn pgbench(&self, script: &str, clients: usize, stored: u64) -> anyhow::Result<Measurement> {
        let file =
            self.options.workspace.workspace_root.join(format!("bench/pgbench/{script}.sql"));
        let run = |first_number: u64, duration: Duration| {
            let mut command = test_postgres::command("pgbench");
            command.args(["--no-vacuum", "--protocol=prepared", "--file", file.as_str()]);
            command.arg(format!("--client={clients}")).arg(format!("--jobs={}", clients.min(2)));
            command.arg(format!("--time={}", duration.as_secs()));
            command.arg(format!("--define=clients={clients}"));
            command.arg(format!("--define=number={first_number}"));
            command.arg(format!("--define=stored={stored}"));
            output(command.arg(self.cluster.url()))
        };
        run(0, WARM_UP).context("the warm-up failed")?;
        // A number beyond those of the warm-up.
        let stdout = run(1_000_000, self.options.duration)?;
        let value = |name: &str| {
            let value = stdout.lines().find_map(|line| line.strip_prefix(name)?.split(' ').next());
            value.with_context(|| format!("pgbench printed no line `{name}`:\n{stdout}"))
        };
        let failed = value("number of failed transactions: ")?;
        ensure!(failed == "0", "{failed} transactions failed");
        let count: u64 = value("number of transactions actually processed: ")?.parse()?;
        ensure!(count > 0, "pgbench ended no transaction: measure for longer");
        ensure!(stdout.contains("(without initial connection time)"), "another rate:\n{stdout}");
        let seconds = count as f64 / value("tps = ")?.parse::<f64>()?;
        Ok(Measurement { count, seconds, ..Measurement::default() })
    }
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let server = Server::start(options)?;
    let stored = options.plants(100_000);
    let material = options.temporary()?;
    let file = material.path().join("plants.ndjson");
    write_file(&file, (1..=stored).map(scattered))?;
    transfer(&server.plantd("stored"), material.path(), "import", &file, stored)?;
    // Autovacuum would otherwise do both during a measurement.
    server.query("VACUUM ANALYZE stored.plants")?;

    let server = &server;
    let mut entries = Vec::new();
    for (workload, connections, request, script) in WORKS {
        let pgbench = move |_: &Path| server.pgbench(script, connections, stored);
        entries.push(server.entry(workload, PGBENCH, request, pgbench));
        let programs = [PLANTD, "2 replicas of plantd", "3 replicas of plantd"];
        let replicas_max = if workload == CREATE_64 { 3 } else { 1 };
        for (replicas, program) in (1..=replicas_max).zip(programs) {
            let load = Load { connections, stored, ..Load::new(request, options.duration) };
            let plantd = server.plantd(if script == "create" { "created" } else { "stored" });
            let measure = move |folder: &Path| {
                serve(&plantd, replicas, folder, |programs| load.measure(programs))
            };
            entries.push(server.entry(workload, program, request, measure));
        }
        if workload == CREATE_64 {
            let pgbench = move |_: &Path| {
                let statements = server.pgbench("create-64", connections, stored)?;
                Ok(Measurement { count: 64 * statements.count, ..statements })
            };
            entries.push(server.entry(workload, "pgbench, 64 rows a statement", request, pgbench));
        }
    }
    let mut results = Results::default();
    results.measure(options, &entries)?;
    let claim = "creates at 64 connections, plantd on PostgreSQL/pgbench with a row a statement";
    let ratios = results.ratios(CREATE_64, PLANTD, PGBENCH);
    let text = format!(
        "{}\n\n{} plants are stored for reads and lists. Rates are of plants, and of lists.\n\n{}\n{}",
        server.description,
        number(stored as f64, 0),
        claims(vec![(claim, Target::AtLeast(1.5, None), ratios)]),
        measurements(options, &results, &[PGBENCH]),
    );
    publish(options, "postgres", &text)
}

/// Moves plants from a data folder into PostgreSQL and back, only by import and export. Fails unless all exports are
/// the same.
pub(super) fn run_move(options: &Options) -> anyhow::Result<()> {
    let server = Server::start(options)?;
    let plants = options.plants(1_000_000);
    let material = options.temporary()?;
    let file = |step: usize| material.path().join(format!("plants-{step}.ndjson"));
    write_file(&file(0), (1..=plants).map(scattered))?;
    let (mut rows, plantd, moved) = (Vec::new(), server.plantd.clone(), server.plantd("moved"));
    let places =
        [(&plantd, "a data folder"), (&moved, "PostgreSQL"), (&plantd, "another data folder")];
    for (step, (plantd, place)) in places.into_iter().enumerate() {
        let folder = options.temporary()?;
        let import = transfer(plantd, folder.path(), "import", &file(step), plants)?;
        let export = transfer(plantd, folder.path(), "export", &file(step + 1), plants)?;
        let steps =
            [(format!("import into {place}"), import), ("export from there".to_owned(), export)];
        for (name, Measurement { seconds, .. }) in &steps {
            rows.push(vec![name.clone(), number(*seconds, 1), number(plants as f64 / seconds, 0)]);
        }
        let is_same = fs::read(file(1))? == fs::read(file(step + 1))?;
        ensure!(is_same, "the export from {place} differs from the first one");
    }
    let text = format!(
        "{}\n\n\
         {} plants, moved once. The three exports have {} bytes each, and are the same byte by byte.\n\n{}",
        server.description,
        number(plants as f64, 0),
        number(fs::metadata(file(1))?.len() as f64, 0),
        table(&["step", "seconds", "plants/s"], 1, rows),
    );
    publish(options, "postgres-move", &text)
}
