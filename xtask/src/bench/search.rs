//! `cargo xtask bench search`: the first page of searches in ten million plants, compared with other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::load::{Load, Request};
use super::measure::Target::AtMost;
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::plants::{scattered, write_file};
use super::postgres::Server;
use super::program::{Contender, PLANTD, copy_data, output, plantd, serve, transfer};
use super::report::{claims, measurements, number, publish};
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

const IMPORT: &str = "import";

const SQLITE: &str = "SQLite FTS5";
const POSTGRES: &str = "plantd on PostgreSQL";

/// PostgreSQL gets one in this many plants, because its imports take long.
const POSTGRES_SHARE: u64 = 10;

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::PYTHON])?;
    let plantd = &plantd(options)?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let file = material.path().join("plants.ndjson");
    write_file(&file, (1..=plants).map(scattered))?;

    let mut results = Results::default();
    // The second is a copy from right after the import, with more than ten seconds of compaction left.
    let [store, just_imported] = ["store", "just-imported"].map(|it| material.path().join(it));
    fs::create_dir(&store)?;
    results.add(IMPORT, PLANTD, transfer(plantd, &store, "import", &file, plants)?);
    fs::create_dir(&just_imported)?;
    copy_data(&store, &just_imported)?;
    serve(plantd, 1, &store, |programs| programs[0].rest())?;
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
        entries.push(load.entry(workload, plantd, Some(&store)));
        entries.push(load.entry(workload, &postgres, None));
        let (sqlite, duration) = (&sqlite, options.duration);
        let measure = move |_: &Path| sqlite.search(part, duration);
        entries.push(Entry::new(workload, SQLITE, measure));
    }
    entries.push(search(RARE).entry(WHILE_COMPACTING, plantd, Some(&just_imported)));
    results.measure(options, &entries)?;

    let workloads = SEARCHES.map(|(workload, _)| workload);
    let of_plantd = |workload| results.values(workload, PLANTD, |one| one.memory_mb);
    let memories = workloads.into_iter().chain([WHILE_COMPACTING, IMPORT]).flat_map(of_plantd);
    let most_memory = Vec::from_iter(memories.reduce(f64::max));
    let mut targets: Vec<_> = workloads
        .map(|workload| (workload, AtMost(50.0, None), results.latencies(workload, PLANTD, 1)))
        .into();
    targets.push(("most memory, MB", AtMost(600.0, None), most_memory));
    let text = format!(
        "{} PostgreSQL has {} plants, the others {}. Each search is of the first page of 100, over {SEARCHERS} connections; \
         the claims about searches are of their p99 in ms. Compaction has ended before a measurement begins, except where a \
         row says otherwise.\n\n{}\n{}",
        server.description,
        number(in_postgres as f64, 0),
        number(plants as f64, 0),
        claims(targets),
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
