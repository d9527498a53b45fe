//! `cargo xtask bench scale`: the costs of a large store, and their growth from a small one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::load::{Load, Request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::program::{Contender, PLANTD_BUILD, Program, build, copy_data, output, serve};
use super::report::{claims, machine, measurements, median, number, plot, publish, table};
use crate::tools;

const SMALL: &str = "small store";
const LARGE: &str = "large store";
const CACHE_SIZES_MB: [&str; 6] = ["16", "32", "64", "128", "256", "512"];

/// When a load is killed: long enough after its start to be in the middle of it.
const KILL_AFTER: Duration = Duration::from_millis(1_500);

/// How many windows of the growth its table has at most.
const GROWTH_ROWS: usize = 12;

const CREATE: &str = "create, 64 connections, random ids";
const LOADS: [(&str, Request); 3] =
    [(CREATE, Request::Create), ("read by id", Request::Read), ("list of 100", Request::List)];

const GROWTH_COLUMNS: [&str; 5] =
    ["plants", "creates/s", "memory, MB", "p99 ms", "bytes on disk a plant"];
const CACHE_COLUMNS: [&str; 5] =
    ["`--cache-mb`", "creates/s", "reads by id/s", "memory, MB", "ready, s"];

/// The number of the first plant after a kill, which no store has.
const FIRST_NUMBER_AFTER_KILL: u64 = 1 << 40;

const READY: &str = "ready after a clean stop, s";
const READY_AFTER_KILL: &str = "ready after SIGKILL under load, s";
type Disturbance = fn(&Contender, &Path) -> anyhow::Result<()>;
/// How a store is prepared before it is started again.
const STARTS: [(&str, Disturbance); 3] = [
    (READY, |_, _| Ok(())),
    ("ready after a clean stop, read from disk, s", forget_files),
    (READY_AFTER_KILL, kill_under_load),
];

/// A store that plantd has filled.
struct Store {
    plantd: Contender,
    folder: PathBuf,
    plants: u64,
    /// The row of the table after each window of creates.
    growth: Vec<Vec<String>>,
    /// The peak memory of plantd during the fill.
    memory_mb: f64,
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::GNUPLOT])?;
    let plantd = build(&options.workspace, PLANTD_BUILD)?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let fill = |(name, plants)| {
        let plantd = Contender { name, ..plantd.clone() };
        grow(options, plantd, material.path().join(name), plants)
    };
    let (small, large) = (fill((SMALL, plants.min(100_000)))?, fill((LARGE, plants))?);

    let mut loads: Vec<Entry<'_>> = Vec::new();
    for (work, request) in LOADS {
        for Store { plantd, folder, plants, .. } in [&small, &large] {
            let load = Load { stored: *plants, ..Load::new(request, options.duration) };
            loads.push(load.entry(work, plantd, Some(folder)));
        }
    }
    let mut rates = Results::default();
    rates.measure(options, &loads)?;

    let mut starts: Vec<Entry<'_>> = Vec::new();
    for (start, disturb) in STARTS {
        for Store { plantd, folder: store, .. } in [&small, &large] {
            let measure = move |folder: &Path| {
                copy_data(store, folder)?;
                disturb(plantd, folder)?;
                serve(plantd, 1, folder, |programs| {
                    let seconds = programs[0].ready_after.as_secs_f64();
                    let memory_mb = Some(programs[0].memory_mb()?);
                    Ok(Measurement { count: 1, seconds, memory_mb, latency_ms: None })
                })
            };
            starts.push((start, plantd.name, Box::new(measure)));
        }
    }
    let mut times = Results::default();
    times.measure(options, &starts)?;
    let caches = compare_caches(options, &large)?;

    let seconds = |start, size| times.values(start, size, |one| Some(one.seconds));
    let memory = |start, size| times.values(start, size, |one| one.memory_mb);
    let row = |name: &str, value: &dyn Fn(&Store) -> String| {
        vec![name.to_owned(), value(&small), value(&large)]
    };
    let mut costs = vec![
        row("most memory under load, MB", &|store| number(store.memory_mb, 0)),
        row("most memory after a start, MB", &|store| median(memory(READY, store.plantd.name), 0)),
        row("bytes on disk a plant", &|store| store.growth[store.growth.len() - 1][4].clone()),
    ];
    for (start, _) in STARTS {
        costs.push(row(start, &|store| median(seconds(start, store.plantd.name), 2)));
    }
    let memories = STARTS.iter().flat_map(|(start, _)| memory(start, LARGE));
    let peak = vec![memories.fold(large.memory_mb, f64::max)];
    let ratios = rates.ratios(CREATE, LARGE, SMALL);
    let targets = vec![
        (READY, AtMost(3.0), seconds(READY, LARGE)),
        (READY_AFTER_KILL, AtMost(15.0), seconds(READY_AFTER_KILL, LARGE)),
        ("most memory at the default cache, MB", AtMost(1_000.0), peak.clone()),
        ("aim: most memory at the default cache, MB", AtMost(600.0), peak),
        ("creates, large/small store", AtLeast(0.6), ratios.clone()),
        ("aim: creates, large/small store", AtLeast(0.8), ratios),
    ];
    // At most this many windows, including the last one.
    let step = large.growth.len().div_ceil(GROWTH_ROWS);
    let shown: Vec<_> = large.growth.iter().rev().step_by(step).rev().cloned().collect();
    let text = format!(
        "{}. The small store has {} plants, the large one {}. Times, memory and ratios of the claims are of the large one.\n\n\
         {}\n{}\n{}\n{}\n{}\n\
         ![Creates and memory as a store grows](performance/scale-growth.svg)\n\
         ![What memory for the cache buys](performance/scale-cache.svg)",
        machine()?,
        number(small.plants as f64, 0),
        number(plants as f64, 0),
        claims(targets),
        measurements(options, &rates, SMALL),
        table(&["medians", SMALL, LARGE], 1, costs),
        table(&GROWTH_COLUMNS, 0, shown),
        table(&CACHE_COLUMNS, 0, caches.clone()),
    );
    publish(options, "scale", &text)?;
    let labels = "title='Creates and memory as a store grows'; y_label='requests/s'";
    let variables = format!("{labels}; x_label='plants'; series=2");
    plot(options, "scale-growth", &variables, &GROWTH_COLUMNS, &large.growth)?;
    let labels = "title='What memory for the cache buys'; y_label='requests/s'";
    let variables = format!("{labels}; x_label='--cache-mb'; set logscale x 2; series=3");
    plot(options, "scale-cache", &variables, &CACHE_COLUMNS, &caches)
}

