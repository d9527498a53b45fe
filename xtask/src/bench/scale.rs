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

/// When a load is killed: long enough after its start to be in the middle of it.
const KILL_AFTER: Duration = Duration::from_millis(1_500);

/// The creates of a growth are measured in windows of this length.
const WINDOW: Duration = Duration::from_secs(1);

/// How many plants a growing store has before its creates are measured.
const GROWTH_BEGIN: u64 = 1_000_000;

/// How many windows of the growth its table has at most.
const GROWTH_ROWS: usize = 12;

/// The throughput at the end is that of the last part of all windows.
const LAST_PART: usize = 10;

const CREATE: &str = "create, 64 connections, random ids";
const READ: &str = "read by id";
const LOADS: [(&str, Request); 3] =
    [(CREATE, Request::Create), (READ, Request::Read), ("list of 100", Request::List)];

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
    growth: Growth,
    /// The peak memory of plantd during the fill.
    memory_mb: f64,
    bytes_a_plant: f64,
}

/// The creates while a store grows.
#[derive(Default)]
struct Growth {
    /// For each window the plants at its end, and its creates.
    windows: Vec<(u64, Measurement)>,
    latencies: Vec<Duration>,
}

impl Growth {
    /// The creates per second in the last windows.
    fn last_rate(&self) -> f64 {
        let last = self.windows.len().div_ceil(LAST_PART).max(1);
        let windows = self.windows.iter().rev().take(last);
        let (count, seconds) = windows.fold((0, 0.0), |(count, seconds), (_, window)| {
            (count + window.count, seconds + window.seconds)
        });
        count as f64 / seconds
    }

    /// The latencies of all creates.
    fn whole(&self) -> Measurement {
        Measurement::of(self.latencies.clone(), WINDOW)
    }

    /// For each window the p50, the p99 and the longest latency, in ms.
    fn latencies_ms(&self) -> impl Iterator<Item = [f64; 3]> {
        let latencies = self.windows.iter().filter_map(|(_, window)| window.latency_ms);
        latencies.map(|[p50, p99, _, longest]| [p50, p99, longest])
    }
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::GNUPLOT])?;
    let plantd = build(&options.workspace, PLANTD_BUILD)?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let fill = |name, plants| {
        grow(Contender { name, ..plantd.clone() }, material.path().join(name), plants)
    };
    let (small, large) = (fill(SMALL, plants.min(100_000))?, fill(LARGE, plants)?);
    let before = options.before().map(|before| {
        let folder = options.temporary()?;
        anyhow::Ok(grow(before, folder.path().join("before"), plants)?.growth)
    });
    let before = before.transpose()?;

    let mut loads: Vec<Entry<'_>> = Vec::new();
    for (work, request) in LOADS {
        for Store { plantd, folder, plants, .. } in [&small, &large] {
            let load = Load { stored: *plants, ..Load::new(request, options.duration) };
            loads.push(load.entry(work, plantd, Some(folder)));
        }
    }
    let mut rates = Results::default();
    rates.measure(options, &loads)?;
    let mut times = Results::default();
    times.measure(options, &starts(&[&small, &large]))?;

    let seconds = |start, size| times.values(start, size, |one| Some(one.seconds));
    let memory = |start, size| times.values(start, size, |one| one.memory_mb);
    let row = |name: &str, value: &dyn Fn(&Store) -> String| {
        vec![name.to_owned(), value(&small), value(&large)]
    };
    let mut costs = vec![
        row("most memory under load, MB", &|store| number(store.memory_mb, 0)),
        row("most memory after a start, MB", &|store| median(memory(READY, store.plantd.name), 0)),
        row("bytes on disk a plant", &|store| number(store.bytes_a_plant, 0)),
    ];
    for (start, _) in STARTS {
        costs.push(row(start, &|store| median(seconds(start, store.plantd.name), 2)));
    }
    let memories = STARTS.iter().flat_map(|(start, _)| memory(start, LARGE));
    let peak = vec![memories.fold(large.memory_mb, f64::max)];
    let reads = rates.ratios(READ, LARGE, SMALL);
    let [_, p99, _, longest] = large.growth.whole().latency_ms.context("no latencies")?;
    let throughput: Vec<f64> =
        before.iter().map(|before| large.growth.last_rate() / before.last_rate()).collect();
    let targets = vec![
        ("p99 of creates while the store grows, ms", AtMost(50.0), vec![p99]),
        ("aim: the same", AtMost(20.0), vec![p99]),
        ("the longest of these creates, ms", AtMost(500.0), vec![longest]),
        ("aim: the same", AtMost(200.0), vec![longest]),
        ("the last of these creates per second, plantd/before", AtLeast(1.0), throughput.clone()),
        ("aim: the same", AtLeast(1.5), throughput),
        ("reads by id, large/small store", AtLeast(0.5), reads.clone()),
        ("aim: the same", AtLeast(0.7), reads),
        ("most memory at the default cache, MB", AtMost(400.0), peak),
        (READY, AtMost(3.0), seconds(READY, LARGE)),
        (READY_AFTER_KILL, AtMost(15.0), seconds(READY_AFTER_KILL, LARGE)),
    ];
    let text = format!(
        "{}. The small store has {} plants, the large one {}. Times, memory and ratios of the claims are of the large one.\n\n\
         {}\n{}\n{}\n{}\n\
         ![Latencies of creates while a store grows](performance/scale-growth.svg)",
        machine()?,
        number(small.plants as f64, 0),
        number(plants as f64, 0),
        claims(targets),
        measurements(options, &rates, &[SMALL]),
        table(&["medians", SMALL, LARGE], 1, costs),
        growth_table(&large.growth, before.as_ref()),
    );
    publish(options, "scale", &text)?;
    draw(options, &large.growth, before.as_ref())
}

