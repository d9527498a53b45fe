//! A program under load: started, watched and stopped.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use super::contender::Contender;
use super::interrupt;

/// Where a program has its data, in the folder that it is started in.
pub(super) const DATA_FOLDER: &str = "data";

/// What a program prints on stdout when it takes requests, between its name and its address.
const READY_WORDS: &str = " listening on http://";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A stop brings everything that was acknowledged to the disk, which can take its time.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How much of a log tells why a program failed.
const LOG_TAIL_LINES: usize = 20;

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    ready_after: Duration,
    log_path: PathBuf,
    /// Stays open, so that a further line does not kill the program.
    _stdout: BufReader<ChildStdout>,
}

impl Program {
    /// Starts a program on the data folder inside `folder`, which it has to make itself where there is none, and
    /// waits until it is ready.
    ///
    /// Its environment holds the token and nothing else, so that its defaults are measured.
    pub(super) fn start(contender: &Contender, folder: &Path, token: &str) -> anyhow::Result<Self> {
        Self::start_within(START_TIMEOUT, contender, folder, token)
    }

    /// Does what [`Self::start`] does, with a patience of one's own.
    pub(super) fn start_within(
        timeout: Duration,
        contender: &Contender,
        folder: &Path,
        token: &str,
    ) -> anyhow::Result<Self> {
        let Contender { name, executable, arguments } = contender;
        let log_path = folder.join("stderr.log");
        let log = File::create(&log_path)
            .with_context(|| format!("cannot make {}", log_path.display()))?;
        let start = Instant::now();
        let mut child = Command::new(executable)
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(folder.join(DATA_FOLDER))
            .env_clear()
            .env("PLANTD_TOKEN", token)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", executable.display()))?;
        match wait_until_ready(&mut child, timeout) {
            Ok((address, stdout)) => {
                let ready_after = start.elapsed();
                Ok(Self { name, child, address, ready_after, log_path, _stdout: stdout })
            }
            Err(error) => {
                end(&mut child);
                // As in `explain`.
                interrupt::check()?;
                Err(with_log(&error.context(format!("{name} did not start")), &log_path))
            }
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// How long it took from the start of the process to the line that says it is ready.
    pub(super) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Runs `work` on this program and stops it as a service manager does; an error of
    /// either, or an exit code that is not 0, comes with the end of the log.
    pub(super) fn run<T>(
        mut self,
        work: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let outcome = work(&self).and_then(|value| self.stop().map(|()| value));
        self.explain(outcome)
    }

    /// Runs `work` on this program and kills it with SIGKILL, while what `work` returned is still there.
    pub(super) fn run_and_kill<T>(
        mut self,
        work: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let outcome = work(&self);
        end(&mut self.child);
        self.explain(outcome)
    }

    /// A terminal interrupts the program as well, which looks like a failure of its own.
    fn explain<T>(&self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        interrupt::check()?;
        outcome
            .with_context(|| format!("{} failed", self.name))
            .map_err(|error| with_log(&error, &self.log_path))
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        // std can only kill; `kill` is a part of every POSIX shell.
        let signal = Command::new("sh")
            .args(["-c", "kill -TERM \"$1\"", "sh"])
            .arg(self.child.id().to_string())
            .stdin(Stdio::null())
            .status()
            .context("cannot run `sh` to send SIGTERM")?;
        if !signal.success() {
            bail!("cannot send SIGTERM to it; has it ended by itself?");
        }
        let status = wait(&mut self.child, STOP_TIMEOUT).context("it does not stop on SIGTERM")?;
        if status.code() != Some(0) {
            bail!("it should end with exit code 0 on SIGTERM, but: {status}");
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills and reaps a program; one that is gone already stays gone.
fn end(child: &mut Child) {
    // Both fail only if there is nothing left to end.
    drop(child.kill());
    drop(child.wait());
}

fn wait_until_ready(
    child: &mut Child,
    timeout: Duration,
) -> anyhow::Result<(SocketAddr, BufReader<ChildStdout>)> {
    let mut stdout = BufReader::new(child.stdout.take().context("there is no stdout to read")?);
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the line, or when the program is killed after the timeout.
    thread::spawn(move || {
        let mut line = String::new();
        let outcome = stdout.read_line(&mut line).map(|_| (line, stdout));
        // Nobody listens any more after the timeout.
        drop(sender.send(outcome));
    });
    let (line, stdout) = receiver
        .recv_timeout(timeout)
        .with_context(|| format!("it printed no line on stdout in {timeout:?}"))?
        .context("cannot read its stdout")?;
    if line.is_empty() {
        bail!("it closed its stdout without a word");
    }
    let address = ready_address(&line).ok_or_else(|| {
        anyhow!("it printed {line:?} on stdout, and not `NAME{READY_WORDS}ADDRESS:PORT`")
    })?;
    Ok((address, stdout))
}

/// The address in the line that a program prints when it is ready.
fn ready_address(line: &str) -> Option<SocketAddr> {
    let (_, address) = line.trim_end().rsplit_once(READY_WORDS)?;
    address.parse().ok()
}

fn wait(child: &mut Child, timeout: Duration) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for it")? {
            return Ok(status);
        }
        if start.elapsed() > timeout {
            bail!("it still runs after {timeout:?}");
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The error with the end of the log behind it, so that what went wrong comes first.
fn with_log(error: &anyhow::Error, log_path: &Path) -> anyhow::Error {
    let tail = match fs::read(log_path) {
        Ok(bytes) => last_lines(&String::from_utf8_lossy(&bytes), LOG_TAIL_LINES),
        Err(read_error) => format!("(cannot read {}: {read_error})", log_path.display()),
    };
    anyhow!("{error:#}\nThe end of its log:\n{tail}")
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_names_an_address() {
        for name in ["plantd", "some other"] {
            assert_eq!(
                ready_address(&format!("{name} listening on http://127.0.0.1:4567\n")),
                Some(SocketAddr::from(([127, 0, 0, 1], 4567)))
            );
        }
    }

    #[test]
    fn any_other_line_is_no_ready_line() {
        for line in ["", "plantd listening on http://", "hello\n"] {
            assert_eq!(ready_address(line), None, "{line}");
        }
    }

    #[test]
    fn the_end_of_a_log_is_its_last_lines() {
        assert_eq!(last_lines("1\n2\n3\n", 2), "2\n3");
        assert_eq!(last_lines("1\n", 2), "1");
        assert_eq!(last_lines("", 2), "");
    }
}
