//! `cargo xtask bench scale`: what a store costs when it is large, and how that grows from a small one.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use super::load::{Load, Request};
use super::measure::Target::{self, AtLeast, AtMost};
use super::measure::{Figures, Spread};
use super::options::Options;
use super::program::{self, Contender, Program, copy_data, output, serve};
use super::report::{Plot, machine, number, publish, table};
use crate::tools;

const SMALL_PLANTS: u64 = 100_000;
const CACHE_SIZES_MB: [u32; 6] = [16, 32, 64, 128, 256, 512];
const MB: f64 = 1_000_000.0;

/// When a load is killed: long enough after its start to be in the middle of it.
const KILL_AFTER: Duration = Duration::from_millis(1_500);

/// How many windows of the growth its table has at most.
const GROWTH_ROWS: usize = 12;

const CREATES: &str = "creates/s";
const DISK: &str = "bytes on disk a plant";
const MEMORY_AFTER_LOAD: &str = "memory after the load, MB";
const MEMORY_AFTER_START: &str = "memory after a start, MB";
const READY: &str = "ready after a clean stop, s";
const READY_FROM_DISK: &str = "the same, read from disk (one start), s";
const READY_AFTER_KILL: &str = "ready after SIGKILL under load, s";
const READS: [&str; 3] = ["reads by id/s", "read by id, p50 ms", "read by id, p99 ms"];
const LISTS: [&str; 3] = ["lists of 100/s", "list of 100, p50 ms", "list of 100, p99 ms"];
const PEAK: &str = "most memory, MB";

/// The rows of the table that compares the sizes, with the decimals of their values.
const COSTS: [(&str, usize); 13] = [
    (CREATES, 0),
    (DISK, 0),
    (MEMORY_AFTER_LOAD, 0),
    (MEMORY_AFTER_START, 0),
    (READY, 2),
    (READY_FROM_DISK, 2),
    (READY_AFTER_KILL, 2),
    (READS[0], 0),
    (READS[1], 2),
    (READS[2], 2),
    (LISTS[0], 0),
    (LISTS[1], 2),
    (LISTS[2], 2),
];

/// The values of each cost at one size.
#[derive(Default)]
struct Costs(BTreeMap<&'static str, Vec<f64>>);

impl Costs {
    fn add(&mut self, cost: &'static str, value: f64) {
        self.0.entry(cost).or_default().push(value);
    }

    fn add_memory(&mut self, cost: &'static str, program: &Program) -> anyhow::Result<()> {
        self.add(cost, program.memory("VmRSS")? / MB);
        self.add(PEAK, program.memory("VmHWM")? / MB);
        Ok(())
    }

    fn spread(&self, cost: &str) -> anyhow::Result<Spread> {
        let values = self.0.get(cost).into_iter().flatten().copied();
        Spread::of(values).with_context(|| format!("`{cost}` was not measured"))
    }
}

/// A data folder that plantd fills, and that is removed when this is dropped.
struct Store<'a> {
    options: &'a Options,
    plantd: &'a Contender,
    folder: TempDir,
    next_number: AtomicU64,
}

impl<'a> Store<'a> {
    fn new(options: &'a Options, plantd: &'a Contender) -> anyhow::Result<Self> {
        let (folder, next_number) = (options.temporary()?, AtomicU64::new(1));
        Ok(Self { options, plantd, folder, next_number })
    }

    fn serve<T>(&self, work: impl FnOnce(&Program) -> anyhow::Result<T>) -> anyhow::Result<T> {
        serve(self.plantd, self.folder.path(), work)
    }

