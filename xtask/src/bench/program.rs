//! The programs that are measured: built or installed, started, and stopped.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use cargo_metadata::Metadata;
use rustix::process::{Pid, Signal, kill_process};

use super::measure::Figures;
use crate::{cargo, packages, tools};

pub(super) const PLANTD: &str = "plantd";
pub(super) const CEILING: &str = "ceiling";
pub(super) const FASTIFY: &str = "Fastify + better-sqlite3";

/// The servers run for the bench alone, on addresses that no other machine reaches.
pub(super) const TOKEN: &str = "token-of-the-bench";

/// A server that takes `--listen` and `--data`, and its token from `PLANTD_TOKEN`, as plantd does. When it is ready,
/// it prints `NAME listening on http://ADDRESS:PORT`.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    /// As tables show it.
    pub(super) name: &'static str,
    pub(super) executable: PathBuf,
    /// What precedes those options.
    pub(super) arguments: Vec<String>,
}

/// plantd as users get it.
pub(super) fn plantd(workspace: &Metadata) -> anyhow::Result<Contender> {
    let executable = build(workspace, ["-p", "plantd", "-p", "plant-http", "--bin", "plantd"])?;
    Ok(Contender { name: PLANTD, executable, arguments: Vec::new() })
}

/// The same server with a repository that stores nothing.
pub(super) fn ceiling(workspace: &Metadata) -> anyhow::Result<Contender> {
    // A build of its own: one with both would give plantd the features that examples ask for.
    let executable =
        build(workspace, ["-p", "plantd", "-p", "plant-http", "--example", "ceiling"])?;
    Ok(Contender { name: CEILING, executable, arguments: Vec::new() })
}

/// Builds a program, which the last argument names.
pub(super) fn build<const N: usize>(
    workspace: &Metadata,
    arguments: [&str; N],
) -> anyhow::Result<PathBuf> {
    let mut command = cargo::command(&workspace.workspace_root);
    cargo::run(command.args(["build", "--release"]).args(arguments))?;
    let folder = if arguments.contains(&"--example") { "release/examples" } else { "release" };
    Ok(workspace.target_directory.join(folder).join(arguments[N - 1]).into())
}

/// Services with the same contract on other frameworks, which bench/peers has.
pub(super) fn peers(workspace: &Metadata) -> anyhow::Result<[Contender; 2]> {
    tools::ensure(&[tools::NODE, tools::NPM, tools::CXX, tools::MAKE, tools::PYTHON])?;
    let fastify = packages::FASTIFY.ensure(workspace)?;
    // Node looks for packages only in the folders above a module.
    let server = fastify.join("server.js");
    fs::copy(packages::FASTIFY.sources(workspace).join("server.js"), &server)?;
    let executable = fastify.join("node_modules/.bin/node").into();
    let fastify = Contender { name: FASTIFY, executable, arguments: vec![server.into()] };
    let executable = packages::FASTAPI.ensure(workspace)?.join("bin/python").into();
    let server = packages::FASTAPI.sources(workspace).join("server.py");
    let fastapi =
        Contender { name: "FastAPI + SQLite", executable, arguments: vec![server.into()] };
    Ok([fastify, fastapi])
}

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    pub(super) address: SocketAddr,
    /// From the start of the process to the line that says it is ready.
    pub(super) ready_after: Duration,
    /// Stays open, so that a further line does not end the program.
    _stdout: BufReader<ChildStdout>,
}

impl Program {
    /// Starts a program on the folder `data` in `folder`, and waits until it is ready.
    pub(super) fn start(contender: &Contender, folder: &Path) -> anyhow::Result<Self> {
        let start = Instant::now();
        let mut child = Command::new(&contender.executable)
            .args(&contender.arguments)
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"))
            // Nothing but the token, so that the defaults are measured.
            .env_clear()
            .env("PLANTD_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("stderr.log"))?)
            .spawn()
            .with_context(|| format!("cannot start {}", contender.executable.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let ready_after = start.elapsed();
        let address = line.trim_end().rsplit_once(" listening on http://");
        let Some(address) = address.and_then(|(_, address)| address.parse().ok()) else {
            drop(child.kill());
            drop(child.wait());
            let error = anyhow!("it printed {line:?} instead of its address");
            return Err(explained(&error, contender, folder));
        };
        Ok(Self { child, address, ready_after, _stdout: stdout })
    }

    /// Stops it as a service manager does, and fails unless it ends with exit code 0.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "on SIGTERM it should end with exit code 0, but: {status}");
        Ok(())
    }

    /// Ends it with SIGKILL.
    pub(super) fn kill(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::KILL)?)
    }

    /// A line of `/proc/PID/status` that counts bytes, such as `VmRSS`.
    pub(super) fn memory(&self, name: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = line.and_then(|value| value.trim().strip_suffix(" kB"));
        let kibibytes = kibibytes.with_context(|| format!("no {name} in:\n{status}"))?;
        Ok(kibibytes.parse::<f64>()? * 1_024.0)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if the program has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a program in `folder`, works with it and stops it.
pub(super) fn serve<T>(
    contender: &Contender,
    folder: &Path,
    work: impl FnOnce(&Program) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let program = Program::start(contender, folder)?;
    let outcome = work(&program).and_then(|value| program.stop().map(|()| value));
    outcome.map_err(|error| explained(&error, contender, folder))
}

/// The error of a program, with the end of its log.
fn explained(error: &anyhow::Error, contender: &Contender, folder: &Path) -> anyhow::Error {
    let log = fs::read(folder.join("stderr.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n");
    anyhow!("{} failed: {error:#}\nThe end of its log:\n{tail}", contender.name)
}

/// Copies the folder `data` of a program that has stopped, and waits until the disk has it.
pub(super) fn copy_data(from: &Path, to: &Path) -> anyhow::Result<()> {
    output(Command::new("cp").arg("--recursive").arg(from.join("data")).arg(to))?;
    output(Command::new("sync").arg("--file-system").arg(to)).map(drop)
}

/// Runs `plantd import FILE` or `plantd export FILE` of so many plants, as a user does.
pub(super) fn transfer(
    plantd: &Contender,
    command: &str,
    server: &Program,
    file: &Path,
    plants: u64,
) -> anyhow::Result<Figures> {
    let mut client = Command::new(&plantd.executable);
    client.args([command, "--url", &format!("http://{}", server.address)]).arg(file);
    let start = Instant::now();
    output(client.env_clear().env("PLANTD_TOKEN", TOKEN))?;
    let seconds = start.elapsed().as_secs_f64();
    let lines = fs::read(file)?.iter().filter(|byte| **byte == b'\n').count() as u64;
    ensure!(lines == plants, "the file of the {command} has {lines} plants, not {plants}");
    Ok(Figures { count: plants, seconds, latency: None })
}

/// Runs a program to its end, and returns what it printed.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{name} failed ({}):\n{stdout}{stderr}", output.status);
    Ok(stdout)
}
