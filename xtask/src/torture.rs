//! `cargo xtask torture`: the long form of the tests of what the product promises, and their figures.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use serde::Deserialize;

use crate::usage::UsageError;
use crate::{cargo, fuzz, tools};

/// The modules of the tests: the words for a part of them.
const MODULES: [&str; 10] =
    ["damage", "disks", "drain", "faults", "kill", "load", "power", "races", "replicas", "start"];

const USAGE: &str = "\
usage: cargo xtask torture [part]...

the parts are damage, disks, drain, faults, kill, load, power, races, replicas, start and fuzz; without one, all of
them
";

/// What one test did, and what came out; a line of the file that the tests write.
#[derive(Debug, Deserialize)]
pub(crate) struct Figures {
    pub(crate) test: String,
    pub(crate) promise: String,
    pub(crate) disturbances: String,
    pub(crate) losses: String,
    pub(crate) details: String,
}

/// Runs the parts that the arguments name, or all of them, and prints a table of their figures.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let parts = parts(arguments)?;
    let workspace = cargo::workspace()?;
    let (fuzzer, modules): (Vec<&str>, Vec<&str>) =
        parts.into_iter().partition(|part| *part == fuzz::NAME);
    let (mut all_figures, mut outcomes) = (Vec::new(), Vec::new());
    if !modules.is_empty() {
        let (figures, outcome) = run_tests(&workspace, &modules)?;
        all_figures.extend(figures);
        outcomes.push(outcome);
    }
    if !fuzzer.is_empty() {
        // The figures of the tests have taken long, and are printed also where it fails.
        match fuzz::run(workspace.workspace_root.as_std_path()) {
            Ok((figures, outcome)) => {
                all_figures.push(figures);
                outcomes.push(outcome);
            }
            Err(error) => outcomes.push(Err(error)),
        }
    }
    print!("{}", table(&all_figures)?);
    outcomes.into_iter().collect()
}

fn parts(arguments: &[String]) -> Result<Vec<&str>, UsageError> {
    let all = || MODULES.into_iter().chain([fuzz::NAME]);
    if arguments.is_empty() {
        return Ok(all().collect());
    }
    if let Some(unknown) = arguments.iter().find(|argument| !all().any(|part| part == *argument)) {
        return Err(UsageError::new(format!("there is no part `{unknown}`"), USAGE));
    }
    Ok(arguments.iter().map(String::as_str).collect())
}

/// Runs the tests of modules one after the other, on the server as it is released. What they did counts
/// also when one of them fails.
fn run_tests(
    workspace: &Metadata,
    modules: &[&str],
) -> anyhow::Result<(Vec<Figures>, anyhow::Result<()>)> {
    tools::ensure(&[tools::STRACE, tools::MOUNT, tools::UNSHARE, tools::POSTGRESQL])?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("figures");
    let test_command = || {
        let mut test = cargo::command(&workspace.workspace_root);
        test.args(["test", "--release", "--package", "plantd-tests", "--test", "torture", "--"]);
        test
    };
    let list = cargo::run_for_output(test_command().arg("--list"))?;
    let mut test = test_command();
    test.env("TORTURE_LONG", "1").env("TORTURE_FIGURES", &path);
    // Without `--exact` a name also stands for those that have it somewhere inside.
    test.args(["--test-threads", "1", "--exact"]).args(tests_of(modules, &list));
    let outcome = cargo::run(&mut test);
    Ok((read_figures(&fs::read_to_string(&path).unwrap_or_default())?, outcome))
}

/// The names of the tests of modules, in what the test program lists.
fn tests_of<'list>(modules: &[&str], list: &'list str) -> Vec<&'list str> {
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let is_asked_for =
        |name: &&str| name.split_once("::").is_some_and(|(module, _)| modules.contains(&module));
    names.filter(is_asked_for).collect()
}

fn read_figures(lines: &str) -> anyhow::Result<Vec<Figures>> {
    let read = |line| serde_json::from_str(line).with_context(|| format!("no figures: {line}"));
    lines.lines().map(read).collect()
}

/// The figures as a table in Markdown.
fn table(all_figures: &[Figures]) -> anyhow::Result<String> {
    let mut table =
        String::from("| promise | what was done, and what came out | command |\n|---|---|---|\n");
    for Figures { test, promise, disturbances, losses, details: figures } in all_figures {
        writeln!(
            table,
            "| {promise} | {disturbances} {losses} {figures} | `cargo xtask torture {test}` |"
        )?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_parts_are_the_modules_of_the_tests_and_the_fuzzer() {
        let tests = include_str!("../../tests/tests/torture/main.rs");
        let module = |line: &'static str| line.strip_prefix("mod ")?.strip_suffix(';');
        let modules: Vec<&str> = tests.lines().filter_map(module).collect();
        assert_eq!(modules, MODULES);
        let all = parts(&[]).unwrap();
        assert_eq!(all, [&modules[..], &[fuzz::NAME]].concat());
        for part in all {
            assert!(USAGE.contains(part), "{part}");
        }
    }

    #[test]
    fn a_word_that_is_no_part_is_a_usage_error_that_lists_the_parts() {
        let error = parts(&arguments(&["kill", "kil"])).unwrap_err().to_string();
        assert!(error.contains("`kil`") && error.contains("races"), "{error}");
        assert_eq!(parts(&arguments(&["fuzz", "kill"])).unwrap(), ["fuzz", "kill"]);
    }

    #[test]
    fn a_part_is_its_module_and_no_test_that_has_its_name_inside() {
        let list = "disks::faults::a: test\nfaults::b: test\nstart::a_kill::c: test\n\
                    kill::d: test\n\n4 tests, 0 benchmarks\n";
        assert_eq!(tests_of(&["faults"], list), ["faults::b"]);
        assert_eq!(tests_of(&["disks", "kill"], list), ["disks::faults::a", "kill::d"]);
    }

    #[test]
    fn figures_become_a_row_with_the_command_that_makes_them_again() {
        let line = r#"{"test":"kill","promise":"nothing is lost","figures":"10 kills, 0 lost"}"#;
        let table = table(&read_figures(line).unwrap()).unwrap();
        let row = "| nothing is lost | 10 kills, 0 lost | `cargo xtask torture kill` |";
        assert_eq!(table.lines().last(), Some(row));
    }
}
