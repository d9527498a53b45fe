//! `cargo xtask torture`: the long form of the tests of what the product promises, and their figures.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;
use serde::Deserialize;

use crate::{cargo, tools};

/// What one test did, and what came out; a line of the file that the tests write.
#[derive(Debug, Deserialize)]
struct Figures {
    test: String,
    promise: String,
    figures: String,
}

/// Runs the tests whose names hold one of `filters`, or all of them, one after the other and on the
/// server as it is released, and prints a table of their figures.
pub(crate) fn run(filters: &[String]) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    tools::ensure(&[tools::STRACE])?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("figures");
    let mut test = cargo::command(&workspace.workspace_root);
    test.env("TORTURE_LONG", "1").env("TORTURE_FIGURES", &path);
    test.args(["test", "--release", "--package", "plantd-tests", "--test", "torture"]);
    test.args(["--", "--test-threads", "1"]).args(filters);
    let outcome = cargo::run(&mut test);
    let lines = fs::read_to_string(&path).unwrap_or_default();
    print!("{}", table(&lines)?);
    outcome
}

/// The figures as a table in Markdown.
fn table(lines: &str) -> anyhow::Result<String> {
    let mut table =
        String::from("| promise | what was done, and what came out | command |\n|---|---|---|\n");
    for line in lines.lines() {
        let Figures { test, promise, figures } =
            serde_json::from_str(line).with_context(|| format!("no figures: {line}"))?;
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
        let table = table(line).unwrap();
        let row = "| nothing is lost | 10 kills, 0 lost | `cargo xtask torture kill` |";
        assert_eq!(table.lines().last(), Some(row));
    }
}
