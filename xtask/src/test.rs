//! `cargo xtask test`: every test, on a fresh machine too.

use std::env;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use cargo_metadata::{Message, Metadata};
use test_postgres::{Cluster, SHARED_URL};

use crate::{cargo, deb, packages, tools};

/// The features that the tests need besides the default ones. None changes the program that they run: tests with
/// fault points build a program of their own.
const FEATURES: [&str; 3] =
    ["--workspace", "--features", "plant-store/conformance,plant-http/__internal"];

/// The environment variable that tells the black-box tests which store their servers use.
const STORE: &str = "PLANTD_TESTS_STORE";

/// The end of the name of a test program that runs on PostgreSQL.
const ON_POSTGRES: &str = " on PostgreSQL";

/// The environment variable with the file to which each skipped test adds a line with the reason.
const SKIPPED: &str = "PLANTD_TESTS_SKIPPED";

/// The environment variable that allows tests to be skipped.
const MAY_SKIP: &str = "PLANTD_TESTS_MAY_SKIP";

/// How many test programs run at a time, and how many tests in each. Most tests wait for a disk or a deadline.
const PROGRAMS_AT_A_TIME: usize = 2;
const TESTS_AT_A_TIME: &str = "4";

/// The programs that take longest. They start first.
const SLOWEST: [&str; 6] = ["torture", "access", "pages", "postgres", "sockets", "packages"];

/// The black-box tests that apply to every store: they run on a data folder and on PostgreSQL.
const TESTS_OF_ANY_STORE: [&str; 8] = [
    "audit",
    "events",
    "monitoring",
    "openapi",
    "plants",
    "route_walk",
    "transfer_commands",
    "webhooks",
];

/// The test programs that a quick run leaves out, besides those on PostgreSQL.
const NOT_QUICK: [&str; 4] = ["cluster", "packages", "pages", "postgres"];

/// The tests that a quick run leaves out of the other programs, by a part of their names: they need PostgreSQL.
const NOT_QUICK_TESTS: [&str; 2] = ["postgres", "replicas"];

/// Installs what the tests need, builds the program, and runs the tests. With arguments, runs `cargo test` once with
/// them instead.
pub(crate) fn run(quick: bool, arguments: &[String]) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    // The packages are downloaded while cargo keeps the cores busy.
    let messages = thread::scope(|scope| {
        let packages = scope.spawn(|| install(&workspace));
        let messages = build(&workspace, arguments.is_empty())?;
        packages.join().expect("the installation does not panic")?;
        anyhow::Ok(messages)
    })?;
    // One cluster serves all tests, each with its own schema.
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let skipped = folder.path().join("skipped");
    let mut cargo = cargo::command(&workspace.workspace_root);
    cargo.arg("test").args(FEATURES).env(SHARED_URL, cluster.url()).env(SKIPPED, &skipped);
    let outcome = if arguments.is_empty() {
        let mut programs = test_programs(&messages, &cluster.url(), &skipped)?;
        if quick {
            programs.retain(|(name, _)| {
                !name.ends_with(ON_POSTGRES) && !NOT_QUICK.contains(&name.as_str())
            });
            for (_, program) in &mut programs {
                program.args(NOT_QUICK_TESTS.iter().flat_map(|name| ["--skip", name]));
            }
        } else {
            cargo::run(cargo.arg("--doc"))?;
        }
        run_programs(programs)
    } else {
        cargo::run(cargo.args(arguments))
    };
    let lines = fs::read_to_string(skipped).unwrap_or_default();
    outcome.and(judge_skipped(&lines, env::var_os(MAY_SKIP).is_some()))
}

/// Prints the skipped tests, one per line. An error if there are any, unless they may be skipped.
fn judge_skipped(lines: &str, may_skip: bool) -> anyhow::Result<()> {
    let count = lines.lines().count();
    println!("{count} tests were skipped\n{lines}");
    let is_good = count == 0 || may_skip;
    ensure!(
        is_good,
        "{count} tests were skipped, as listed above: run them as root, or set {MAY_SKIP}=1"
    );
    Ok(())
}

fn install(workspace: &Metadata) -> anyhow::Result<()> {
    tools::ensure(&tools::OF_TESTS)?;
    packages::PYTHON.ensure(workspace)?;
    packages::NODE.ensure(workspace)?;
    deb::install(workspace)?;
    // Only root can make and boot a Debian system.
    if rustix::process::geteuid().is_root() {
        packages::DEBIAN.ensure(workspace)?;
    }
    Ok(())
}