    fn load(&self, request: Request) -> Load<'_> {
        Load { duration: self.options.duration, ..Load::new(request, &self.next_number) }
    }

    fn plants(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed) - 1
    }

    /// Creates plants until there are so many.
    fn fill(&self, program: &Program, plants: u64) -> anyhow::Result<Figures> {
        let load = Load::new(Request::Create, &self.next_number);
        Load { last_number: plants, ..load }.run(&[program])
    }

    /// Bytes that the data folder takes of the disk.
    fn disk_bytes(&self) -> anyhow::Result<f64> {
        // Files may go meanwhile, which `du` reports.
        let mut du = Command::new("sh");
        du.args(["-c", "du --summarize --block-size=1 \"$1\" 2>/dev/null || true", "sh"]);
        let stdout = output(du.arg(self.folder.path().join("data")))?;
        stdout.split('\t').next().unwrap_or_default().parse().context("du printed no number")
    }

    /// Measures a store that was just filled, in the process that filled it.
    fn measure_loaded(&self, program: &Program, costs: &mut Costs) -> anyhow::Result<()> {
        let stored = self.plants();
        costs.add(DISK, self.disk_bytes()? / stored as f64);
        costs.add_memory(MEMORY_AFTER_LOAD, program)?;
        for (request, [rate, p50, p99]) in [(Request::Read, READS), (Request::List, LISTS)] {
            let figures = Load { stored, ..self.load(request) }.run(&[program])?;
            let latency = figures.latency.context("no latency")?;
            costs.add(rate, figures.per_s());
            costs.add(p50, latency.p50);
            costs.add(p99, latency.p99);
        }
        costs.add(PEAK, program.memory("VmHWM")? / MB);
        Ok(())
    }

    fn measure_start(&self, cost: &'static str, costs: &mut Costs) -> anyhow::Result<()> {
        self.serve(|program| {
            costs.add(cost, program.ready_after.as_secs_f64());
            costs.add_memory(MEMORY_AFTER_START, program)
        })
    }

    /// Measures a start after the kernel has forgotten the files, where it may be told to.
    fn measure_start_from_disk(&self, costs: &mut Costs) -> anyhow::Result<()> {
        output(&mut Command::new("sync"))?;
        match fs::write("/proc/sys/vm/drop_caches", "3") {
            Ok(()) => self.measure_start(READY_FROM_DISK, costs),
            Err(why) => {
                println!(
                    "no start is from disk, since the kernel keeps its files in memory: {why}"
                );
                Ok(())
            }
        }
    }

    fn measure_start_after_kill(&self, costs: &mut Costs) -> anyhow::Result<()> {
        let before = self.plants();
        let program = Program::start(self.plantd, self.folder.path())?;
        let load = Load::new(Request::Create, &self.next_number);
        let killed_load = thread::scope(|scope| {
            let running = scope.spawn(|| load.run(&[&program]));
            thread::sleep(KILL_AFTER);
            program.kill()?;
            anyhow::Ok(running.join())
        })?;
        drop(program);
        let created = self.plants() - before;
        let was_loaded = created > 100 && killed_load.is_ok_and(|load| load.is_err());
        ensure!(was_loaded, "the load that the kill ended had created {created} plants");
        self.measure_start(READY_AFTER_KILL, costs)
    }
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    tools::ensure(&[tools::GNUPLOT])?;
    let plantd = program::plantd(&options.workspace)?;
    let plants = options.plants(10_000_000);
    let [mut small, mut large] = [Costs::default(), Costs::default()];
    for round in 1..=options.rounds {
        println!("small store {round}");
        let store = Store::new(options, &plantd)?;
        store.serve(|program| {
            store.fill(program, SMALL_PLANTS.min(plants))?;
            store.measure_loaded(program, &mut small)
        })?;
        store.measure_start(READY, &mut small)?;
        if round == 1 {
            store.measure_start_from_disk(&mut small)?;
        }
        store.measure_start_after_kill(&mut small)?;
    }
    let store = Store::new(options, &plantd)?;
    let (growth, ratio) = store.serve(|program| {
        let growth = grow(&store, program, plants)?;
        store.measure_loaded(program, &mut large)?;
        Ok((growth, compare_creates(&store, program, &mut small, &mut large)?))
    })?;
    for _ in 0..options.rounds {
        store.measure_start(READY, &mut large)?;
    }
    store.measure_start_from_disk(&mut large)?;
    for _ in 0..options.rounds {
        store.measure_start_after_kill(&mut large)?;
    }
    let caches = compare_caches(&store, plants)?;
    let growth_head = ["plants", CREATES, "memory, MB", "p99 ms", DISK];
    let cache_head = ["`--cache-mb`", CREATES, READS[0], "memory, MB", "ready, s"];
    // At most so many windows, among them the last one.
    let step = growth.len().div_ceil(GROWTH_ROWS).max(1);
    let shown: Vec<[f64; 5]> = growth.iter().rev().step_by(step).rev().copied().collect();
    let text = format!(
        "{}.\n\n{}\n{}\n{}\n{}\n\
         ![Creates and memory as a store grows](performance/scale-growth.svg)\n\
         ![What memory for the cache buys](performance/scale-cache.svg)",
        machine()?,
        target_table(plants, &large, ratio)?,
        cost_table(plants, &small, &large, ratio),
        number_table(&growth_head, &shown, [0, 0, 0, 1, 0]),
        number_table(&cache_head, &caches, [0, 0, 0, 0, 2]),
    );
    publish(options, "scale", &text)?;
    let plot = |name, title, lines, head: &[&'static str; 5], rows: &[[f64; 5]], series| {
        let row = |row: &[f64; 5]| {
            let values = row[1..=series].iter().map(|value| Spread::of([*value])).collect();
            (row[0].to_string(), values)
        };
        let rows = rows.iter().map(row).collect();
        let series = head[1..=series].to_vec();
        let plot = Plot { title, y_label: "requests/s", lines: Some(lines), series, rows };
        plot.draw(&options.plots().join(name))
    };
    let title = "Creates and memory as a store grows";
    let lines = ("plants", "set xrange [0:*]");
    plot("scale-growth.svg", title, lines, &growth_head, &growth, 2)?;
    let lines = ("--cache-mb", "set logscale x 2");
    plot("scale-cache.svg", "What memory for the cache buys", lines, &cache_head, &caches, 3)
}

