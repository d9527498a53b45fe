//! What the tests of the product's promises have in common: how often they do what they do, chance
//! that can be repeated, and the figures that they print.
//!
//! Each of them has two forms: a short one, which `cargo xtask test` runs, and a long one, which
//! `cargo xtask torture` runs.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::json;

/// When this is in the environment, the long form runs.
const LONG_VARIABLE: &str = "TORTURE_LONG";

/// The file to which figures are added, one JSON object on a line: `cargo xtask torture` reads them.
const FIGURES_VARIABLE: &str = "TORTURE_FIGURES";

/// The seed of all chance, when a run is to be repeated.
const SEED_VARIABLE: &str = "TORTURE_SEED";

/// Whether the long form runs.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os(LONG_VARIABLE).is_some()
}

/// How often something is done: in the short form, and in the long one.
#[must_use]
pub fn times(short: u32, long: u32) -> u32 {
    if is_long() { long } else { short }
}

/// Chance that can be repeated: the seed is shown, and may be given again.
///
/// # Panics
///
/// When the seed that the environment gives is no number.
#[must_use]
#[allow(clippy::print_stdout, reason = "it is shown when the test fails")]
pub fn chance() -> fastrand::Rng {
    let seed = match std::env::var(SEED_VARIABLE) {
        Ok(seed) => seed.parse().expect("a seed is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("to repeat the chance of this test: {SEED_VARIABLE}={seed}");
    fastrand::Rng::with_seed(seed)
}

/// What a test has done to the server, and what came out.
#[derive(Debug)]
#[must_use = "figures are for printing"]
pub struct Figures {
    test: &'static str,
    promise: &'static str,
    figures: Vec<String>,
}

impl Figures {
    /// Figures of the tests that `cargo xtask torture TEST` runs, about this promise.
    pub fn of(test: &'static str, promise: &'static str) -> Self {
        Self { test, promise, figures: Vec::new() }
    }

    /// One more figure: how many, and of what.
    pub fn with(mut self, count: impl std::fmt::Display, what: &str) -> Self {
        self.figures.push(format!("{count} {what}"));
        self
    }

    /// Prints them, also where the test harness captures what tests print.
    ///
    /// # Panics
    ///
    /// When the file that the environment names cannot be written.
    pub fn print(self) {
        let Self { test, promise, figures } = self;
        let figures = figures.join(", ");
        // Nobody reads it where that fails.
        let _ = writeln!(io::stdout(), "torture {test}: {promise}: {figures}");
        if let Some(path) = std::env::var_os(FIGURES_VARIABLE) {
            let line = json!({ "test": test, "promise": promise, "figures": figures });
            let file = OpenOptions::new().append(true).create(true).open(Path::new(&path));
            let mut file = file.expect("the file of the figures can be written");
            writeln!(file, "{line}").expect("the file of the figures can be written");
        }
    }
}
