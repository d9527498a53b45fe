//! `cargo xtask bench scale`: what a store costs when it is large, and how that grows from a small one.

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
use super::program::{self, Contender, Program, copy_data, output, serve};
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

const READY: &str = "ready after a clean stop";
const READY_AFTER_KILL: &str = "ready after SIGKILL under load";
type Disturbance = fn(&Contender, &Path) -> anyhow::Result<()>;
/// What happens to a store before it is started again.
const STARTS: [(&str, Disturbance); 3] = [
    (READY, |_, _| Ok(())),
    ("ready after a clean stop, read from disk", forget_files),
    (READY_AFTER_KILL, kill_under_load),
];

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::GNUPLOT])?;
    let executable = program::plantd(&options.workspace)?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let mut stores = Vec::new();
    for (name, stored) in [(SMALL, plants.min(100_000)), (LARGE, plants)] {
        let (plantd, store) =
            (Contender { name, ..executable.clone() }, material.path().join(name));
        let growth = grow(options, &plantd, &store, stored)?;
        stores.push((plantd, store, stored, growth));
    }
    let (mut loads, mut starts): (Vec<Entry<'_>>, Vec<Entry<'_>>) = (Vec::new(), Vec::new());
    for (work, request) in LOADS {
        for (plantd, store, stored, _) in &stores {
            let load = Load { stored: *stored, ..Load::new(request, options.duration) };
            loads.push(load.entry(work, plantd, Some(store)));
        }
    }
    for (start, disturb) in STARTS {
        for (plantd, store, ..) in &stores {
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
    let (mut rates, mut times) = (Results::default(), Results::default());
    rates.measure(options, &loads)?;
    times.measure(options, &starts)?;

    let growth = &stores[1].3;
    let last =
        |store: usize, column: usize| vec![stores[store].3[stores[store].3.len() - 1][column]];
    let seconds = |start, size| times.values(start, size, |one| Some(one.seconds));
    let memory = |start, size| times.values(start, size, |one| one.memory_mb);
    let mut costs = vec![
        ("most memory under load, MB", last(0, 2), last(1, 2)),
        ("most memory after a start, MB", memory(READY, SMALL), memory(READY, LARGE)),
        ("bytes on disk a plant", last(0, 4), last(1, 4)),
    ];
    costs.extend(STARTS.map(|(start, _)| (start, seconds(start, SMALL), seconds(start, LARGE))));
    let cost_row = |(cost, small, large): (&str, Vec<f64>, Vec<f64>)| {
        vec![cost.to_owned(), median(small, 2), median(large, 2)]
    };
    let peak = STARTS.iter().flat_map(|(start, _)| memory(start, LARGE)).chain(last(1, 2));
    let peak: Vec<f64> = peak.reduce(f64::max).into_iter().collect();
    let slowdown = rates.ratios(CREATE, LARGE, SMALL);
    let targets = vec![
        ("seconds until ready after a clean stop", AtMost(3.0), seconds(READY, LARGE)),
        (
            "seconds until ready after SIGKILL under load",
            AtMost(15.0),
            seconds(READY_AFTER_KILL, LARGE),
        ),
        ("most memory at the default cache, MB", AtMost(1_000.0), peak.clone()),
        ("the same, aim", AtMost(600.0), peak),
        ("creates, large/small store", AtLeast(0.6), slowdown.clone()),
        ("the same, aim", AtLeast(0.8), slowdown),
    ];
    let caches = compare_caches(options, &stores[1].0, &stores[1].1, plants)?;
    // At most so many windows, among them the last one.
    let step = growth.len().div_ceil(GROWTH_ROWS);
    let shown: Vec<_> = growth.iter().rev().step_by(step).rev().copied().collect();
    let text = format!(
        "{}. The small store has {} plants, the large one {}.\n\n{}\n{}\n{}\n{}\n{}\n\
         ![Creates and memory as a store grows](performance/scale-growth.svg)\n\
         ![What memory for the cache buys](performance/scale-cache.svg)",
        machine()?,
        number(stores[0].2 as f64, 0),
        number(plants as f64, 0),
        claims(targets),
        measurements(&rates, SMALL),
        table(&["medians", SMALL, LARGE], 1, costs.into_iter().map(cost_row).collect()),
        number_table(&GROWTH_COLUMNS, &shown, [0, 0, 0, 1, 0]),
        number_table(&CACHE_COLUMNS, &caches, [0, 0, 0, 0, 2]),
    );
    publish(options, "scale", &text)?;
    let labels =
        "title='Creates and memory as a store grows'; y_label='requests/s'; x_label='plants'";
    plot_columns(options, "scale-growth", labels, &GROWTH_COLUMNS, growth, 2)?;
    let labels =
        "title='What memory for the cache buys'; y_label='requests/s'; x_label='--cache-mb'";
    let labels = format!("{labels}; set logscale x 2");
    plot_columns(options, "scale-cache", &labels, &CACHE_COLUMNS, &caches, 3)
}

/// Creates so many plants in a new store, and returns what the columns of the table are after each window of creates.
fn grow(
    options: &Options,
    plantd: &Contender,
    store: &PathBuf,
    plants: u64,
) -> anyhow::Result<Vec<[f64; 5]>> {
    fs::create_dir(store)?;
    let created = AtomicU64::new(0);
    let load = Load::new(Request::Create, 2 * options.duration);
    serve(plantd, 1, store, |programs| {
        let mut windows = Vec::new();
        while created.load(Ordering::Relaxed) < plants {
            let creates = Load { plants_max: plants, ..load }.run(programs, &created)?;
            let stored = created.load(Ordering::Relaxed) as f64;
            println!("{stored} plants: {:.0} creates/s", creates.per_s());
            let p99 = creates.latency_ms.context("no latency")?[1];
            let disk = disk_bytes(store)? / stored;
            windows.push([stored, creates.per_s(), programs[0].memory_mb()?, p99, disk]);
        }
        Ok(windows)
    })
}

/// Bytes that a store takes of the disk.
fn disk_bytes(store: &Path) -> anyhow::Result<f64> {
    // Files may go meanwhile, which `du` reports.
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

/// Measures a copy of a store with each size of the cache, and returns what the columns of the table are.
fn compare_caches(
    options: &Options,
    plantd: &Contender,
    store: &Path,
    stored: u64,
) -> anyhow::Result<Vec<[f64; 5]>> {
    let mut caches = Vec::new();
    for size_mb in CACHE_SIZES_MB {
        println!("--cache-mb {size_mb}");
        let plantd = plantd.with(&["--cache-mb", size_mb]);
        let folder = options.temporary()?;
        copy_data(store, folder.path())?;
        let creates = Load { stored, ..Load::new(Request::Create, 4 * options.duration) };
        let reads = Load { stored, ..Load::new(Request::Read, options.duration) };
        caches.push(serve(&plantd, 1, folder.path(), |programs| {
            let (creates, reads) = (creates.measure(programs)?, reads.measure(programs)?);
            let (memory, ready) = (programs[0].memory_mb()?, programs[0].ready_after.as_secs_f64());
            Ok([size_mb.parse()?, creates.per_s(), reads.per_s(), memory, ready])
        })?);
    }
    Ok(caches)
}

fn number_table(head: &[&str; 5], rows: &[[f64; 5]], decimals: [usize; 5]) -> String {
    let cells =
        |row: &[f64; 5]| row.iter().zip(decimals).map(|(value, it)| number(*value, it)).collect();
    table(head, 0, rows.iter().map(cells).collect())
}

/// Draws so many columns over the first one.
fn plot_columns(
    options: &Options,
    name: &str,
    labels: &str,
    head: &[&str; 5],
    rows: &[[f64; 5]],
    series: usize,
) -> anyhow::Result<()> {
    let head = head[..=series].iter().map(|name| (*name).to_owned()).collect();
    let row = |row: &[f64; 5]| row[..=series].iter().map(f64::to_string).collect();
    let columns: Vec<Vec<String>> = [head].into_iter().chain(rows.iter().map(row)).collect();
    plot(options, name, labels, series, &columns)
}
