//! `cargo xtask bench scale`: a store that grows to ten million plants, and its costs compared with a small one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::load::{Load, Request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::plants::{scattered, write_file};
use super::program::{Contender, Program, copy_data, output, plantd, serve, transfer};
use super::report::{claims, machine, measurements, median, number, publish, table};

const SMALL: &str = "small store";
const LARGE: &str = "large store";

/// When a load is killed: long enough after its start to be well under way.
const KILL_AFTER: Duration = Duration::from_millis(1_500);

const READ: &str = "read by id";
const LOADS: [(&str, Request); 2] = [(READ, Request::Read), ("list of 100", Request::List)];

/// The first plant is changed this often.
const CHANGES: u64 = 10_000;

const HISTORY: &str = "page of a history, 1 connection";

/// The number of the first plant after a kill, beyond those of any store.
const FIRST_NUMBER_AFTER_KILL: u64 = 1 << 40;

const READY: &str = "ready after a clean stop, s";
const READY_AFTER_KILL: &str = "ready after SIGKILL under load, s";
type Disturbance = fn(&Contender, &Path) -> anyhow::Result<()>;
/// What happens to a store before it is started again.
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
    /// All creates of the growth.
    growth: Measurement,
    /// Creates per second in the last tenth of the plants.
    last_per_s: f64,
    bytes_a_plant: f64,
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let plantd = plantd(options)?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let fill = |name, plants| {
        let plantd = Contender { name, ..plantd.clone() };
        grow(plantd, material.path().join(name), plants)
    };
    let stores = [fill(SMALL, plants.min(100_000))?, fill(LARGE, plants)?];
    let large = &stores[1];

    let mut loads: Vec<Entry<'_>> = Vec::new();
    for (workload, request) in LOADS {
        for Store { plantd, folder, plants, .. } in &stores {
            let load = Load { stored: *plants, ..Load::new(request, options.duration) };
            loads.push(load.entry(workload, plantd, Some(folder)));
        }
    }
    for Store { plantd, folder, .. } in &stores {
        let load = Load { connections: 1, ..Load::new(Request::History, options.duration) };
        loads.push(load.entry(HISTORY, plantd, Some(folder)));
    }
    let mut rates = Results::default();
    rates.measure(options, &loads)?;

    let mut starts: Vec<Entry<'_>> = Vec::new();
    for (start, disturb) in STARTS {
        for Store { plantd, folder: store, .. } in &stores {
            let measure = move |folder: &Path| {
                copy_data(store, folder)?;
                disturb(plantd, folder)?;
                serve(plantd, 1, folder, |programs| {
                    let seconds = programs[0].ready_after.as_secs_f64();
                    let memory_mb = Some(programs[0].memory_mb()?);
                    Ok(Measurement { count: 1, seconds, memory_mb, latency_ms: None })
                })
            };
            starts.push(Entry::new(start, plantd.name, measure));
        }
    }
    let mut times = Results::default();
    times.measure(options, &starts)?;

    let seconds = |start, store| times.values(start, store, |one| Some(one.seconds));
    let memory = |start, store| times.values(start, store, |one| one.memory_mb);
    let memories = STARTS.iter().flat_map(|(start, _)| memory(start, LARGE));
    let peak = memories.chain(large.growth.memory_mb).reduce(f64::max);
    let latency = |place: usize| large.growth.latency_ms.iter().map(|it| it[place]).collect();
    let reads = rates.ratios(READ, LARGE, SMALL);
    let histories = rates.latencies(HISTORY, LARGE, 1);
    let targets = vec![
        ("p99 of creates while the store grows, ms", AtMost(50.0, Some(20.0)), latency(1)),
        ("longest create while the store grows, ms", AtMost(500.0, Some(200.0)), latency(3)),
        ("reads by id, large/small store", AtLeast(0.5, Some(0.7)), reads),
        ("p99 of a page of a history of 10,000 changes, ms", AtMost(10.0, None), histories),
        ("most memory, MB", AtMost(600.0, Some(400.0)), peak.into_iter().collect()),
        (READY, AtMost(3.0, None), seconds(READY, LARGE)),
        (READY_AFTER_KILL, AtMost(15.0, None), seconds(READY_AFTER_KILL, LARGE)),
    ];
    let row = |name: &str, value: &dyn Fn(&Store) -> Vec<f64>, decimals| {
        let values = stores.iter().map(|store| median(value(store), decimals));
        [name.to_owned()].into_iter().chain(values).collect()
    };
    let mut costs: Vec<Vec<String>> = vec![
        row("creates/s while it grows", &|store| vec![store.growth.per_s()], 0),
        row("creates/s of the last tenth", &|store| vec![store.last_per_s], 0),
    ];
    for (place, name) in ["p50", "p99", "p99.9", "longest"].into_iter().enumerate() {
        let latency = |store: &Store| store.growth.latency_ms.iter().map(|it| it[place]).collect();
        costs.push(row(&format!("create while it grows, {name}, ms"), &latency, 1));
    }
    costs.extend([
        row("most memory while it grows, MB", &|store| Vec::from_iter(store.growth.memory_mb), 0),
        row("most memory after a start, MB", &|store| memory(READY, store.plantd.name), 0),
        row("bytes on disk a plant", &|store| vec![store.bytes_a_plant], 0),
    ]);
    for (start, _) in STARTS {
        costs.push(row(start, &|store| seconds(start, store.plantd.name), 2));
    }
    let text = format!(
        "{}. The small store has {} plants, the large one {}. A tenth of them is imported; the store grows by \
         creates from there. The claims are of the large store.\n\n\
         {}\n{}\n{}",
        machine()?,
        number(stores[0].plants as f64, 0),
        number(plants as f64, 0),
        claims(targets),
        table(&["medians", SMALL, LARGE], 1, costs),
        measurements(options, &rates, &[SMALL]),
    );
    publish(options, "scale", &text)
}

