//! The programs that are measured: built or installed, started, and stopped.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use cargo_metadata::Metadata;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::measure::Measurement;
use super::options::Options;
use crate::{cargo, packages, tools};

pub(super) const PLANTD: &str = "plantd";
pub(super) const CEILING: &str = "ceiling";
pub(super) const BARE: &str = "bare";
pub(super) const FASTIFY: &str = "Fastify + better-sqlite3";

/// A fixed token, because no other machine can reach the servers.
pub(super) const TOKEN: &str = "token-of-the-bench";

/// How long a program may take to get ready, and to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that takes `--listen` and `--data`, and its token from `PLANTD_TOKEN`, as plantd does. When ready, it
/// prints `NAME listening on http://ADDRESS:PORT`.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    /// Its name in tables.
    pub(super) name: &'static str,
    /// The executable, and the arguments before those options.
    pub(super) command: Vec<String>,
}

impl Contender {
    pub(super) fn with(&self, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        Self { name: self.name, command: self.command.iter().cloned().chain(arguments).collect() }
    }
}

const PLANTD_BUILD: &str = "-p plantd -p plant-http --bin plantd";
/// A separate build: in one build, Cargo would unify features, and give plantd those of the examples.
pub(super) const CEILING_BUILD: &str = "-p plantd -p plant-http --example ceiling";
pub(super) const BARE_BUILD: &str = "-p plantd -p plant-http --example bare";

/// plantd as users get it.
pub(super) fn plantd(options: &Options) -> anyhow::Result<Contender> {
    build(&options.workspace, PLANTD_BUILD)
}

/// Builds the program named by the last argument, as users get it.
pub(super) fn build(workspace: &Metadata, arguments: &'static str) -> anyhow::Result<Contender> {
    let mut command = cargo::command(&workspace.workspace_root);
    cargo::run(command.args(["build", "--release"]).args(arguments.split(' ')))?;
    let name = arguments.rsplit(' ').next().unwrap_or_default();
    let folder = if arguments.contains("--example") { "release/examples" } else { "release" };
    let command = vec![workspace.target_directory.join(folder).join(name).into()];
    Ok(Contender { name, command })
}

/// The services in bench/peers: the same API on other frameworks.
pub(super) fn peers(workspace: &Metadata) -> anyhow::Result<[Contender; 2]> {
    tools::ensure(&[tools::NODE, tools::NPM, tools::CXX, tools::MAKE, tools::PYTHON])?;
    let fastify = packages::FASTIFY.ensure(workspace)?;
    // Node finds packages only in folders above a module.
    let server = fastify.join("server.js");
    fs::copy(packages::FASTIFY.sources(workspace).join("server.js"), &server)?;
    let node = fastify.join("node_modules/.bin/node");
    let python = packages::FASTAPI.ensure(workspace)?.join("bin/python");
    let fastapi = packages::FASTAPI.sources(workspace).join("server.py");
    let command = |interpreter, server| [interpreter, server].map(String::from).to_vec();
    Ok([
        Contender { name: FASTIFY, command: command(node, server) },
        Contender { name: "FastAPI + SQLite", command: command(python, fastapi) },
    ])
}

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    pub(super) address: SocketAddr,
    /// The time from the start of the process to its line that it is ready.
    pub(super) ready_after: Duration,
}

