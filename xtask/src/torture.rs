//! `cargo xtask torture`: the long form of the tests of what the product promises, and their figures.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use serde::Deserialize;

use crate::{cargo, fuzz, tools};

/// What one test did, and what came out; a line of the file that the tests write.
#[derive(Debug, Deserialize)]
pub(crate) struct Figures {
    pub(crate) test: String,
    pub(crate) promise: String,
    pub(crate) figures: String,
}

/// Runs the tests whose names hold one of `filters`, and the fuzzer where one is its name, or all of
/// them, and prints a table of their figures.
pub(crate) fn run(filters: &[String]) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    let (fuzzer, tests): (Vec<&String>, Vec<&String>) =
        filters.iter().partition(|filter| *filter == fuzz::NAME);
    let (mut all_figures, mut outcomes) = (Vec::new(), Vec::new());
    if filters.is_empty() || !tests.is_empty() {
        let (figures, outcome) = run_tests(&workspace, &tests)?;
        all_figures.extend(figures);
        outcomes.push(outcome);
    }
    if filters.is_empty() || !fuzzer.is_empty() {
        let (figures, outcome) = fuzz::run(workspace.workspace_root.as_std_path())?;
        all_figures.push(figures);
        outcomes.push(outcome);
    }
    print!("{}", table(&all_figures)?);
    outcomes.into_iter().collect()
}

/// Runs tests one after the other, on the server as it is released. What they did counts also when one
/// of them fails.
fn run_tests(
    workspace: &Metadata,
    filters: &[&String],
) -> anyhow::Result<(Vec<Figures>, anyhow::Result<()>)> {
    tools::ensure(&[tools::STRACE, tools::MOUNT, tools::UNSHARE])?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("figures");
    let mut test = cargo::command(&workspace.workspace_root);
    test.env("TORTURE_LONG", "1").env("TORTURE_FIGURES", &path);
    test.args(["test", "--release", "--package", "plantd-tests", "--test", "torture"]);
    test.args(["--", "--test-threads", "1"]).args(filters);
    let outcome = cargo::run(&mut test);
    Ok((read_figures(&fs::read_to_string(&path).unwrap_or_default())?, outcome))
}

fn read_figures(lines: &str) -> anyhow::Result<Vec<Figures>> {
    let read = |line| serde_json::from_str(line).with_context(|| format!("no figures: {line}"));
    lines.lines().map(read).collect()
}

/// The figures as a table in Markdown.
fn table(all_figures: &[Figures]) -> anyhow::Result<String> {
    let mut table =
        String::from("| promise | what was done, and what came out | command |\n|---|---|---|\n");
    for Figures { test, promise, figures } in all_figures {
        writeln!(table, "| {promise} | {figures} | `cargo xtask torture {test}` |")?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_a_row_with_the_command_that_makes_them_again() {
        let line = r#"{"test":"kill","promise":"nothing is lost","figures":"10 kills, 0 lost"}"#;
        let table = table(&read_figures(line).unwrap()).unwrap();
        let row = "| nothing is lost | 10 kills, 0 lost | `cargo xtask torture kill` |";
        assert_eq!(table.lines().last(), Some(row));
    }
}
