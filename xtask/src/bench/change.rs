//! `cargo xtask bench change --before PROGRAM`: whether a change has made plantd slower. Measures only the two
//! builds, in many rounds, because a machine varies by more than a few percent from one moment to the next.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use super::load::{Load, Request, fill};
use super::measure::Results;
use super::measure::Target::AtLeast;
use super::options::Options;
use super::program::{Contender, PLANTD, plantd};
use super::report::{claims, machine, measurements, publish};

const BEFORE: &str = "plantd before";

/// What is measured: its name, the claim about it, and the requests.
const WORKLOADS: [(&str, &str, Request); 3] = [
    ("create, 64 connections", "creates at 64 connections, plantd/plantd before", Request::Create),
    ("read by id", "reads by id, plantd/plantd before", Request::Read),
    ("list of 100", "lists of 100, plantd/plantd before", Request::List),
];

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let before = options.before.as_ref().context("name the older plantd by --before")?;
    let before = fs::canonicalize(before).with_context(|| format!("no {}", before.display()))?;
    let before = Contender { name: BEFORE, command: vec![before.display().to_string()] };
    let material = options.temporary()?;
    let stored = options.plants(100_000);
    let plantds = [plantd(options)?, before];
    let stores: Vec<PathBuf> =
        plantds.iter().map(|plantd| material.path().join(plantd.name)).collect();
    for (plantd, store) in plantds.iter().zip(&stores) {
        fs::create_dir(store)?;
        fill(plantd, store, stored)?;
    }
    let mut entries = Vec::new();
    for (workload, _, request) in WORKLOADS {
        // Creates begin with an empty store.
        let stored = if request == Request::Create { 0 } else { stored };
        for (plantd, store) in plantds.iter().zip(&stores) {
            let load = Load { stored, ..Load::new(request, options.duration) };
            entries.push(load.entry(workload, plantd, (stored > 0).then_some(store)));
        }
    }
    let mut results = Results::default();
    results.measure(options, &entries)?;
    let targets = WORKLOADS.map(|(workload, claim, _)| {
        (claim, AtLeast(0.98, None), results.ratios(workload, PLANTD, BEFORE))
    });
    let (machine, claims) = (machine()?, claims(targets.into()));
    let text = format!("{machine}.\n\n{claims}\n{}", measurements(options, &results, &[BEFORE]));
    publish(options, "change", &text)
}
