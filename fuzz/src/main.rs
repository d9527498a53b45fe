//! Runs one fuzz target of plantd under libFuzzer: the one that the environment names.
//!
//! `cargo xtask torture fuzz` runs all targets. To run one without a time limit, in this folder:
//!
//! ```sh
//! mkdir -p /tmp/found
//! FUZZ_TARGET=csv cargo run --release -- /tmp/found corpus/csv
//! ```
//!
//! New inputs go to the first folder. `-merge=1 corpus/csv /tmp/found` adds to the corpus those that reach new code.

#![forbid(unsafe_code)]
#![no_main]

use std::sync::OnceLock;

use plantd_fuzz::{FuzzTarget, targets};

/// The environment variable with the name of the target. It is no argument, because libFuzzer takes all arguments.
const TARGET_VARIABLE: &str = "FUZZ_TARGET";

static TARGET: OnceLock<FuzzTarget> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        TARGET.get_or_init(named_target);
    },
    |input: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.check)(input);
        }
    }
);

fn named_target() -> FuzzTarget {
    let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
    targets().find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<&str> = targets().map(|target| target.name).collect();
        panic!("{TARGET_VARIABLE} must name one of {}", names.join(", "))
    })
}
