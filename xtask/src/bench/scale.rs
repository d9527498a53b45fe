//! `cargo xtask bench scale`: what a store costs when it is large, and how that grows from a small one.

mod cache;
mod costs;
mod counters;
mod disk;
mod growth;
mod memory;
mod options;
mod plot;
mod report;
mod store;
mod targets;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use self::costs::{Costs, Loaded};
use self::growth::{Pair, Window};
use self::options::Options;
use self::report::Report;
use self::store::{Store, Workbench};
use super::bench_folder::BenchFolder;
use super::machine::Machine;
use super::measurement::CONNECTIONS;
use super::performance_document::{self, PLOTS_FOLDER};
use super::{contender, interrupt};
use crate::{cargo, tools};

/// Measures a small and a large store, prints tables and writes the report and, at full size, the documents.
pub(super) fn run(arguments: &[String], usage: &'static str) -> anyhow::Result<()> {
    let options = options::parse(arguments, usage)?;
    tools::ensure(&[tools::WRK, tools::GNUPLOT])?;
    let workspace = cargo::workspace()?;
    let root = workspace.workspace_root.as_std_path();
    let plantd = contender::build_plantd(&workspace)?;
    let bench_folder = BenchFolder::make(&workspace)?;
    interrupt::listen()?;
    let report = measure(&Workbench::new(plantd, &bench_folder)?, options)?;
    let tables = report.tables()?;
    println!("\n{tables}");
    bench_folder.write_report("scale.json", &report)?;
    // Plots of any run can be looked at; those of the documents are of a full one.
    if report.options.is_documented() {
        let images = draw(&report, &root.join(PLOTS_FOLDER))?;
        performance_document::refresh(root, "scale", &format!("{tables}\n{images}"))?;
    } else {
        draw(&report, bench_folder.path())?;
    }
    Ok(())
}

/// Draws all plots into a folder, and returns the text that shows them in a document next to it.
fn draw(report: &Report, folder: &Path) -> anyhow::Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let plots = [
        ("scale-growth.svg", "Creates and memory as a store grows", plot::growth(&report.growth)?),
        ("scale-cache.svg", "What memory for the cache buys", plot::cache(&report.cache)?),
    ];
    let mut images = String::new();
    for (name, title, script) in plots {
        super::plot::draw(&script, &folder.join(name))?;
        writeln!(images, "![{title}](performance/{name})")?;
    }
    Ok(images)
}

fn measure(place: &Workbench, options: Options) -> anyhow::Result<Report> {
    let machine = Machine::this()?;
    println!("{machine}\nsmall stores");
    let pace = &options.pace;
    let small = Costs::of_small(place, pace).context("the small stores failed")?;
    println!("a store of {} plants", options.plants);
    let mut store = Store::new(place)?;
    let mut large = Costs::default();
    let (growth, pairs) = grow(&mut store, &mut large, place, &options)?;
    println!("its starts");
    large.add_starts(&mut store, pace.rounds).context("the starts of the large store failed")?;
    println!("its caches");
    let cache = cache::curve(&store, pace).context("the sizes of the cache failed")?;
    Report::new(machine, options, CONNECTIONS, [small, large], growth, pairs, cache)
}

/// Fills the large store, and measures what the process that filled it can tell.
fn grow(
    store: &mut Store<'_>,
    large: &mut Costs,
    place: &Workbench,
    options: &Options,
) -> anyhow::Result<(Vec<Window>, Vec<Pair>)> {
    let pace = &options.pace;
    store.run(&[], |server| {
        let growth = growth::grow(server, options.plants, pace).context("the growth failed")?;
        large.loaded.push(Loaded::of(server, pace)?);
        let pairs = (0..pace.rounds)
            .map(|_| growth::compare(server, place, pace))
            .collect::<anyhow::Result<_>>()
            .context("the comparison of creates failed")?;
        Ok((growth, pairs))
    })
}
