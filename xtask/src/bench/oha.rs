//! A run of the load generator oha, which sends at a fixed rate, however late answers are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use cargo_metadata::Metadata;
use serde::{Deserialize, Serialize};

use crate::crates_io::Program;

const PROGRAM: Program = Program {
    name: "oha",
    version: "1.16.0",
    // It does not compile without TLS, which it has by default.
    options: &[],
    environment: &[],
};

/// How late an answer may be, so that one slow sync of a disk is a latency and not an error.
const ANSWER_TIMEOUT_S: u32 = 10;
/// The least share of the rate asked for that still counts as that rate.
const LEAST_SHARE: f64 = 0.95;
/// How `timeout` ends when the time is up.
const TIME_IS_UP: i32 = 124;

/// What oha makes of each request: an id of 15 digits, which no two requests are likely to share.
const PATH_REGEX: &str = "plants/[1-9][0-9]{14}";
const BODY: &str = r#"{"name":"Eastern white pine","tag":"Pinaceae"}"#;

/// What oha is to do: to create plants at a fixed rate.
///
/// Each request is a `PUT /plants/{id}` with a random id, which creates a plant and walks the same way to the disk as
/// a `POST /plants`. oha can make up the URL of each request anew but not the body, and so no `id` in the body.
#[derive(Debug)]
pub(super) struct OpenLoop<'a> {
    /// What [`ensure`] returned.
    pub(super) executable: &'a Path,
    pub(super) address: SocketAddr,
    pub(super) token: &'a str,
    pub(super) rate_per_s: u64,
    pub(super) connections: u32,
    pub(super) duration_s: u32,
}

impl OpenLoop<'_> {
    fn requests(&self) -> u64 {
        self.rate_per_s * u64::from(self.duration_s)
    }

    /// A run that takes longer is far below its rate.
    fn limit_s(&self) -> u32 {
        self.duration_s + self.duration_s / 10 + ANSWER_TIMEOUT_S
    }
}

/// How long after its time each request was answered: one that had to wait, because all connections were busy, has
/// waited in this too. oha's clock ticks once a millisecond, and the time of a request is the tick that it came due at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Latency {
    /// All of them were answered with 2xx.
    pub(super) requests: u64,
    pub(super) rate_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// The 99.9th percentile.
    pub(super) p999_us: f64,
}

/// The oha that is there; where there is none, one is built into the target folder, which takes minutes.
pub(super) fn ensure(workspace: &Metadata) -> anyhow::Result<PathBuf> {
    PROGRAM.ensure(workspace)
}

