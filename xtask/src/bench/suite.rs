//! `cargo xtask bench`: plantd, its ceiling and others, in turn, at everything that a store is asked for.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cargo_metadata::Metadata;

use super::load::{CONNECTIONS, Load, Request, WARM_UP};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Claim, Entry, Figures, Latency, Round, Spread, measure};
use super::options::Options;
use super::plants::write_file;
use super::program::{
    self, CEILING, Contender, FASTIFY, PLANTD, build, copy_data, output, serve, transfer,
};
use super::report::{
    Plot, claim_section, machine, number, publish, rate_section, section, with_ends,
};
use crate::tools;

const CREATE_1: &str = "create, 1 connection, ascending ids";
const CREATE_64: &str = "create, 64 connections, ascending ids";
const CREATE_256: &str = "create, 256 connections, ascending ids";
const CREATES: [(&str, usize, Request); 6] = [
    (CREATE_1, 1, Request::CreateAscending),
    ("create, 1 connection, random ids", 1, Request::Create),
    (CREATE_64, CONNECTIONS, Request::CreateAscending),
    ("create, 64 connections, random ids", CONNECTIONS, Request::Create),
    (CREATE_256, 256, Request::CreateAscending),
    ("create, 256 connections, random ids", 256, Request::Create),
];
const READ: &str = "read by id";
const LIST: &str = "list of 100";
const READS: [(&str, Request); 3] = [
    (READ, Request::Read),
    (LIST, Request::List),
    ("mix, 90 % reads and 10 % creates", Request::Mix),
];
const IMPORT: &str = "import";
const EXPORT: &str = "export";
/// It needs the rate of [`CREATE_64`], and so has all of that name.
const HALF_LOAD: &str = "create, 64 connections, ascending ids, at half load";

const BARE_WRITE: &str = "bare write";
const BARE_SLED: &str = "bare sled";
const FOLDING_SLED: &str = "bare sled, folding";

const CLAIMS: [Claim; 8] = [
    ("creates at 64 connections, plantd/ceiling", AtLeast(0.55), |round| {
        round.ratio(CREATE_64, PLANTD, CEILING)
    }),
    ("creates at 64 connections, plantd/Fastify", AtLeast(8.0), |round| {
        round.ratio(CREATE_64, PLANTD, FASTIFY)
    }),
    ("what plantd adds to a create at 1 connection, in bare writes", AtMost(1.5), |round| {
        let p50 = |program| Some(round.latency(CREATE_1, program)?.p50);
        Some((p50(PLANTD)? - p50(CEILING)?) / p50(BARE_WRITE)?)
    }),
    ("reads by id, plantd/ceiling", AtLeast(0.9), |round| round.ratio(READ, PLANTD, CEILING)),
    ("lists of 100, plantd/ceiling", AtLeast(0.6), |round| round.ratio(LIST, PLANTD, CEILING)),
    ("import, plantd/bare sled", AtLeast(0.8), |round| round.ratio(IMPORT, PLANTD, BARE_SLED)),
    ("import, plantd/bare sled, folding", AtLeast(0.8), |round| {
        round.ratio(IMPORT, PLANTD, FOLDING_SLED)
    }),
    ("p99 of creates at half load, plantd/ceiling", AtMost(3.0), |round| {
        let p99 = |program| Some(round.latency(HALF_LOAD, program)?.p99);
        Some(p99(PLANTD)? / p99(CEILING)?)
    }),
];

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::GNUPLOT])?;
    let workspace = &options.workspace;
    let mut servers = vec![program::plantd(workspace)?, program::ceiling(workspace)?];
    let has_reads = READS.iter().any(|(work, _)| options.wants(work));
    if has_reads || options.wants(CREATE_64) {
        servers.extend(program::peers(workspace)?);
    }
    let material = options.temporary()?;
    let suite = Suite { options, stores: material.path(), stored: options.plants(100_000) };
    if has_reads {
        servers.iter().try_for_each(|server| suite.fill_store(server))?;
    }
    let file = material.path().join("plants.ndjson");
    let mut turns: Vec<Vec<Entry<'_>>> = Vec::new();
    for (work, connections, request) in CREATES {
        let count = if work == CREATE_64 { servers.len() } else { 2 };
        let load = |server| suite.load(server, work, connections, request, None);
        turns.push(servers.iter().take(count).map(load).collect());
    }
    let bare_writes = |folder: &Path| bare_writes(folder, options.duration);
    turns[0].push((CREATE_1, BARE_WRITE, Box::new(bare_writes)));
    for (work, request) in READS {
        let load = |server| suite.load(server, work, CONNECTIONS, request, None);
        turns.push(servers.iter().map(load).collect());
    }
    let imported = options.plants(1_000_000);
    if options.wants(IMPORT) || options.wants(EXPORT) {
        write_file(&file, 1..=imported)?;
        turns.extend(transfers(&servers[0], workspace, &file, imported)?);
    }
    let mut rounds = Vec::new();
    measure(options, &mut rounds, &turns)?;
    let rate = |round: &Round| Some(round.figures(CREATE_64, PLANTD)?.per_s());
    if let Some(rates) = Spread::over(&rounds, rate) {
        let rate = Some(rates.max / 2.0);
        let load = |server| suite.load(server, HALF_LOAD, CONNECTIONS, Request::Create, rate);
        measure(options, &mut rounds, &[servers.iter().take(2).map(load).collect()])?;
    }
    let text = format!(
        "{}. Rounds: {}, of {} s for each measurement. {} plants are imported, and {} stored\n\
         for reads, lists and the mix. Values are medians of the rounds, with the least and the greatest in brackets.\n\
         {}{}{}",
        machine()?,
        options.rounds,
        options.duration.as_secs(),
        number(imported as f64, 0),
        number(suite.stored as f64, 0),
        claim_section(&CLAIMS, &rounds),
        rate_section(&rounds, &[CEILING, BARE_WRITE], HALF_LOAD),
        latency_section(&rounds),
    );
    publish(options, "suite", &text)?;
    draw(&rounds, &options.plots())
}

