//! `cargo xtask bench search`: the first page of searches in ten million plants, compared with other programs, and
//! the cost of the index.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::load::{Load, Request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::plants::{scattered, write_file};
use super::postgres::Server;
use super::program::{BEFORE, Contender, PLANTD, copy_data, output, plantds, serve, transfer};
use super::report::{claims, measurements, median, number, publish, table};
use super::scale::disk_bytes;
use crate::tools;

/// The searched parts of names. The last one consists of pieces that many names have.
const SEARCHES: [(&str, &str); 5] = [
    ("search, frequent part", "er"),
    ("search, rare part", RARE),
    ("search, one letter", "w"),
    ("search, absent part", "qqq"),
    ("search, absent part of common pieces", "alba rosa"),
];

const RARE: &str = "ginkgo horizontalis";
const WHILE_COMPACTING: &str = "search, rare part, during compaction";

const SEARCHERS: usize = 16;

const CREATE: &str = "create, 64 connections";
const IMPORT: &str = "import";
const START: &str = "start";

const SQLITE: &str = "SQLite FTS5";
const POSTGRES: &str = "plantd on PostgreSQL";

/// PostgreSQL gets one in this many plants, because its imports take long.
const POSTGRES_SHARE: u64 = 10;

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::PYTHON])?;
    let plantds = plantds(&options.workspace, options.before.as_ref())?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let file = material.path().join("plants.ndjson");
    write_file(&file, (1..=plants).map(scattered))?;

    let mut results = Results::default();
    let mut stores: Vec<(&Contender, PathBuf, f64)> = Vec::new();
    // Copies from right after the import, with more than ten seconds of compaction left.
    let mut just_imported = Vec::new();
    for plantd in &plantds {
        let folder = material.path().join(plantd.name);
        fs::create_dir(&folder)?;
        let import = transfer(plantd, &folder, "import", &file, plants)?;
        println!("{}: {import:.1?}", plantd.name);
        results.add(IMPORT, plantd.name, import);
        let bytes_a_plant = disk_bytes(&folder)? as f64 / plants as f64;
        let copy = material.path().join(format!("{}, just imported", plantd.name));
        fs::create_dir(&copy)?;
        copy_data(&folder, &copy)?;
        just_imported.push((plantd, copy));
        serve(plantd, 1, &folder, |programs| programs[0].rest())?;
        stores.push((plantd, folder, bytes_a_plant));
    }
    let sqlite = Sqlite::load(options, &file, material.path().join("plants.db"), plants)?;
    let server = Server::start(options)?;
    let postgres = Contender { name: POSTGRES, ..server.plantd("searched") };
    let in_postgres = plants / POSTGRES_SHARE;
    write_file(&file, (1..=in_postgres).map(scattered))?;
    transfer(&postgres, material.path(), "import", &file, in_postgres)?;
    server.query("VACUUM ANALYZE searched.plants")?;

    let mut entries: Vec<Entry<'_>> = Vec::new();
    let search = |part| Load {
        connections: SEARCHERS,
        ..Load::new(Request::Search(part), options.duration)
    };
    for (workload, part) in SEARCHES {
        let load = search(part);
        for (plantd, store, _) in &stores {
            entries.push(load.entry(workload, plantd, Some(store)));
        }
        entries.push(load.entry(workload, &postgres, None));
        let (sqlite, duration) = (&sqlite, options.duration);
        let measure = move |_: &Path| sqlite.search(part, duration);
        entries.push(Entry::new(workload, SQLITE, measure));
    }
    for (plantd, store) in &just_imported {
        entries.push(search(RARE).entry(WHILE_COMPACTING, plantd, Some(store)));
    }
    for (plantd, store, _) in &stores {
        let load = Load { stored: plants, ..Load::new(Request::Create, options.duration) };
        entries.push(load.entry(CREATE, plantd, Some(store)));
    }
    for (plantd, store, _) in &stores {
        let measure = move |folder: &Path| {
            copy_data(store, folder)?;
            serve(plantd, 1, folder, |programs| {
                let seconds = programs[0].ready_after.as_secs_f64();
                Ok(Measurement { count: 1, seconds, ..Measurement::default() })
            })
        };
        entries.push(Entry::new(START, plantd.name, measure));
    }
    results.measure(options, &entries)?;

    let memory = |program| {
        let workloads = SEARCHES.map(|(workload, _)| workload);
        let workloads = workloads.into_iter().chain([WHILE_COMPACTING, IMPORT, CREATE]);
        let most = workloads.flat_map(|it| results.values(it, program, |one| one.memory_mb));
        most.reduce(f64::max).into_iter().collect::<Vec<_>>()
    };
    let seconds = |program| results.values(START, program, |one| Some(one.seconds));
    let mut targets: Vec<_> = SEARCHES
        .map(|(workload, _)| (workload, AtMost(50.0, None), results.latencies(workload, PLANTD, 1)))
        .into();
    targets.extend([
        (
            "creates, plantd/plantd before",
            AtLeast(0.9, None),
            results.ratios(CREATE, PLANTD, BEFORE),
        ),
        (
            "import, plantd/plantd before",
            AtLeast(0.8, None),
            results.ratios(IMPORT, PLANTD, BEFORE),
        ),
        ("most memory, MB", AtMost(600.0, None), memory(PLANTD)),
        ("ready after a clean stop, s", AtMost(3.5, None), seconds(PLANTD)),
    ]);
    let costs = stores.iter().map(|(plantd, _, bytes_a_plant)| {
        let name = plantd.name;
        vec![
            name.to_owned(),
            median(results.rates(IMPORT, name), 0),
            number(*bytes_a_plant, 1),
            median(memory(name), 0),
            median(seconds(name), 2),
        ]
    });
    let head = ["", "import, plants/s", "bytes on disk a plant", "most memory, MB", "ready, s"];
    let text = format!(
        "{} PostgreSQL has {} plants, the others {}. Each search is of the first page of 100, over {SEARCHERS} connections; \
         the claims about searches are of their p99 in ms. Compaction has ended before a measurement begins, except where a \
         row says otherwise.\n\n{}\n{}\n{}",
        server.description,
        number(in_postgres as f64, 0),
        number(plants as f64, 0),
        claims(targets),
        table(&head, 1, costs.collect()),
        measurements(options, &results, &[]),
    );
    publish(options, "search", &text)
}