/// Fills a new store, window by window.
fn grow(
    options: &Options,
    plantd: Contender,
    folder: PathBuf,
    plants: u64,
) -> anyhow::Result<Store> {
    fs::create_dir(&folder)?;
    let created = AtomicU64::new(0);
    let load = Load::new(Request::Create, 2 * options.duration);
    let load = Load { plants_max: plants, ..load };
    let mut growth = Vec::new();
    let memory_mb = serve(&plantd, 1, &folder, |programs| {
        while created.load(Ordering::Relaxed) < plants {
            let creates = load.run(programs, &created)?;
            let stored = created.load(Ordering::Relaxed) as f64;
            println!("{stored} plants: {:.0} creates/s", creates.per_s());
            let p99 = creates.latency_ms.context("no latency")?[1];
            let (memory, disk) = (programs[0].memory_mb()?, disk_bytes(&folder)? / stored);
            let values = [(stored, 0), (creates.per_s(), 0), (memory, 0), (p99, 1), (disk, 0)];
            growth.push(values.map(|(value, decimals)| number(value, decimals)).into());
        }
        programs[0].memory_mb()
    })?;
    Ok(Store { plantd, folder, plants, growth, memory_mb })
}

/// The disk space of a store, in bytes.
fn disk_bytes(store: &Path) -> anyhow::Result<f64> {
    // Files may disappear during the walk, which `du` reports as an error.
    let mut du = Command::new("sh");
    du.args(["-c", "du --summarize --block-size=1 \"$1\" 2>/dev/null || true", "sh"]);
    let stdout = output(du.arg(store.join("data-0")))?;
    stdout.split('\t').next().unwrap_or_default().parse().context("du printed no number")
}

/// Has the kernel forget the files, so that they are read from the disk.
fn forget_files(_: &Contender, folder: &Path) -> anyhow::Result<()> {
    let forget =
        ["-type", "f", "-exec", "dd", "if={}", "iflag=nocache", "count=0", "status=none", ";"];
    output(Command::new("find").arg(folder.join("data-0")).args(forget)).map(drop)
}

fn kill_under_load(plantd: &Contender, folder: &Path) -> anyhow::Result<()> {
    let program = Program::start(plantd, &folder.join("data-0"))?;
    // Its plants are not those of the store.
    let created = AtomicU64::new(FIRST_NUMBER_AFTER_KILL);
    let load = Load::new(Request::Create, 10 * KILL_AFTER);
    let killed_load = thread::scope(|scope| {
        let running = scope.spawn(|| load.run(slice::from_ref(&program), &created));
        thread::sleep(KILL_AFTER);
        program.kill()?;
        anyhow::Ok(running.join())
    })?;
    let created = created.load(Ordering::Relaxed) - FIRST_NUMBER_AFTER_KILL;
    let was_loaded = created > 100 && killed_load.is_ok_and(|load| load.is_err());
    ensure!(was_loaded, "the load that the kill ended had created {created} plants");
    Ok(())
}

/// Measures a copy of a store with each size of the cache, and returns the rows of the table.
fn compare_caches(options: &Options, store: &Store) -> anyhow::Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for size_mb in CACHE_SIZES_MB {
        println!("--cache-mb {size_mb}");
        let folder = options.temporary()?;
        copy_data(&store.folder, folder.path())?;
        let plantd = store.plantd.with(&["--cache-mb", size_mb]);
        let load = |request| Load { stored: store.plants, ..Load::new(request, options.duration) };
        let creates = Load { duration: 4 * options.duration, ..load(Request::Create) };
        rows.push(serve(&plantd, 1, folder.path(), |programs| {
            let creates = creates.measure(programs)?.per_s();
            let reads = load(Request::Read).measure(programs)?.per_s();
            let (memory, ready) = (programs[0].memory_mb()?, programs[0].ready_after.as_secs_f64());
            let values = [(creates, 0), (reads, 0), (memory, 0), (ready, 2)];
            let values = values.map(|(value, decimals)| number(value, decimals));
            Ok([size_mb.to_owned()].into_iter().chain(values).collect())
        })?);
    }
    Ok(rows)
}