/// Fills a store, and returns what the columns of the table are after each window of creates.
fn grow(store: &Store<'_>, program: &Program, plants: u64) -> anyhow::Result<Vec<[f64; 5]>> {
    let mut windows = Vec::new();
    while store.plants() < plants {
        let load = store.load(Request::Create);
        let window = Load { duration: 2 * load.duration, last_number: plants, ..load };
        let creates = window.run(&[program])?;
        let plants = store.plants() as f64;
        println!("{plants} plants: {:.0} creates/s", creates.per_s());
        let memory = program.memory("VmRSS")? / MB;
        let p99 = creates.latency.context("no latency")?.p99;
        windows.push([plants, creates.per_s(), memory, p99, store.disk_bytes()? / plants]);
    }
    Ok(windows)
}

/// Compares creates in a new small store with those in the large one, one right after the other, and returns the
/// median of their ratios.
fn compare_creates(
    store: &Store<'_>,
    program: &Program,
    small: &mut Costs,
    large: &mut Costs,
) -> anyhow::Result<f64> {
    let mut ratios = Vec::new();
    for _ in 0..store.options.rounds {
        let other = Store::new(store.options, store.plantd)?;
        let in_small = other.serve(|program| {
            other.fill(program, SMALL_PLANTS.min(store.plants()))?;
            other.load(Request::Create).run(&[program])
        })?;
        let in_large = store.load(Request::Create).measure(&[program])?;
        small.add(CREATES, in_small.per_s());
        large.add(CREATES, in_large.per_s());
        large.add(PEAK, program.memory("VmHWM")? / MB);
        ratios.push(in_large.per_s() / in_small.per_s());
    }
    Ok(Spread::of(ratios).context("there are no rounds")?.median)
}