/// An SQLite database with FTS5 and its trigram tokenizer.
struct Sqlite {
    script: String,
    database: String,
}

impl Sqlite {
    fn load(
        options: &Options,
        file: &Path,
        database: PathBuf,
        plants: u64,
    ) -> anyhow::Result<Self> {
        let script = options.workspace.workspace_root.join("bench/peers/sqlite/search.py");
        let sqlite =
            Self { script: script.into_string(), database: database.display().to_string() };
        let loaded = sqlite.run(&["load", &file.display().to_string(), &sqlite.database])?;
        ensure!(loaded.trim() == plants.to_string(), "SQLite has {loaded} plants, not {plants}");
        Ok(sqlite)
    }

    fn search(&self, part: &str, duration: Duration) -> anyhow::Result<Measurement> {
        let [connections, seconds] =
            [SEARCHERS as u64, duration.as_secs()].map(|it| it.to_string());
        let latencies = self.run(&["search", &self.database, part, &connections, &seconds])?;
        let latencies: Result<Vec<f64>, _> = latencies.lines().map(str::parse).collect();
        let latencies = latencies.context("a latency is no number")?;
        let latencies = latencies.into_iter().map(|ms| Duration::from_secs_f64(ms / 1_000.0));
        Ok(Measurement::of(latencies.collect(), duration))
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(Command::new("python3").arg(&self.script).args(arguments))
    }
}
