//! Imports and exports by plantd's own commands, and the bare loop on sled that imports are compared with.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use cargo_metadata::Metadata;
use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::program::Program;
use crate::cargo;

/// What was exported, in the folder of the server.
pub(super) const EXPORTED: &str = "exported.ndjson";

/// How long many plants took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) plants: u64,
    pub(super) duration_us: u64,
}

impl Transfer {
    pub(super) fn plants_per_s(&self) -> f64 {
        self.plants as f64 / (self.duration_us as f64 / 1_000_000.0)
    }
}

/// What came in and went out again.
#[derive(Debug)]
pub(super) struct ThereAndBack {
    pub(super) import: Transfer,
    pub(super) export: Transfer,
}

/// Runs `plantd import` and `plantd export` against a new server, as a user does.
pub(super) fn there_and_back(
    plantd: &Contender,
    plants_path: &Path,
    plants: u64,
    folder: &Path,
    token: &str,
) -> anyhow::Result<ThereAndBack> {
    let exported_path = folder.join(EXPORTED);
    Program::start(plantd, folder, token)?.run(|program| {
        let address = program.address();
        let import = timed(plantd, "import", address, plants_path, plants, token)?;
        let export = timed(plantd, "export", address, &exported_path, plants, token)?;
        let exported = count_lines(&exported_path)?;
        ensure!(exported == plants, "{plants} plants were imported, and {exported} exported");
        Ok(ThereAndBack { import, export })
    })
}

/// Runs `plantd import` or `plantd export` of so many plants against a running server.
pub(super) fn timed(
    plantd: &Contender,
    command: &str,
    address: SocketAddr,
    file: &Path,
    plants: u64,
    token: &str,
) -> anyhow::Result<Transfer> {
    let mut client = Command::new(&plantd.executable);
    client.args([command, "--url", &format!("http://{address}")]).arg(file);
    client.env_clear().env("PLANTD_TOKEN", token);
    let start = Instant::now();
    run_for_output(&mut client)?;
    let duration_us = u64::try_from(start.elapsed().as_micros())?;
    Ok(Transfer { plants, duration_us })
}

/// Builds the program that puts plants into sled, in plantd's layout, by a bare loop.
pub(super) fn build_bare_sled(workspace: &Metadata) -> anyhow::Result<PathBuf> {
    let mut build = cargo::command(&workspace.workspace_root);
    build.args([
        "build",
        "--release",
        "--package",
        "plant-store",
        "--features",
        "benches",
        "--example",
        "bare_sled",
    ]);
    cargo::run(&mut build)
        .context("the bare loop on sled, which imports are compared with, cannot be built")?;
    Ok(workspace.target_directory.join("release/examples/bare_sled").into_std_path_buf())
}

/// Runs it on a new folder inside `folder`. Its own text says which ways there are.
pub(super) fn run_bare_sled(
    executable: &Path,
    way: &str,
    plants: u64,
    folder: &Path,
) -> anyhow::Result<Transfer> {
    let mut command = Command::new(executable);
    command.args([way, &plants.to_string()]).arg(folder.join("bare-sled"));
    let stdout = run_for_output(&mut command)?;
    let transfer: Transfer = serde_json::from_str(stdout.trim())
        .with_context(|| format!("{} printed no result but `{stdout}`", executable.display()))?;
    if transfer.plants != plants || transfer.duration_us == 0 {
        bail!("{plants} plants were asked for, and not {transfer:?}");
    }
    Ok(transfer)
}

/// Runs a program to its end, and returns what it printed.
pub(super) fn run_for_output(command: &mut Command) -> anyhow::Result<String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}):\n{stdout}{stderr}", output.status);
    }
    Ok(stdout.into_owned())
}

fn count_lines(path: &Path) -> anyhow::Result<u64> {
    let context = || format!("cannot read {}", path.display());
    let mut count = 0;
    for line in BufReader::new(File::open(path).with_context(context)?).lines() {
        line.with_context(context)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_plants_by_seconds() {
        assert_eq!(Transfer { plants: 500, duration_us: 250_000 }.plants_per_s(), 2_000.0);
    }

    #[test]
    fn what_a_program_that_fails_has_said_is_in_the_error() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo wilted >&2; exit 3"]);
        let error = run_for_output(&mut command).unwrap_err().to_string();
        assert!(error.contains("wilted") && error.contains('3'), "{error}");
    }

    #[test]
    fn every_line_of_a_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "1\n2\n3\n").unwrap();
        assert_eq!(count_lines(&path).unwrap(), 3);
    }
}