/// Measures a copy of the store with each size of the cache, and returns what the columns of the table are.
fn compare_caches(store: &Store<'_>, stored: u64) -> anyhow::Result<Vec<[f64; 5]>> {
    let mut caches = Vec::new();
    for size_mb in CACHE_SIZES_MB {
        let arguments = vec!["--cache-mb".to_owned(), size_mb.to_string()];
        let plantd = Contender { arguments, ..store.plantd.clone() };
        let copy = Store::new(store.options, &plantd)?;
        copy.next_number.store(store.plants() + 1, Ordering::Relaxed);
        copy_data(store.folder.path(), copy.folder.path())?;
        caches.push(copy.serve(|program| {
            let creates = copy.load(Request::Create);
            let creates = Load { duration: 4 * creates.duration, ..creates }.measure(&[program])?;
            let reads = Load { stored, ..copy.load(Request::Read) }.run(&[program])?;
            println!("--cache-mb {size_mb}: {:.0} creates/s", creates.per_s());
            let (memory, ready) = (program.memory("VmRSS")?, program.ready_after.as_secs_f64());
            Ok([size_mb.into(), creates.per_s(), reads.per_s(), memory / MB, ready])
        })?);
    }
    Ok(caches)
}

fn target_table(plants: u64, large: &Costs, ratio: f64) -> anyhow::Result<String> {
    let [ready, killed, disk] = [READY, READY_AFTER_KILL, DISK].map(|cost| large.spread(cost));
    let (ready, killed, peak) = (ready?.median, killed?.median, large.spread(PEAK)?.max);
    let row = |cost: &str, target: Target, aim: Option<Target>, value, shown: String| {
        let has_reached_aim = aim.is_some_and(|aim| aim.verdict(value) == "met");
        let verdict = if has_reached_aim { "met, and the aim" } else { target.verdict(value) };
        let aim = aim.map(|aim| format!(" (aim: {aim})")).unwrap_or_default();
        vec![cost.to_owned(), format!("{target}{aim}"), shown, verdict.to_owned()]
    };
    let seconds = |value| format!("{value:.2} s");
    let (megabytes, bytes) =
        (format!("{peak:.0} MB"), format!("{:.0} bytes a plant", disk?.median));
    let rows = [
        row("ready after a clean stop", AtMost(3.0), None, ready, seconds(ready)),
        row("ready after SIGKILL under load", AtMost(15.0), None, killed, seconds(killed)),
        row(
            "most memory at the default cache",
            AtMost(1_000.0),
            Some(AtMost(600.0)),
            peak,
            megabytes,
        ),
        row(
            "creates/s, next to a small store",
            AtLeast(0.6),
            Some(AtLeast(0.8)),
            ratio,
            number(ratio, 2),
        ),
        vec!["room on disk".to_owned(), "none".to_owned(), bytes, "stated".to_owned()],
    ];
    let size = format!("at {} plants", number(plants as f64, 0));
    Ok(table(&[&size, "target", "value", ""], 4, &rows))
}

fn cost_table(plants: u64, small: &Costs, large: &Costs, ratio: f64) -> String {
    let row = |(cost, decimals): (&str, usize)| {
        let (few, many) = (small.spread(cost).ok()?.median, large.spread(cost).ok()?.median);
        // That of creates is the median of the ratios within a round.
        let factor = if cost == CREATES { ratio } else { many / few };
        let [few, many] = [few, many].map(|value| number(value, decimals));
        Some(vec![cost.to_owned(), few, many, number(factor, 2)])
    };
    let rows: Vec<Vec<String>> = COSTS.into_iter().filter_map(row).collect();
    let [few, many] =
        [SMALL_PLANTS.min(plants), plants].map(|size| number(size as f64, 0) + " plants");
    table(&["medians", &few, &many, "factor"], 1, &rows)
}

fn number_table(head: &[&str; 5], rows: &[[f64; 5]], decimals: [usize; 5]) -> String {
    let row = |row: &[f64; 5]| {
        row.iter().zip(decimals).map(|(value, decimals)| number(*value, decimals)).collect()
    };
    table(head, 0, &rows.iter().map(row).collect::<Vec<Vec<String>>>())
}