struct Suite<'a> {
    options: &'a Options,
    /// By the names of the programs, the folders with the plants that are read.
    stores: &'a Path,
    /// How many these are.
    stored: u64,
}

impl<'a> Suite<'a> {
    fn fill_store(&self, server: &Contender) -> anyhow::Result<()> {
        let next_number = AtomicU64::new(1);
        let load = Load { last_number: self.stored, ..Load::new(Request::Create, &next_number) };
        if server.name != CEILING {
            println!("{} creates {} plants", server.name, self.stored);
            let folder = self.stores.join(server.name);
            fs::create_dir(&folder)?;
            serve(server, &folder, |program| load.run(&[program]))?;
        }
        Ok(())
    }

    /// A load on a new process, on a new folder or, unless it only creates, on a copy of the program's store.
    fn load(
        &'a self,
        server: &'a Contender,
        work: &'static str,
        connections: usize,
        request: Request,
        rate: Option<f64>,
    ) -> Entry<'a> {
        let measure = move |folder: &Path| {
            let store = self.stores.join(server.name);
            if !matches!(request, Request::Create | Request::CreateAscending) && store.exists() {
                copy_data(&store, folder)?;
            }
            let next_number = AtomicU64::new(self.stored + 1);
            let (duration, stored) = (self.options.duration, self.stored);
            let load = Load::new(request, &next_number);
            let load = Load { connections, duration, rate, stored, ..load };
            serve(server, folder, |program| load.measure(&[program]))
        };
        (work, server.name, Box::new(measure))
    }
}

/// Imports, next to bare loops on sled, and exports.
fn transfers<'a>(
    plantd: &'a Contender,
    workspace: &Metadata,
    file: &'a Path,
    plants: u64,
) -> anyhow::Result<[Vec<Entry<'a>>; 2]> {
    let example = ["-p", "plant-store", "--features", "__internal", "--example", "bare_sled"];
    let sled = build(workspace, example)?;
    let bare_sled = |way: &'static str| {
        let sled = sled.clone();
        move |folder: &Path| bare_sled(&sled, way, plants, folder)
    };
    let import = move |folder: &Path| {
        serve(plantd, folder, |program| transfer(plantd, "import", program, file, plants))
    };
    let export = move |folder: &Path| {
        serve(plantd, folder, |program| {
            transfer(plantd, "import", program, file, plants)?;
            transfer(plantd, "export", program, &folder.join("exported.ndjson"), plants)
        })
    };
    let imports: Vec<Entry<'a>> = vec![
        (IMPORT, PLANTD, Box::new(import)),
        (IMPORT, BARE_SLED, Box::new(bare_sled("one-by-one"))),
        (IMPORT, FOLDING_SLED, Box::new(bare_sled("folding"))),
    ];
    Ok([imports, vec![(EXPORT, PLANTD, Box::new(export))]])
}