impl Program {
    /// Starts a program on the folder `data`, with its log beside this folder, and waits until it is ready.
    pub(super) fn start(contender: &Contender, data: &Path) -> anyhow::Result<Self> {
        let start = Instant::now();
        // setpriv ends the program with the bench, however the bench ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .args(&contender.command)
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            // Nothing but the token is set, so the defaults are measured.
            .env_clear()
            .env("PLANTD_TOKEN", TOKEN)
            // The ceiling would write each line of its log by itself.
            .envs((contender.name == CEILING).then_some(("RUST_LOG", "off")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(data.with_extension("log"))?)
            .spawn()
            .context("cannot run setpriv")?;
        let unknown = SocketAddr::from(([0; 4], 0));
        let mut program = Self { child, address: unknown, ready_after: Duration::ZERO };
        // Standard output stays open, so that a further line does not end the program.
        let stdout = program.child.stdout.as_mut().context("no stdout")?;
        let mut readable = [PollFd::new(stdout, PollFlags::IN)];
        ensure!(
            poll(&mut readable, Some(&Timespec::try_from(PATIENCE)?))? > 0,
            "the program is not ready after {PATIENCE:?}"
        );
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        program.ready_after = start.elapsed();
        let address = line.trim_end().rsplit_once(" listening on http://");
        let address = address.and_then(|(_, address)| address.parse().ok());
        program.address = address
            .with_context(|| format!("the program printed {line:?} instead of its address"))?;
        Ok(program)
    }

    /// Stops it as a service manager does, and fails unless it ends with exit code 0.
    fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                ensure!(
                    status.success(),
                    "the program ended with {status} instead of 0 after SIGTERM"
                );
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(anyhow!("the program still runs {PATIENCE:?} after SIGTERM"))
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::KILL)?)
    }

    /// Waits until its compaction has ended: until it has used at most one tick of processor time in a second.
    pub(super) fn rest(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let before = self.processor_ticks()?;
            thread::sleep(Duration::from_secs(1));
            if self.processor_ticks()? <= before + 1 {
                return Ok(());
            }
        }
        Err(anyhow!("the program still compacts after {PATIENCE:?}"))
    }

    /// Its processor time, in ticks of 10 ms.
    fn processor_ticks(&self) -> anyhow::Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name of the program, in parentheses, may have spaces. `utime` and `stime` are the fields 14 and 15 (proc(5)).
        let (_, fields) = stat.rsplit_once(')').context("no name of the program")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        Ok(ticks.sum::<Result<u64, _>>()?)
    }

    pub(super) fn memory_mb(&self) -> anyhow::Result<f64> {
        memory_mb(self.child.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if the program has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The peak memory of a running process.
pub(super) fn memory_mb(process: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|value| value.trim().strip_suffix(" kB"));
    let kibibytes = kibibytes.with_context(|| format!("no VmHWM in:\n{status}"))?;
    Ok(kibibytes.parse::<f64>()? * 1_024.0 / 1_000_000.0)
}

/// Starts this many processes of a program, each with a data folder in `folder`, works with them, and stops them.
pub(super) fn serve<T>(
    contender: &Contender,
    count: usize,
    folder: &Path,
    work: impl FnOnce(&[Program]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let run = || {
        let data = (0..count).map(|index| folder.join(format!("data-{index}")));
        let start = |data: PathBuf| Program::start(contender, &data);
        let programs = data.map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let value = work(&programs)?;
        programs.into_iter().try_for_each(Program::stop)?;
        Ok(value)
    };
    run().map_err(|error: anyhow::Error| {
        let log = fs::read(folder.join("data-0.log")).unwrap_or_default();
        let end = String::from_utf8_lossy(&log[log.len().saturating_sub(2_000)..]).into_owned();
        error.context(format!("{} failed; its log ends with:\n{end}", contender.name))
    })
}

/// Copies the data of a stopped program, and waits until the copy is on disk. The ceiling has no data.
pub(super) fn copy_data(from: &Path, to: &Path) -> anyhow::Result<()> {
    let data = from.join("data-0");
    if data.exists() {
        output(Command::new("cp").arg("--recursive").arg(data).arg(to))?;
        output(Command::new("sync").arg("--file-system").arg(to))?;
    }
    Ok(())
}

/// Starts plantd in `folder`, and runs `plantd import FILE` or `plantd export FILE` with this many plants, as a user
/// does.
pub(super) fn transfer(
    plantd: &Contender,
    folder: &Path,
    command: &str,
    file: &Path,
    plants: u64,
) -> anyhow::Result<Measurement> {
    let (seconds, memory_mb) = serve(plantd, 1, folder, |servers| {
        let start = Instant::now();
        output(&mut client(plantd, command, file, &servers[0]))?;
        Ok((start.elapsed().as_secs_f64(), servers[0].memory_mb()?))
    })?;
    let lines = fs::read(file)?.iter().filter(|byte| **byte == b'\n').count() as u64;
    ensure!(lines == plants, "the file of the {command} has {lines} plants, not {plants}");
    Ok(Measurement { count: plants, seconds, memory_mb: Some(memory_mb), latency_ms: None })
}

/// `plantd COMMAND FILE`, as a user calls it for a running server.
pub(super) fn client(plantd: &Contender, command: &str, file: &Path, server: &Program) -> Command {
    let mut client = Command::new(&plantd.command[0]);
    client.args([command, "--url", &format!("http://{}", server.address)]).arg(file);
    client.env_clear().env("PLANTD_TOKEN", TOKEN);
    client
}

/// Runs a command to its end, and returns what it printed.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{command:?} failed ({}):\n{stdout}{stderr}", output.status);
    Ok(stdout)
}
