//! `cargo xtask test`: everything that proves the product, from a fresh machine on.

use std::io::Cursor;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, ensure};
use cargo_metadata::camino::Utf8PathBuf;
use cargo_metadata::{Artifact, Message};
use test_postgres::{Cluster, SHARED_URL};

use crate::deny::CargoDeny;
use crate::{cargo, packages, tools};

/// What tests need beside what a user gets by default. Not among them is what would change the program
/// that they run: fault points are in a program of their own, which the tests build that need it.
const FEATURES: &str = "plant-store/conformance,plant-http/__internal";

/// The variable in the environment that says where the plants are of the servers in the black-box tests.
const STORE: &str = "PLANTD_TESTS_STORE";

/// How many test programs run at a time. Each runs as many tests at a time as there are cores, and most of them wait for
/// the disk or for a deadline.
const PROGRAMS_AT_A_TIME: usize = 2;

/// The programs that take longest. They begin first, so that the others run beside them.
const SLOWEST: [&str; 4] = ["torture", "access", "postgres", "sockets"];

/// The black-box tests of what a store does, whichever it is. Those that are not among them look at the
/// folder of a server, or at what has nothing to do with its plants.
const TESTS_OF_ANY_STORE: [&str; 5] =
    ["audit", "import_export_command", "openapi", "plants", "route_walk"];

/// Brings the tools that tests need, builds the server and runs all tests; those of what a store does a
/// second time, with PostgreSQL as the store.
///
/// With `arguments`, it runs `cargo test` with them, once.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    tools::ensure(&[
        tools::STRACE,
        tools::CURL,
        tools::OPENSSL,
        tools::MOUNT,
        tools::UNSHARE,
        tools::POSTGRESQL,
        tools::NGINX,
        tools::PYTHON,
        tools::NODE,
        tools::NPM,
        tools::CHROMIUM,
    ])?;
    packages::PYTHON.ensure(&workspace)?;
    packages::NODE.ensure(&workspace)?;
    // xtask's own tests run it.
    CargoDeny::ensure(&workspace)?;
    // The black-box tests run the program itself, and `cargo test` of another package
    // does not build it.
    cargo::run(cargo::command(&workspace.workspace_root).args([
        "build",
        "--workspace",
        "--features",
        FEATURES,
        "--bin",
        "plantd",
    ]))?;
    // One for all, in which each test has a schema of its own.
    let cluster = Cluster::start();
    let root = &workspace.workspace_root;
    let test = || {
        let mut test = cargo::command(root);
        test.args(["test", "--workspace", "--features", FEATURES]).env(SHARED_URL, cluster.url());
        test
    };
    if !arguments.is_empty() {
        return cargo::run(test().args(arguments));
    }
    let messages = cargo::run_for_output(test().args([
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]))?;
    cargo::run(test().arg("--doc"))?;
    run_programs(test_programs(&messages)?, &cluster.url())
}

/// A program that has the tests of one target.
#[derive(Clone)]
struct TestProgram {
    name: String,
    path: Utf8PathBuf,
    /// The folder of its package, in which cargo too would run it.
    folder: Utf8PathBuf,
    /// The store of the servers that it starts, unless that is the default one.
    store: Option<&'static str>,
}

/// The test programs among the messages of cargo, in the order in which they begin.
fn test_programs(messages: &str) -> anyhow::Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    for message in Message::parse_stream(Cursor::new(messages)) {
        if let Message::CompilerArtifact(Artifact {
            target,
            executable: Some(path),
            manifest_path,
            profile,
            ..
        }) = message?
            && profile.test
        {
            let folder = manifest_path.parent().context("a manifest is in a folder")?.to_owned();
            programs.push(TestProgram { name: target.name, path, folder, store: None });
        }
    }
    let of_any_store = programs.iter().filter(|program| {
        program.folder.ends_with("tests") && TESTS_OF_ANY_STORE.contains(&program.name.as_str())
    });
    let with_postgres =
        of_any_store.map(|program| TestProgram { store: Some("postgres"), ..program.clone() });
    let with_postgres: Vec<TestProgram> = with_postgres.collect();
    ensure!(
        with_postgres.len() == TESTS_OF_ANY_STORE.len(),
        "of the tests of any store in xtask/src/test.rs, some are not there"
    );
    programs.extend(with_postgres);
    programs
        .sort_by_key(|program| (!SLOWEST.contains(&program.name.as_str()), program.path.clone()));
    Ok(programs)
}

/// Runs all of them, and fails when one has failed.
fn run_programs(programs: Vec<TestProgram>, postgres_url: &str) -> anyhow::Result<()> {
    let (waiting, failed) = (Mutex::new(programs.into_iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..PROGRAMS_AT_A_TIME {
            scope.spawn(|| {
                while let Some(program) = next() {
                    if let Err(error) = program.run(postgres_url) {
                        eprintln!("{error:#}");
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(program.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failed.is_empty(), "tests failed in {}", failed.join(", "));
    Ok(())
}

impl TestProgram {
    /// Runs it, and prints what it said when it has ended.
    fn run(&self, postgres_url: &str) -> anyhow::Result<()> {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).stdin(Stdio::null()).env(SHARED_URL, postgres_url);
        if let Some(store) = self.store {
            command.env(STORE, store);
        }
        let output = command.output().with_context(|| format!("cannot run {}", self.path))?;
        let store = self.store.map(|store| format!(" with {store}")).unwrap_or_default();
        println!(
            "+ {}{store}\n{}{}",
            self.name,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        ensure!(output.status.success(), "{}{store} failed ({})", self.name, output.status);
        Ok(())
    }
}
