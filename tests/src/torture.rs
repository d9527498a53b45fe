//! Shared code for `tests/torture/`: short and long forms, seeded randomness, and reports.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

/// Selects the long form, which `cargo xtask torture` runs. `cargo xtask test` runs the short one.
const LONG_VARIABLE: &str = "TORTURE_LONG";

/// Names the file that gets the reports, one JSON object per line. `cargo xtask torture` reads them.
const FIGURES_VARIABLE: &str = "TORTURE_FIGURES";

/// The environment variable with the random seed, to repeat a run.
const SEED_VARIABLE: &str = "TORTURE_SEED";

/// Whether the long form runs.
pub fn is_long() -> bool {
    std::env::var_os(LONG_VARIABLE).is_some()
}

/// The number for the current form.
pub fn times(short: u32, long: u32) -> u32 {
    if is_long() { long } else { short }
}

/// A random number generator. Prints its seed, which the environment can set to repeat a run.
#[allow(clippy::print_stdout, reason = "a test that fails shows the seed")]
pub fn chance() -> fastrand::Rng {
    let seed = match std::env::var(SEED_VARIABLE) {
        Ok(seed) => seed.parse().expect("a seed is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("to repeat the chance of this test: {SEED_VARIABLE}={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Checks all cases, `at_once` of them at a time.
pub fn check_all<Case: Send>(
    at_once: usize,
    cases: impl IntoIterator<Item = Case>,
    check: impl Fn(Case) + Sync,
) {
    let cases = Mutex::new(cases.into_iter().collect::<Vec<_>>().into_iter());
    let next = || cases.lock().expect("no thread panics here").next();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(case) = next() {
                    check(case);
                }
            });
        }
    });
}

/// Sets a flag when it is dropped, even by a panic: otherwise the threads of a scope would run forever.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One row of the table in `docs/reliability.md`. Numbers in it get thousands separators.
#[derive(Debug)]
pub struct Report {
    /// The part of `cargo xtask torture` that contains the test.
    pub test: &'static str,
    /// The promise, a sentence for users.
    pub promise: &'static str,
    /// The disturbances of the server, with counts.
    pub disturbances: String,
    /// What was lost, and out of how much.
    pub losses: String,
    /// Further counts, and times.
    pub details: String,
}

impl Report {
    /// Prints the report, past the capture of the test harness.
    pub fn print(self) {
        let Self { test, promise, .. } = self;
        let [disturbances, losses, details] =
            [self.disturbances, self.losses, self.details].map(|text| separate_thousands(&text));
        // Nothing to do if standard output is closed.
        let _ = writeln!(
            io::stdout(),
            "torture {test}: {promise} | {disturbances} | lost: {losses} | {details}"
        );
        if let Some(path) = std::env::var_os(FIGURES_VARIABLE) {
            let line = json!({
                "test": test, "promise": promise, "disturbances": disturbances, "losses": losses,
                "details": details,
            });
            let file = File::options().append(true).create(true).open(path);
            let mut file = file.expect("the file of the figures can be written");
            writeln!(file, "{line}").expect("the file of the figures can be written");
        }
    }
}

/// The text with thousands separators in its numbers.
fn separate_thousands(text: &str) -> String {
    let mut separated = String::new();
    for (index, letter) in text.char_indices() {
        let digits = text[index..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0
            && digits.is_multiple_of(3)
            && separated.ends_with(|it: char| it.is_ascii_digit())
        {
            separated.push(',');
        }
        separated.push(letter);
    }
    separated
}

/// A duration in a unit for people.
pub fn time(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    match ms {
        ..100.0 => format!("{ms:.1} ms"),
        ..1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.2} s", ms / 1000.0),
    }
}

/// The latencies of requests.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds one.
    pub fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// The latency that `percent` of them do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl Display for Latencies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, longest] = [50, 99, 100].map(|percent| time(self.percentile(percent)));
        write!(formatter, "median {p50}, p99 {p99}, longest {longest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_thousands_separators() {
        let text = "0 of 1234567 writes, 999 kills, 1000 ms, 12.34 s and 123456";
        let separated = "0 of 1,234,567 writes, 999 kills, 1,000 ms, 12.34 s and 123,456";
        assert_eq!(separate_thousands(text), separated);
    }
}