/// Starts on copies of these stores, each of them disturbed.
fn starts<'a>(stores: &[&'a Store]) -> Vec<Entry<'a>> {
    let mut starts: Vec<Entry<'_>> = Vec::new();
    for (start, disturb) in STARTS {
        for Store { plantd, folder: store, .. } in stores {
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
    starts
}

/// Fills a new store, window by window.
fn grow(plantd: Contender, folder: PathBuf, plants: u64) -> anyhow::Result<Store> {
    fs::create_dir_all(&folder)?;
    let created = AtomicU64::new(0);
    let begin = Load::new(Request::Create, Duration::MAX);
    let begin = Load { plants_max: plants.min(GROWTH_BEGIN), ..begin };
    let load = Load { plants_max: plants, ..Load::new(Request::Create, WINDOW) };
    let mut growth = Growth::default();
    let (memory_mb, bytes_a_plant) = serve(&plantd, 1, &folder, |programs| {
        begin.run(programs, &created)?;
        while created.load(Ordering::Relaxed) < plants {
            let (latencies, duration) = load.latencies(programs, &created)?;
            growth.latencies.extend(&latencies);
            let stored = created.load(Ordering::Relaxed);
            let window = Measurement::of(latencies, duration);
            println!("{}, {stored} plants: {window:.3?}", plantd.name);
            growth.windows.push((stored, window));
        }
        Ok((programs[0].memory_mb()?, disk_bytes(&folder)? / plants as f64))
    })?;
    Ok(Store { plantd, folder, plants, growth, memory_mb, bytes_a_plant })
}

/// Some windows, and those of the older plantd that are as far.
fn growth_table(growth: &Growth, before: Option<&Growth>) -> String {
    let cells = |(_, window): &(u64, Measurement)| {
        let [p50, p99, _, longest] = window.latency_ms.unwrap_or_default();
        let latencies = [p50, p99, longest].map(|latency| number(latency, 1));
        [number(window.per_s(), 0)].into_iter().chain(latencies).collect::<Vec<_>>()
    };
    let row = |window: &(u64, Measurement)| {
        let as_far = before.map(|before| {
            let found = before.windows.iter().find(|(plants, _)| *plants >= window.0);
            found.or(before.windows.last()).map(cells).unwrap_or_default()
        });
        let plants = number(window.0 as f64, 0);
        [plants].into_iter().chain(cells(window)).chain(as_far.unwrap_or_default()).collect()
    };
    // At most this many windows, including the last one.
    let step = growth.windows.len().div_ceil(GROWTH_ROWS).max(1);
    let mut rows: Vec<_> = growth.windows.iter().rev().step_by(step).map(row).collect();
    rows.reverse();
    let mut head = vec!["plants", "creates/s", "p50 ms", "p99 ms", "longest, ms"];
    if before.is_some() {
        head.extend(["before: creates/s", "p50 ms", "p99 ms", "longest, ms"]);
    }
    table(&head, 0, rows)
}

/// Draws the latencies of creates over time.
fn draw(options: &Options, growth: &Growth, before: Option<&Growth>) -> anyhow::Result<()> {
    let mut head = vec!["s", "p50", "p99", "longest"];
    let mut columns: Vec<Vec<[f64; 3]>> = vec![growth.latencies_ms().collect()];
    if let Some(before) = before {
        head.extend(["p50 before", "p99 before", "longest before"]);
        columns.push(before.latencies_ms().collect());
    }
    let length = columns.iter().map(Vec::len).max().unwrap_or_default();
    let row = |second: usize| {
        let cells = columns.iter().flat_map(|column| match column.get(second) {
            Some(latencies) => latencies.map(|latency| latency.to_string()),
            None => ["?"; 3].map(str::to_owned),
        });
        [second.to_string()].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = (0..length).map(row).collect();
    let labels = "title='Creates while a store grows from one to ten million plants'; y_label='ms'";
    let variables = format!("{labels}; x_label='s'; set logscale y; series={}", head.len() - 1);
    plot(options, "scale-growth", &variables, &head, &rows)
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
