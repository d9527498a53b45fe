//! A run of the load generator wrk.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

/// How many threads make the load, unless there are more servers; each has its share of the connections.
pub(super) const MAX_THREADS: u32 = 2;
/// How late an answer may be, so that one slow sync of a disk is a latency and not an error.
const ANSWER_TIMEOUT: &str = "10s";
/// What every Lua script begins with.
pub(super) const COMMON_SCRIPT: &str = include_str!("scripts/wrk.lua");
/// What the line begins with that it prints at the end.
const RESULT_PREFIX: &str = "wrk-result ";

/// What wrk is to do.
#[derive(Debug)]
pub(super) struct Load<'a> {
    /// Of servers that do the same; the threads are spread over them.
    pub(super) addresses: &'a [SocketAddr],
    pub(super) token: &'a str,
    pub(super) script: &'a Path,
    /// What the script gets, after the number of threads.
    pub(super) script_arguments: &'a [String],
    pub(super) connections: u32,
    pub(super) duration_s: u32,
}

/// What a script prints at the end, as JSON behind [`RESULT_PREFIX`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcome {
    /// All answers, whatever their status.
    pub(super) requests: u64,
    pub(super) duration_us: u64,
    pub(super) status_errors: u64,
    pub(super) socket_errors: u64,
    pub(super) latency_p50_us: u64,
    pub(super) latency_p90_us: u64,
    pub(super) latency_p99_us: u64,
}

impl Outcome {
    pub(super) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / (self.duration_us as f64 / 1_000_000.0)
    }

    /// Fails unless there were answers, and all of them good.
    fn check(&self) -> anyhow::Result<()> {
        if self.status_errors > 0 || self.socket_errors > 0 {
            bail!(
                "{} of {} answers were not 2xx, and {} requests had no answer at all: mend that \
                 first, since an error can be faster than the work",
                self.status_errors,
                self.requests,
                self.socket_errors
            );
        }
        if self.requests == 0 || self.duration_us == 0 {
            bail!("wrk counted no answers: measure for longer");
        }
        Ok(())
    }
}

/// A wrk that puts load on a server; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
}

impl Running {
    /// Fails if it has ended by itself.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().context("cannot look after wrk")? {
            None => Ok(()),
            Some(status) => bail!("wrk should still put load on the server, but ended ({status})"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if there is nothing left to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a load that nobody waits for.
pub(super) fn start(load: &Load<'_>) -> anyhow::Result<Running> {
    let child = command(load)?
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start wrk")?;
    Ok(Running { child })
}

fn command(load: &Load<'_>) -> anyhow::Result<Command> {
    let addresses: Vec<String> = load.addresses.iter().map(SocketAddr::to_string).collect();
    let first = addresses.first().context("wrk needs an address")?;
    let threads = threads(addresses.len(), load.connections)?;
    let mut command = Command::new("wrk");
    command
        .arg(format!("--threads={threads}"))
        .arg(format!("--connections={}", load.connections))
        .arg(format!("--duration={}s", load.duration_s))
        .arg(format!("--timeout={ANSWER_TIMEOUT}"))
        .arg("--script")
        .arg(load.script)
        .arg(format!("http://{first}"))
        .arg("--")
        .arg(threads.to_string())
        .args(load.script_arguments)
        .env("PLANTD_TOKEN", load.token)
        .env("PLANTD_ADDRESSES", addresses.join(" "))
        .stdin(Stdio::null());
    Ok(command)
}

/// How many threads put load on so many servers: at least one on each.
fn threads(servers: usize, connections: u32) -> anyhow::Result<u32> {
    let servers = u32::try_from(servers)?;
    ensure!(servers <= connections, "{connections} connections are too few for {servers} servers");
    // wrk refuses a thread that has no connection.
    Ok(MAX_THREADS.max(servers).min(connections))
}

/// Runs wrk, and fails unless every answer was good.
pub(super) fn run(load: &Load<'_>) -> anyhow::Result<Outcome> {
    let output = command(load)?.output().context("cannot start wrk")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "wrk failed ({}):\n{stdout}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let outcome = parse(&stdout).with_context(|| {
        format!(
            "cannot read what wrk printed:\n{stdout}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    outcome.check()?;
    Ok(outcome)
}

/// Finds the line of the script in the output of wrk, and reads it.
fn parse(stdout: &str) -> anyhow::Result<Outcome> {
    let json = stdout
        .lines()
        .find_map(|line| line.strip_prefix(RESULT_PREFIX))
        .with_context(|| format!("there is no line that begins with `{RESULT_PREFIX}`"))?;
    serde_json::from_str(json).with_context(|| format!("`{json}` is no outcome"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What would come out of a second of load.
    pub(in crate::bench) fn outcome(requests: u64) -> Outcome {
        Outcome {
            requests,
            duration_us: 1_000_000,
            status_errors: 0,
            socket_errors: 0,
            latency_p50_us: 1_500,
            latency_p90_us: 2_000,
            latency_p99_us: 3_000,
        }
    }

    const OUTPUT: &str = concat!(
        "Running 5s test @ http://127.0.0.1:4567\n",
        "  2 threads and 64 connections\n",
        "Requests/sec:  50000.00\n",
        "wrk-result {\"requests\":250000,\"duration_us\":5000000,\"status_errors\":0,",
        "\"socket_errors\":0,\"latency_p50_us\":900,\"latency_p90_us\":1800,",
        "\"latency_p99_us\":4000}\n",
    );

    #[test]
    fn the_line_of_the_script_is_found_and_read() {
        let outcome = parse(OUTPUT).unwrap();
        assert_eq!(
            outcome,
            Outcome {
                requests: 250_000,
                duration_us: 5_000_000,
                status_errors: 0,
                socket_errors: 0,
                latency_p50_us: 900,
                latency_p90_us: 1_800,
                latency_p99_us: 4_000,
            }
        );
        assert_eq!(outcome.requests_per_s(), 50_000.0);
        assert!(outcome.check().is_ok());
    }

    #[test]
    fn the_scripts_print_that_line() {
        assert!(COMMON_SCRIPT.contains(&format!("'{RESULT_PREFIX}{{")));
    }

    #[test]
    fn every_server_has_a_thread_and_every_thread_a_connection() {
        assert_eq!(threads(1, 64).unwrap(), MAX_THREADS);
        assert_eq!(threads(1, 1).unwrap(), 1);
        assert_eq!(threads(3, 64).unwrap(), 3);
        assert!(threads(3, 2).is_err());
    }

    #[test]
    fn output_without_the_line_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("Requests/sec:  50000.00\n").is_err());
        assert!(parse("wrk-result {\"requests\":1}\n").is_err());
    }

    #[test]
    fn one_bad_answer_fails_the_run() {
        for field in ["status_errors", "socket_errors"] {
            let output = OUTPUT.replace(&format!("\"{field}\":0"), &format!("\"{field}\":1"));
            assert!(parse(&output).unwrap().check().is_err(), "{field}");
        }
    }

    #[test]
    fn a_run_without_answers_fails() {
        let output = OUTPUT.replace("250000", "0");
        assert!(parse(&output).unwrap().check().is_err());
    }
}