/// Fills a new store: imports a tenth of the plants, and creates the others as fast as possible. The first plant is changed
/// while the last tenth is created, so that its changes lie far apart among the events.
fn grow(plantd: Contender, folder: PathBuf, plants: u64) -> anyhow::Result<Store> {
    fs::create_dir(&folder)?;
    let tenth = plants / 10;
    let file = folder.join("plants.ndjson");
    write_file(&file, (1..=tenth).map(scattered))?;
    transfer(&plantd, &folder, "import", &file, tenth)?;
    let created = AtomicU64::new(tenth);
    serve(&plantd, 1, &folder, |programs| {
        let create_until = |plants_max| {
            let load = Load { plants_max, ..Load::new(Request::Create, Duration::MAX) };
            let start = Instant::now();
            let latencies = load.latencies(&[programs[0].address], &created)?;
            anyhow::Ok((latencies, start.elapsed()))
        };
        let (mut latencies, duration) = create_until(plants - tenth)?;
        let change = Load {
            connections: 1,
            plants_max: CHANGES,
            ..Load::new(Request::Change, Duration::MAX)
        };
        let (last_latencies, last_duration) = thread::scope(|scope| {
            let changing = scope.spawn(|| change.run(programs, &AtomicU64::new(0)));
            let last = create_until(plants)?;
            let changed =
                changing.join().unwrap_or_else(|_| bail!("a thread of the load panicked"));
            changed.map(|_| last)
        })?;
        latencies.extend(last_latencies);
        let memory_mb = Some(programs[0].memory_mb()?);
        let growth = Measurement::of(latencies, duration + last_duration);
        let growth = Measurement { memory_mb, ..growth };
        let last_per_s = tenth as f64 / last_duration.as_secs_f64();
        println!("{}: {plants} plants, {growth:.3?}, at last {last_per_s:.0}/s", plantd.name);
        let bytes_a_plant = disk_bytes(&folder)? as f64 / plants as f64;
        let (plantd, folder) = (plantd.clone(), folder.clone());
        Ok(Store { plantd, folder, plants, growth, last_per_s, bytes_a_plant })
    })
}

pub(super) fn disk_bytes(store: &Path) -> anyhow::Result<u64> {
    // Files may disappear during the walk, which `du` reports as an error.
    let mut du = Command::new("sh");
    du.args(["-c", "du --summarize --block-size=1 \"$1\" 2>/dev/null || true", "sh"]);
    let stdout = output(du.arg(store.join("data-0")))?;
    stdout.split('\t').next().unwrap_or_default().parse().context("du printed no number")
}

/// Drops the files from the kernel's page cache, so that they are read from the disk.
fn forget_files(_: &Contender, folder: &Path) -> anyhow::Result<()> {
    let forget =
        ["-type", "f", "-exec", "dd", "if={}", "iflag=nocache", "count=0", "status=none", ";"];
    output(Command::new("find").arg(folder.join("data-0")).args(forget)).map(drop)
}

fn kill_under_load(plantd: &Contender, folder: &Path) -> anyhow::Result<()> {
    let program = Program::start(plantd, &folder.join("data-0"))?;
    // The plants of this load are not those of the store.
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
