//! `cargo xtask bench change --before PROGRAM`: whether a change has made plantd slower. Measures only the two
//! builds, in many rounds, because a machine varies by more than a few percent from one moment to the next.

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;

use super::load::{Load, Request, fill};
use super::measure::Results;
use super::measure::Target::AtLeast;
use super::options::Options;
use super::program::{BEFORE, PLANTD, plantds};
use super::report::{claims, machine, measurements, publish};

const CREATE: &str = "create, 64 connections";
const READ: &str = "read by id";

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.before.is_some(), "name the program to compare with by --before");
    let material = options.temporary()?;
    let stored = options.plants(100_000);
    let plantds = plantds(&options.workspace, options.before.as_ref())?;
    let stores: Vec<PathBuf> =
        plantds.iter().map(|plantd| material.path().join(plantd.name)).collect();
    for (plantd, store) in plantds.iter().zip(&stores) {
        fs::create_dir(store)?;
        fill(plantd, store, stored)?;
    }
    let mut entries = Vec::new();
    for (plantd, store) in plantds.iter().zip(&stores) {
        let create = Load::new(Request::Create, options.duration);
        entries.push(create.entry(CREATE, plantd, None));
        let read = Load { stored, ..Load::new(Request::Read, options.duration) };
        entries.push(read.entry(READ, plantd, Some(store)));
    }
    let mut results = Results::default();
    results.measure(options, &entries)?;
    let ratios = |workload| results.ratios(workload, PLANTD, BEFORE);
    let targets = vec![
        ("creates at 64 connections, plantd/plantd before", AtLeast(0.98, None), ratios(CREATE)),
        ("reads by id, plantd/plantd before", AtLeast(0.98, None), ratios(READ)),
    ];
    let (machine, claims) = (machine()?, claims(targets));
    let text = format!("{machine}.\n\n{claims}\n{}", measurements(options, &results, &[BEFORE]));
    publish(options, "change", &text)
}
