//! `cargo xtask bench`: plantd, its ceiling and other programs, by turns, at every kind of request.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::load::{CONNECTIONS, Load, Request, fill};
use super::measure::Target::{self, AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results, quotients};
use super::options::Options;
use super::plants::write_file;
use super::program::{
    BARE, BARE_BUILD, CEILING, CEILING_BUILD, FASTIFY, PLANTD, build, output, peers, plantd,
    transfer,
};
use super::report::{claims, machine, measurements, number, publish};
use crate::tools;

const CREATE_1: &str = "create, 1 connection";
const CREATE_64: &str = "create, 64 connections";
const CREATE_256: &str = "create, 256 connections";
const CREATES: [(&str, usize); 3] = [(CREATE_1, 1), (CREATE_64, CONNECTIONS), (CREATE_256, 256)];
const BATCH: &str = "create in batches of 1,000, 1 connection";
const READ: &str = "read by id";
const LIST: &str = "list of 100";
const MIX: &str = "mix, 90 % reads and 10 % creates";
const READS: [(&str, Request); 3] =
    [(READ, Request::Read), (LIST, Request::List), (MIX, Request::Mix)];
const IMPORT: &str = "import";
const EXPORT: &str = "export";
/// Contains the name of [`CREATE_64`], so that `--only` selects both: the rate is half of the one measured there.
const HALF_LOAD: &str = "create, 64 connections, at half load";

const BARE_WRITE: &str = "bare write";
const SQLITE: &str = "SQLite";

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::PYTHON])?;
    let workspace = &options.workspace;
    let material = options.temporary()?;
    let stored = options.plants(100_000);
    let imported = options.plants(1_000_000);
    let has_reads = READS.iter().any(|(workload, _)| options.wants(workload));
    let mut servers =
        vec![plantd(options)?, build(workspace, CEILING_BUILD)?, build(workspace, BARE_BUILD)?];
    if has_reads || options.wants(CREATE_64) {
        servers.extend(peers(workspace)?);
    }
    let stores: Vec<_> = servers.iter().map(|server| material.path().join(server.name)).collect();
    for (server, store) in servers.iter().zip(&stores).filter(|_| has_reads) {
        fs::create_dir(store)?;
        fill(server, store, stored)?;
    }
    let file = material.path().join("plants.ndjson");
    write_file(&file, 1..=imported)?;
    let script = workspace.workspace_root.join("bench/peers/sqlite/import.py");

    // For a shorter time, so that the store has about as many plants in the end as one that is filled by single creates,
    // and compaction as much to do.
    let batch_duration = options.duration / 5;
    let batch = Load { connections: 1, ..Load::new(Request::Batch, batch_duration) };

    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (workload, connections) in CREATES {
        let load = Load { connections, ..Load::new(Request::Create, options.duration) };
        let contenders = servers.iter().filter(|server| takes_part(server.name, workload));
        entries.extend(contenders.map(|server| load.entry(workload, server, None)));
        if workload == CREATE_1 {
            let measure = |folder: &Path| bare_writes(folder, options.duration);
            entries.push(Entry::new(CREATE_1, BARE_WRITE, measure));
        }
        if workload == CREATE_64 {
            entries.push(batch.entry(BATCH, &servers[0], None));
        }
    }
    for (workload, request) in READS {
        let load = Load { stored, ..Load::new(request, options.duration) };
        let servers =
            servers.iter().zip(&stores).filter(|(server, _)| takes_part(server.name, workload));
        entries.extend(servers.map(|(server, store)| load.entry(workload, server, Some(store))));
    }
    let import = |folder: &Path| transfer(&servers[0], folder, "import", &file, imported);
    entries.push(Entry::new(IMPORT, PLANTD, import));
    let sqlite = |folder: &Path| import_into_sqlite(script.as_str(), folder, &file, imported);
    entries.push(Entry::new(IMPORT, SQLITE, sqlite));
    let export = |folder: &Path| {
        transfer(&servers[0], folder, "import", &file, imported)?;
        transfer(&servers[0], folder, "export", &folder.join("exported.ndjson"), imported)
    };
    entries.push(Entry::new(EXPORT, PLANTD, export));

    let mut results = Results::default();
    results.measure(options, &entries)?;
    // On a machine whose speed varies, half of the best rate may be too much.
    if let Some(least_rate) = results.rates(CREATE_64, PLANTD).into_iter().reduce(f64::min) {
        let rate = Some(least_rate / 2.0);
        let load = Load { rate, ..Load::new(Request::Create, options.duration) };
        let servers = servers.iter().filter(|server| [PLANTD, CEILING].contains(&server.name));
        let half_load = servers.map(|server| load.entry(HALF_LOAD, server, None));
        results.measure(options, &half_load.collect::<Vec<_>>())?;
    }
    let text = format!(
        "{}. {} plants are imported, and {} stored for reads, lists and the mix.\n\n{}\n{}",
        machine()?,
        number(imported as f64, 0),
        number(stored as f64, 0),
        claims(targets(&results)),
        measurements(options, &results, &[CEILING, BARE]),
    );
    publish(options, "suite", &text)
}

