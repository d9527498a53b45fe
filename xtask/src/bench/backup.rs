//! `cargo xtask bench backup`: the cost of backups and restores of ten million plants, and what backups cost clients
//! that create plants.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};

use super::load::{Load, Request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results, Series};
use super::options::Options;
use super::plants::{scattered, write_file};
use super::program::{
    Contender, PLANTD, Program, client, copy_data, memory_mb, output, plantd, serve, transfer,
};
use super::report::{claims, machine, measurements, median, number, publish, table};
use super::scale::disk_bytes;

const BACKUP: &str = "backup";
const VERIFY: &str = "verify";
const RESTORE: &str = "restore";
const CREATE: &str = "create, 64 connections";

const CP: &str = "cp and sync of a stopped folder";

const ALONE: &str = "no backup";
const BACKED_UP: &str = "during backups";

const MEMORY_PAUSE: Duration = Duration::from_millis(5);

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let plantd = &plantd(options)?;
    let material = options.temporary()?;
    let plants = options.plants(10_000_000);
    let file = material.path().join("plants.ndjson");
    write_file(&file, (1..=plants).map(scattered))?;
    let store = &material.path().join("store");
    fs::create_dir(store)?;
    transfer(plantd, store, "import", &file, plants)?;
    let backup = &material.path().join("plants.backup");
    serve(plantd, 1, store, |programs| {
        programs[0].rest()?;
        output(&mut client(plantd, "backup", backup, &programs[0]))
    })?;

    let back_up = |folder: &Path| {
        let file = folder.join("plants.backup");
        serve(plantd, 1, store, |programs| {
            let server = &programs[0];
            server.rest()?;
            let measurement = command(&mut client(plantd, "backup", &file, server), plants)?;
            Ok(Measurement { count: fs::metadata(&file)?.len(), ..measurement })
        })
    };
    let copy = |folder: &Path| {
        let start = Instant::now();
        copy_data(store, folder)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Measurement { count: disk_bytes(folder)?, seconds, ..Measurement::default() })
    };
    let verify = |_: &Path| {
        let mut verify = Command::new(&plantd.command[0]);
        command(verify.env_clear().arg("verify").arg(backup), plants)
    };
    let restore = |folder: &Path| {
        let mut restore = Command::new(&plantd.command[0]);
        restore.env_clear().arg("restore").arg(backup).arg("--data").arg(folder.join("data-0"));
        let measurement = command(&mut restore, plants)?;
        Ok(Measurement { count: disk_bytes(folder)?, ..measurement })
    };
    let steps = [
        Entry::new(BACKUP, PLANTD, back_up),
        Entry::new(BACKUP, CP, copy),
        Entry::new(VERIFY, PLANTD, verify),
        Entry::new(RESTORE, PLANTD, restore),
    ];
    let mut costs = Results::default();
    costs.measure(options, &steps)?;

    let load = Load { stored: plants, ..Load::new(Request::Create, options.duration) };
    let alone = Contender { name: ALONE, ..plantd.clone() };
    let during_backups = |folder: &Path| {
        copy_data(store, folder)?;
        serve(plantd, 1, folder, |programs| {
            let file = folder.join("plants.backup");
            let measurement = measure_during_backups(plantd, load, programs, &file)?;
            Ok(Measurement { memory_mb: Some(programs[0].memory_mb()?), ..measurement })
        })
    };
    let loads =
        [load.entry(CREATE, &alone, Some(store)), Entry::new(CREATE, BACKED_UP, during_backups)];
    let mut creates = Results::default();
    creates.measure(options, &loads)?;

    let restores = costs.values(RESTORE, PLANTD, |one| Some(one.seconds));
    let ratios = creates.ratios(CREATE, BACKED_UP, ALONE);
    let targets = vec![
        ("restore, s", AtMost(60.0, None), restores),
        ("creates, during backups/without", AtLeast(0.8, None), ratios),
    ];
    let rows = costs.0.iter().map(|series| row(&costs, series));
    let memory = |program| median(creates.values(CREATE, program, |one| one.memory_mb), 0);
    let text = format!(
        "{}. {} plants.\n\n{}\n\
         Medians of {} rounds.\n\n{}\n\
         Creates begin with a copy of the store. The most memory of the server was {} MB without a backup, and {} MB during backups.\n\n{}",
        machine()?,
        number(plants as f64, 0),
        claims(targets),
        options.rounds,
        table(&["step", "program", "seconds", "MB", "most memory, MB"], 2, rows.collect()),
        memory(ALONE),
        memory(BACKED_UP),
        measurements(options, &creates, &[ALONE]),
    );
    publish(options, "backup", &text)
}

/// The medians of a step that counts bytes. What was not measured stays empty.
fn row(results: &Results, Series { workload, program, .. }: &Series) -> Vec<String> {
    let measured = |value: f64| (value > 0.0).then_some(value);
    let value = |value: fn(&Measurement) -> Option<f64>, decimals| {
        let values = results.values(workload, program, |one| measured(value(one)?));
        median(values, decimals)
    };
    vec![
        (*workload).to_owned(),
        (*program).to_owned(),
        value(|one| Some(one.seconds), 2),
        value(|one| Some(one.count as f64 / 1_000_000.0), 0),
        value(|one| one.memory_mb, 0),
    ]
}

/// Measures a load while `plantd backup` runs over and over, from before the warm-up until after the last response.
fn measure_during_backups(
    plantd: &Contender,
    load: Load,
    programs: &[Program],
    file: &Path,
) -> anyhow::Result<Measurement> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let backing_up = scope.spawn(|| {
            let mut backups = 0;
            // A failed backup ends the loop, and fails the bench.
            while !is_over.load(Ordering::Relaxed) {
                output(&mut client(plantd, "backup", file, &programs[0]))?;
                backups += 1;
            }
            anyhow::Ok(backups)
        });
        let measurement = load.measure(programs);
        is_over.store(true, Ordering::Relaxed);
        let backups = backing_up.join().map_err(|_| anyhow!("a thread panicked"))??;
        ensure!(backups > 0, "no backup was made");
        measurement
    })
}

/// Runs a command of plantd to its end, which must print the number of plants. Measures its duration and its peak memory.
fn command(command: &mut Command, plants: u64) -> anyhow::Result<Measurement> {
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let mut memory = None;
    while child.try_wait()?.is_none() {
        // A process that has just ended has no memory.
        memory = memory_mb(child.id()).ok().or(memory);
        thread::sleep(MEMORY_PAUSE);
    }
    let seconds = start.elapsed().as_secs_f64();
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "{command:?} failed ({}):\n{said}", output.status);
    let named = format!("{} plant", number(plants as f64, 0));
    ensure!(said.contains(&named), "{command:?} did not say `{named}`, but:\n{said}");
    Ok(Measurement { count: 0, seconds, latency_ms: None, memory_mb: memory })
}