/// Puts so many plants into sled, in the layout of plantd, `one-by-one` or `folding`.
fn bare_sled(executable: &Path, way: &str, plants: u64, folder: &Path) -> anyhow::Result<Figures> {
    let mut command = Command::new(executable);
    let stdout = output(command.args([way, &plants.to_string()]).arg(folder.join("bare-sled")))?;
    let report: serde_json::Value = serde_json::from_str(&stdout)?;
    let value = |name| report[name].as_u64().with_context(|| format!("no {name} in {stdout}"));
    let seconds = Duration::from_micros(value("duration_us")?).as_secs_f64();
    Ok(Figures { count: value("plants")?, seconds, latency: None })
}

/// Does what the write-ahead log does for a create that comes alone, over and over: one write into a file that has its
/// length already, and one `fdatasync`.
fn bare_writes(folder: &Path, duration: Duration) -> anyhow::Result<Figures> {
    /// The record of one plant.
    const RECORD: [u8; 120] = [b'p'; 120];
    const RECORDS: u64 = 70_000;
    let file = File::create(folder.join("bare-writes"))?;
    for record in 0..RECORDS {
        file.write_all_at(&RECORD, record * RECORD.len() as u64)?;
    }
    file.sync_all()?;
    let start = Instant::now() + WARM_UP;
    let mut latencies = Vec::new();
    for record in (0..RECORDS).cycle() {
        let write_start = Instant::now();
        if write_start > start + duration {
            break;
        }
        file.write_all_at(&RECORD, record * RECORD.len() as u64)?;
        file.sync_data()?;
        if write_start > start {
            latencies.push(write_start.elapsed());
        }
    }
    let (count, seconds) = (latencies.len() as u64, duration.as_secs_f64());
    Ok(Figures { count, seconds, latency: Latency::of(latencies) })
}

/// The spreads of the percentiles at half load, each with its name.
fn half_load(rounds: &[Round], program: &str) -> [(&'static str, Option<Spread>); 3] {
    type Percentile = fn(Latency) -> f64;
    let percentiles: [(_, Percentile); 3] = [
        ("p50", |latency| latency.p50),
        ("p99", |latency| latency.p99),
        ("p99.9", |latency| latency.p999),
    ];
    percentiles.map(|(name, percentile)| {
        let value = |round: &Round| round.latency(HALF_LOAD, program).map(percentile);
        (name, Spread::over(rounds, value))
    })
}

fn latency_section(rounds: &[Round]) -> String {
    let row = |program: &'static str| {
        let rate = |round: &Round| Some(round.figures(HALF_LOAD, program)?.per_s());
        let rate = number(Spread::over(rounds, rate)?.median, 0);
        let latencies = half_load(rounds, program).map(|(_, spread)| with_ends(spread, 3));
        Some([program.to_owned(), rate].into_iter().chain(latencies).collect())
    };
    let rows = [PLANTD, CEILING].into_iter().filter_map(row).collect();
    let heading = "Latencies of creates at half of the best rate of plantd, over 64 connections.";
    section(heading, &["program", "creates/s", "p50, ms", "p99, ms", "p99.9, ms"], 1, rows)
}

fn draw(rounds: &[Round], folder: &Path) -> anyhow::Result<()> {
    let rates = |name, title, y_label, works: [&'static str; 3]| {
        let measured = rounds.iter().take(1).flat_map(|round| &round.0);
        let series: Vec<&str> = measured.filter(|one| one.0 == works[1]).map(|one| one.1).collect();
        let bar = |work: &str, program: &str| {
            Spread::over(rounds, |round| Some(round.figures(work, program)?.per_s()))
        };
        let row = |work: &str| (work.to_owned(), series.iter().map(|one| bar(work, one)).collect());
        let rows = works.map(row).into();
        Plot { title, y_label, lines: None, series, rows }.draw(&folder.join(name))
    };
    rates("creates.svg", "Creates", "creates/s", [CREATE_1, CREATE_64, CREATE_256])?;
    let title = "64 connections, a store of 100,000 plants";
    rates("reads.svg", title, "requests/s", READS.map(|(work, _)| work))?;
    let [plantd, ceiling] = [PLANTD, CEILING].map(|program| half_load(rounds, program));
    let rows = plantd.into_iter().zip(ceiling);
    let rows = rows.map(|((name, plantd), (_, ceiling))| (name.to_owned(), vec![plantd, ceiling]));
    let (title, series) = ("Latency of creates at half load", vec![PLANTD, CEILING]);
    let plot = Plot { title, y_label: "ms", lines: None, series, rows: rows.collect() };
    plot.draw(&folder.join("latencies.svg"))
}