/// Builds `plantd`, which the black-box tests run, and the test programs if asked to. Returns what cargo says about
/// those.
fn build(workspace: &Metadata, with_tests: bool) -> anyhow::Result<String> {
    let cargo = || cargo::command(&workspace.workspace_root);
    cargo::run(cargo().arg("build").args(FEATURES).args(["--bin", "plantd"]))?;
    if !with_tests {
        return Ok(String::new());
    }
    let json = ["--no-run", "--message-format", "json-render-diagnostics"];
    let messages = cargo::run_for_output(cargo().arg("test").args(FEATURES).args(json))?;
    // The build of `tests/src/launch.rs`, made before tests with a deadline wait for it.
    let with_fault_points = format!("{},plantd/__fault-points", FEATURES[2]);
    let mut fault_points = cargo();
    fault_points.args(["build", "--workspace", "--features", &with_fault_points]);
    fault_points.args(["--bin", "plantd", "--target-dir", "target/fault-points"]);
    cargo::run(fault_points.env("CARGO_BUILD_BUILD_DIR", &workspace.target_directory))?;
    Ok(messages)
}

/// The test programs by their names, in the order in which they start. Those for any store run on each.
fn test_programs(
    messages: &str,
    postgres_url: &str,
    skipped: &Path,
) -> anyhow::Result<Vec<(String, Command)>> {
    let mut programs = Vec::new();
    for message in Message::parse_stream(Cursor::new(messages)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let (Some(path), true) = (artifact.executable, artifact.profile.test) else { continue };
        // The folder of its package, in which cargo would run it too.
        let folder = artifact.manifest_path.parent().context("a manifest is in a folder")?;
        let name = artifact.target.name;
        let command = || {
            let mut command = Command::new(&path);
            command.current_dir(folder).stdin(Stdio::null()).env(SHARED_URL, postgres_url);
            command.env("RUST_TEST_THREADS", TESTS_AT_A_TIME).env(SKIPPED, skipped);
            command
        };
        if TESTS_OF_ANY_STORE.contains(&name.as_str()) {
            let mut on_postgres = command();
            on_postgres.env(STORE, "postgres");
            programs.push((format!("{name}{ON_POSTGRES}"), on_postgres));
        }
        programs.push((name, command()));
    }
    let have = |name: &str| programs.iter().any(|(it, _)| it == name);
    let missing = TESTS_OF_ANY_STORE.iter().find(|name| !have(name));
    ensure!(missing.is_none(), "there is no test program {}", missing.unwrap_or(&""));
    programs
        .sort_by_key(|(name, _)| (!SLOWEST.contains(&name.as_str()), name.ends_with(ON_POSTGRES)));
    Ok(programs)
}

/// Runs all programs; an error that names the ones that failed.
fn run_programs(programs: Vec<(String, Command)>) -> anyhow::Result<()> {
    let waiting = Mutex::new(programs.into_iter());
    let next = || waiting.lock().expect("no thread panics here").next();
    let worker = || {
        let mut failed = Vec::new();
        while let Some((name, mut program)) = next() {
            failed.extend(run_program(&name, &mut program).err().map(|why| format!("{why:#}")));
        }
        failed
    };
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..PROGRAMS_AT_A_TIME).map(|_| scope.spawn(worker)).collect();
        let join = |worker: ScopedJoinHandle<'_, _>| worker.join().expect("a worker never panics");
        workers.into_iter().map(join).collect::<Vec<Vec<String>>>().concat()
    });
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// Runs a program, and prints its output and how long it took at the end.
fn run_program(name: &str, program: &mut Command) -> anyhow::Result<()> {
    let begun = Instant::now();
    let output = program.output().with_context(|| format!("cannot run {name}"))?;
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    println!("+ {name}, {} s\n{stdout}{stderr}", begun.elapsed().as_secs());
    ensure!(output.status.success(), "{name} failed ({})", output.status);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_a_failure_unless_they_may_be_skipped() {
        let lines = "image::a: only root can do this\nimage::b: only root can do that\n";
        let failure = judge_skipped(lines, false).expect_err("two are skipped").to_string();
        assert!(failure.starts_with("2 tests were skipped"), "{failure}");
        judge_skipped(lines, true).expect("tests may be skipped");
        judge_skipped("", false).expect("none is skipped");
    }
}