fn targets(results: &Results) -> Vec<(&'static str, Target, Vec<f64>)> {
    let ratios = |workload, other| results.ratios(workload, PLANTD, other);
    let [creates, to_fastify] = [BARE, FASTIFY].map(|other| ratios(CREATE_64, other));
    let batches = quotients(results.rates(BATCH, PLANTD), results.rates(CREATE_64, PLANTD));
    let p50s = |program| results.latencies(CREATE_1, program, 0);
    let added = p50s(PLANTD).into_iter().zip(p50s(CEILING)).map(|(p50, ceiling)| p50 - ceiling);
    let added = quotients(added.collect(), p50s(BARE_WRITE));
    let p99s = |program| results.latencies(HALF_LOAD, program, 1);
    let half_load = quotients(p99s(PLANTD), p99s(CEILING));
    vec![
        ("creates at 64 connections, plantd/bare", AtLeast(0.6, Some(0.75)), creates),
        (
            "plants created in batches of 1,000 on 1 connection, to creates at 64 connections",
            AtLeast(5.0, None),
            batches,
        ),
        ("reads by id, plantd/bare", AtLeast(0.85, Some(0.95)), ratios(READ, BARE)),
        ("lists of 100, plantd/ceiling", AtLeast(0.7, Some(0.85)), ratios(LIST, CEILING)),
        ("import, plantd/SQLite", AtLeast(1.0, Some(2.0)), ratios(IMPORT, SQLITE)),
        ("creates at 64 connections, plantd/Fastify", AtLeast(8.0, None), to_fastify),
        ("what plantd adds to a create at 1 connection, in bare writes", AtMost(1.5, None), added),
        ("p99 of creates at half load, plantd/ceiling", AtMost(3.0, None), half_load),
    ]
}

/// Whether a program takes part in a workload of creates, reads, lists or the mix.
fn takes_part(program: &str, workload: &str) -> bool {
    match program {
        PLANTD | CEILING => true,
        BARE => workload != LIST,
        _ => workload == CREATE_64 || READS.iter().any(|(read, _)| *read == workload),
    }
}

/// Loads a file into SQLite by a script. Like that of `plantd import`, the time is that of the whole process.
fn import_into_sqlite(
    script: &str,
    folder: &Path,
    file: &Path,
    plants: u64,
) -> anyhow::Result<Measurement> {
    let mut python = Command::new("python3");
    let start = Instant::now();
    let count = output(python.arg(script).arg(file).arg(folder.join("plants.db")))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(count.trim() == plants.to_string(), "SQLite has {count} plants, not {plants}");
    Ok(Measurement { count: plants, seconds, ..Measurement::default() })
}

/// Repeats what the write-ahead log does for a single create: one write within a file of fixed length, and one
/// `fdatasync`.
fn bare_writes(folder: &Path, duration: Duration) -> anyhow::Result<Measurement> {
    const RECORD: [u8; 120] = [b'p'; 120];
    const RECORDS: u64 = 70_000;
    let file = File::create(folder.join("bare-writes"))?;
    for record in 0..RECORDS {
        file.write_all_at(&RECORD, record * RECORD.len() as u64)?;
    }
    file.sync_all()?;
    let start = Instant::now();
    let mut latencies = Vec::new();
    for record in (0..RECORDS).cycle() {
        let write_start = Instant::now();
        file.write_all_at(&RECORD, record * RECORD.len() as u64)?;
        file.sync_data()?;
        latencies.push(write_start.elapsed());
        if start.elapsed() > duration {
            break;
        }
    }
    Ok(Measurement::of(latencies, start.elapsed()))
}
