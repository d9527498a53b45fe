//! Runs libFuzzer on every parser of untrusted input.
//!
//! The package `fuzz` is instrumented by the stable compiler, so neither a nightly toolchain nor cargo-fuzz is needed.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, anyhow};

use crate::figures::Figures;
use crate::{cargo, tools};

/// The part of `cargo xtask torture` that runs the fuzzer.
pub(crate) const NAME: &str = "fuzz";

const INPUTS_FOR_EACH_TARGET: u64 = 100_000;

/// The longest input, in bytes. Longer inputs would find nothing more: in the targets for rows, one byte expands to
/// much text.
const INPUT_MAX_BYTES: usize = 4096;

/// An input that takes longer is a failure.
const INPUT_TIMEOUT_SECONDS: u64 = 10;

const BUILD: [&str; 4] = ["--profile", "fuzz", "--features", "libfuzzer"];

/// Fuzzes each target that has a folder in `fuzz/corpus`, starting from the inputs there. A failing input is stored
/// there too, so that the tests fail until the fault is fixed.
pub(crate) fn run(workspace_root: &Path) -> anyhow::Result<(Figures, anyhow::Result<()>)> {
    tools::ensure(&[tools::CXX])?;
    let package = workspace_root.join("fuzz");
    cargo::run(cargo::command(&package).arg("build").args(BUILD))?;
    let (mut inputs, mut failed) = (Vec::new(), Vec::new());
    let targets = targets(&package.join("corpus"))?;
    for target in &targets {
        // New inputs stay out of the repository.
        let found = workspace_root.join("target/fuzz/corpus").join(target);
        fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let mut fuzzer = cargo::command(&package);
        fuzzer.env("FUZZ_TARGET", target).args(["run", "--quiet"]).args(BUILD).arg("--");
        fuzzer.args(["-verbosity=0", "-print_final_stats=1"]);
        fuzzer.arg(format!("-runs={INPUTS_FOR_EACH_TARGET}"));
        fuzzer.arg(format!("-max_len={INPUT_MAX_BYTES}"));
        fuzzer.arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"));
        fuzzer.arg(format!("-artifact_prefix=corpus/{target}/"));
        fuzzer.arg(found).arg(format!("corpus/{target}"));
        eprintln!("+ fuzzing {target}");
        let output = fuzzer.stdout(Stdio::null()).output().context("cannot start the fuzzer")?;
        let log = String::from_utf8_lossy(&output.stderr);
        inputs.push(inputs_in(&log).with_context(|| {
            format!("libFuzzer printed no number of inputs for {target}:\n{log}")
        })?);
        if !output.status.success() {
            eprint!("{log}");
            failed.push(target.as_str());
        }
    }
    let figures = Figures {
        test: NAME.to_owned(),
        promise: "No bytes from outside make a parser panic".to_owned(),
        disturbances: format!(
            "{} inputs, at least {} for each of {} parsers",
            inputs.iter().sum::<u64>(),
            inputs.iter().min().unwrap_or(&0),
            targets.len()
        ),
        losses: format!("{} of {} parsers failed", failed.len(), targets.len()),
        details: "a failure is a panic, a time-out or too much memory".to_owned(),
    };
    let outcome = match &failed[..] {
        [] => Ok(()),
        failed => Err(anyhow!("failing inputs are now in fuzz/corpus: {}", failed.join(", "))),
    };
    Ok((figures, outcome))
}

fn targets(corpus: &Path) -> anyhow::Result<Vec<String>> {
    let folders = fs::read_dir(corpus).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let folders = folders.with_context(|| format!("cannot list {}", corpus.display()))?;
    let names = folders.iter().map(|folder| folder.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// The number of inputs in the final statistics of libFuzzer.
fn inputs_in(log: &str) -> Option<u64> {
    let statistic =
        log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    statistic.and_then(|number| number.trim().parse().ok())
}
