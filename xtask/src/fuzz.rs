//! The fuzzer: inputs for everything that reads bytes from outside, led by what they reach in the code.
//!
//! The package `fuzz` is built with what the compiler has of it, so that neither a nightly toolchain nor
//! cargo-fuzz is needed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::torture::Figures;
use crate::{cargo, tools};

/// What `cargo xtask torture` calls all this.
pub(crate) const NAME: &str = "fuzz";

/// How many inputs each target gets at least.
const INPUTS: u64 = 100_000;

/// The longest input, in bytes. A body of an import that is longer than a row may be has a byte in its input
/// that stands for much text, so that it need not be long for that.
const MAX_INPUT_BYTES: usize = 4096;

/// An input that takes longer, in seconds, counts as a failure.
const INPUT_TIMEOUT_SECONDS: u64 = 10;

/// What stands before the number of inputs in the fuzzer's last words.
const INPUTS_STATISTIC: &str = "stat::number_of_executed_units:";

/// Runs the fuzzer on each target that has a folder in `fuzz/corpus`, with what is there to begin with.
/// An input that fails is put there too, where the tests find it until it is mended.
pub(crate) fn run(workspace_root: &Path) -> anyhow::Result<(Figures, anyhow::Result<()>)> {
    tools::ensure(&[tools::CXX])?;
    let package = workspace_root.join("fuzz");
    let cargo = || cargo::command(&package);
    cargo::run(cargo().args(["build", "--release"]))?;
    let mut inputs = Vec::new();
    let mut failed = Vec::new();
    let targets = targets(&package.join("corpus"))?;
    for target in &targets {
        // What it finds on its way stays out of the tree.
        let found = workspace_root.join("target/fuzz/corpus").join(target);
        fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let mut fuzzer = cargo();
        fuzzer.env("FUZZ_TARGET", target).args(["run", "--quiet", "--release", "--"]);
        fuzzer.args(["-verbosity=0", "-print_final_stats=1"]);
        fuzzer.arg(format!("-runs={INPUTS}")).arg(format!("-max_len={MAX_INPUT_BYTES}"));
        fuzzer.arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"));
        fuzzer.arg(format!("-artifact_prefix=corpus/{target}/"));
        fuzzer.arg(found).arg(format!("corpus/{target}"));
        let (outcome, words) = cargo::run_listening(&mut fuzzer)?;
        inputs.push(inputs_in(&words).with_context(|| {
            format!("the fuzzer does not say how many inputs it gave to {target}: {words}")
        })?);
        if outcome.is_err() {
            eprint!("{words}");
            failed.push(target.as_str());
        }
    }
    let figures = Figures {
        test: NAME.to_owned(),
        promise: "No bytes from outside make a parser panic".to_owned(),
        disturbances: format!(
            "{} inputs, at least {} for each of {} targets",
            inputs.iter().sum::<u64>(),
            inputs.iter().min().unwrap_or(&0),
            targets.len()
        ),
        losses: format!("{} of {} targets failed", failed.len(), targets.len()),
        details: "an input fails if it panics, takes too long or takes too much memory".to_owned(),
    };
    let outcome = match &failed[..] {
        [] => Ok(()),
        failed => Err(anyhow!("inputs that fail are now in fuzz/corpus: {}", failed.join(", "))),
    };
    Ok((figures, outcome))
}

/// The names of the targets, in order.
fn targets(corpus: &Path) -> anyhow::Result<Vec<String>> {
    let folders = fs::read_dir(corpus).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let folders = folders.with_context(|| format!("cannot list {}", corpus.display()))?;
    let names = folders.iter().map(|folder| folder.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// How many inputs the fuzzer says that it has tried.
fn inputs_in(words: &str) -> Option<u64> {
    let statistic = words.lines().find_map(|line| line.strip_prefix(INPUTS_STATISTIC));
    statistic.and_then(|number| number.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_inputs_is_what_the_fuzzer_says() {
        let words = "Done\nstat::number_of_executed_units: 100000\nstat::new_units_added: 7\n";
        assert_eq!(inputs_in(words), Some(100_000));
        assert_eq!(inputs_in("ERROR: no interesting inputs were found"), None);
    }
}
