//! `cargo xtask torture`: the long form of the tests of plantd's promises, and a table of their figures.

use std::fs;

use anyhow::Context as _;
use cargo_metadata::Metadata;

use crate::figures::{Figures, table};
use crate::{cargo, fuzz, tools};

/// The modules of the tests, and the fuzzer.
pub(crate) fn parts() -> Vec<&'static str> {
    let tests = include_str!("../../tests/tests/torture/main.rs").lines();
    let modules = tests.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    modules.chain([fuzz::NAME]).collect()
}

/// Runs these parts, or all of them if none is named, and prints a table of their figures.
pub(crate) fn run(named: &[String]) -> anyhow::Result<()> {
    let parts: Vec<&str> =
        if named.is_empty() { parts() } else { named.iter().map(String::as_str).collect() };
    let workspace = cargo::workspace()?;
    let modules: Vec<&str> = parts.iter().copied().filter(|part| *part != fuzz::NAME).collect();
    let (mut figures, mut outcome) = (Vec::new(), Ok(()));
    if !modules.is_empty() {
        (figures, outcome) = run_tests(&workspace, &modules)?;
    }
    if modules.len() < parts.len() {
        let fuzzed = fuzz::run(workspace.workspace_root.as_std_path());
        // The tests take long, so their figures are printed even if the fuzzer fails.
        outcome = outcome.and(fuzzed.and_then(|(of_fuzzer, outcome)| {
            figures.push(of_fuzzer);
            outcome
        }));
    }
    print!("{}", table(&figures));
    outcome
}

/// Runs the tests of modules one after the other on a release build. Their figures count even if one fails.
fn run_tests(
    workspace: &Metadata,
    modules: &[&str],
) -> anyhow::Result<(Vec<Figures>, anyhow::Result<()>)> {
    tools::ensure(&[tools::STRACE, tools::MOUNT, tools::UNSHARE, tools::POSTGRESQL])?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("figures");
    let words = ["test", "--release", "--package", "plantd-tests", "--test", "torture", "--"];
    let test = || cargo::command(&workspace.workspace_root);
    // Exact names, because the name of a module would also select the modules whose names contain it.
    let list = cargo::run_for_output(test().args(words).arg("--list"))?;
    let mut test = test();
    test.args(words).env("TORTURE_LONG", "1").env("TORTURE_FIGURES", &path);
    test.args(["--test-threads", "1", "--exact"]).args(tests_of(modules, &list));
    let outcome = cargo::run(&mut test);
    let lines = fs::read_to_string(&path).unwrap_or_default();
    let read = |line| serde_json::from_str(line).with_context(|| format!("no figures: {line}"));
    Ok((lines.lines().map(read).collect::<anyhow::Result<_>>()?, outcome))
}

/// The names of the tests of modules, in the list of the test program.
fn tests_of<'list>(modules: &[&str], list: &'list str) -> Vec<&'list str> {
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| modules.iter().any(|it| name.split("::").next() == Some(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_tests_of_one_module_and_not_of_modules_whose_names_contain_its_name() {
        assert!(parts().contains(&"kill") && parts().contains(&"fuzz"), "{:?}", parts());
        let list = "disks::faults::a: test\nfaults::b: test\nkill::d: test\n\n3 tests\n";
        assert_eq!(tests_of(&["faults", "kill"], list), ["faults::b", "kill::d"]);
    }
}
