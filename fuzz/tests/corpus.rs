//! No fuzz target panics on the corpus, or on random changes of it.
//!
//! `corpus` has a folder for each target. These random changes are the same in every run; `cargo xtask torture fuzz`
//! is the long form, guided by the code that an input reaches.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use plantd_fuzz::{FuzzTarget, targets};

/// How many random inputs each target gets.
const CHANGED_INPUTS: usize = 3_000;

const SEED: u64 = 7;

/// The most changes of one input.
const MAX_CHANGES: usize = 4;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.unwrap_or_else(|cause| panic!("{}: {cause}", folder.display()));
    let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The target's inputs, sorted by name.
fn inputs(target: FuzzTarget) -> Vec<(String, Vec<u8>)> {
    let folder = corpus().join(target.name);
    let read = |name: &String| fs::read(folder.join(name)).expect("an input can be read");
    names_in(&folder).into_iter().map(|name| (name.clone(), read(&name))).collect()
}

#[track_caller]
fn check(target: FuzzTarget, input: &[u8], origin: &str) {
    let checked = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    assert!(checked.is_ok(), "{} of {origin}: {}", target.name, input.escape_ascii());
}

/// The input with some bytes changed, removed, inserted, or taken from another input.
fn changed(input: &[u8], other: &[u8], chance: &mut Rng) -> Vec<u8> {
    const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\"\\,:{}[]*\r\n\t -0";
    let mut changed = input.to_vec();
    for _ in 0..chance.usize(1..=MAX_CHANGES) {
        let begin = chance.usize(..=changed.len());
        let end = chance.usize(begin..=changed.len().min(begin + 8));
        let put = match chance.u8(..5) {
            0 => Vec::new(),
            1 => vec![chance.u8(..)],
            2 => chance.choice(TELLING).copied().into_iter().collect(),
            3 => {
                let begin = chance.usize(..=other.len());
                other[begin..chance.usize(begin..=other.len())].to_vec()
            }
            _ => changed[begin..end].repeat(2),
        };
        changed.splice(begin..end, put);
    }
    changed
}

#[test]
fn no_target_panics_on_the_corpus() {
    for target in targets() {
        for (name, input) in inputs(target) {
            check(target, &input, &name);
        }
    }
}

#[test]
fn no_target_panics_on_random_changes_of_the_corpus() {
    for target in targets() {
        let mut chance = Rng::with_seed(SEED);
        let inputs = inputs(target);
        for _ in 0..CHANGED_INPUTS {
            let (name, input) = &inputs[chance.usize(..inputs.len())];
            let (_, other) = &inputs[chance.usize(..inputs.len())];
            check(target, &changed(input, other, &mut chance), name);
        }
    }
}

#[test]
fn every_folder_of_the_corpus_has_its_target() {
    let mut targets: Vec<String> = targets().map(|target| target.name.to_owned()).collect();
    targets.sort();
    assert_eq!(names_in(&corpus()), targets);
}