/// Runs oha, and fails unless every answer was good and the rate was reached.
pub(super) fn run(load: &OpenLoop<'_>) -> anyhow::Result<Latency> {
    let limit_s = load.limit_s();
    // oha itself waits for every answer, and so for ever on a server that gives none.
    let output = Command::new("timeout")
        .args(["--foreground", &format!("{limit_s}s")])
        .arg(load.executable)
        // A number and not a duration: at the end of that, oha drops what it has not sent yet, the latest of all.
        .args(["-n", &load.requests().to_string()])
        .args(["-q", &load.rate_per_s.to_string(), "--latency-correction"])
        .args(["-c", &load.connections.to_string()])
        .args(["-t", &format!("{ANSWER_TIMEOUT_S}s")])
        .args(["-m", "PUT", "-T", "application/json", "-d", BODY])
        .args(["-H", &format!("Authorization: Bearer {}", load.token)])
        .args(["--no-tui", "--output-format", "json", "--rand-regex-url"])
        .arg(format!("http://{}/{PATH_REGEX}", load.address))
        .stdin(Stdio::null())
        .output()
        .context("cannot start `timeout`, which is a part of coreutils")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(TIME_IS_UP) {
        bail!(
            "not all of {} requests were answered within {limit_s} s, far too late for {} per \
             second: ask for a lower rate, if the server answers at all",
            load.requests(),
            load.rate_per_s
        );
    }
    if !output.status.success() {
        bail!(
            "oha failed ({}):\n{stdout}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let report: Report = serde_json::from_str(&stdout)
        .with_context(|| format!("cannot read what oha printed:\n{stdout}"))?;
    report.latency(load.requests(), load.rate_per_s)
}

/// What of oha's report is looked at; its times are in seconds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    summary: Summary,
    latency_percentiles: Percentiles,
    status_code_distribution: BTreeMap<u16, u64>,
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct Summary {
    total: f64,
}

/// Each is there if anything was answered.
#[derive(Debug, Deserialize)]
struct Percentiles {
    p50: Option<f64>,
    p99: Option<f64>,
    #[serde(rename = "p99.9")]
    p999: Option<f64>,
}

impl Report {
    /// The latencies, if every one of `requests` was answered with 2xx, and at about the rate asked for.
    fn latency(&self, requests: u64, asked_per_s: u64) -> anyhow::Result<Latency> {
        let statuses = &self.status_code_distribution;
        let good: u64 = statuses.range(200..300).map(|(_, count)| count).sum();
        if good != requests {
            bail!(
                "{good} of {requests} requests were answered with 2xx (statuses: {statuses:?}, \
                 without an answer: {:?}): mend that first, since an error can be faster than the \
                 work",
                self.error_distribution
            );
        }
        let rate_per_s = requests as f64 / self.summary.total;
        if rate_per_s < asked_per_s as f64 * LEAST_SHARE {
            bail!(
                "{rate_per_s:.0} requests per second were reached, which is below {:.0} % of the \
                 {asked_per_s} asked for: ask for a lower rate",
                LEAST_SHARE * 100.0
            );
        }
        let us = |seconds: Option<f64>| {
            seconds.map(|seconds| seconds * 1_000_000.0).context("oha names no such percentile")
        };
        let Percentiles { p50, p99, p999 } = self.latency_percentiles;
        Ok(Latency { requests, rate_per_s, p50_us: us(p50)?, p99_us: us(p99)?, p999_us: us(p999)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{
        "summary": { "successRate": 1.0, "total": 2.0, "requestsPerSec": 5000.0 },
        "latencyPercentiles": { "p50": 0.0005, "p99": 0.002, "p99.9": 0.004, "p99.99": null },
        "statusCodeDistribution": { "200": 1, "201": 9999 },
        "errorDistribution": {}
    }"#;

    fn latency(report: &str, asked_per_s: u64) -> anyhow::Result<Latency> {
        serde_json::from_str::<Report>(report).unwrap().latency(10_000, asked_per_s)
    }

    #[test]
    fn latencies_are_read_and_are_in_microseconds() {
        let expected = Latency {
            requests: 10_000,
            rate_per_s: 5_000.0,
            p50_us: 500.0,
            p99_us: 2_000.0,
            p999_us: 4_000.0,
        };
        assert_eq!(latency(REPORT, 5_000).unwrap(), expected);
    }

    #[test]
    fn a_rate_that_is_not_reached_fails_the_run() {
        assert!(latency(REPORT, 5_250).is_ok());
        let error = latency(REPORT, 5_300).unwrap_err().to_string();
        assert!(error.contains("below 95 % of the 5300"), "{error}");
    }

    #[test]
    fn one_answer_that_is_bad_or_missing_fails_the_run() {
        let bad = REPORT.replace(r#""200": 1"#, r#""302": 1"#);
        let error = latency(&bad, 5_000).unwrap_err().to_string();
        assert!(error.contains("302: 1"), "{error}");
        let missing = REPORT
            .replace(r#""200": 1, "#, "")
            .replace(r#""errorDistribution": {}"#, r#""errorDistribution": {"timeout": 1}"#);
        let error = latency(&missing, 5_000).unwrap_err().to_string();
        assert!(error.contains(r#""timeout": 1"#), "{error}");
    }
}
