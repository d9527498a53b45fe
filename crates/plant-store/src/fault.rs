//! Fault points: named places where tests make a process panic, or stop until it is killed.
//!
//! Without the feature `__fault-points` a point does nothing. The environment variable `FAILPOINTS` configures the points
//! in the syntax of the crate `fail`: `before-answers=3*off->panic(text)` panics at the fourth pass, and `return` instead
//! of `panic(text)` logs the pass and stops the thread for good. `after-table-sync@plant-compact` counts only the passes
//! of the compaction thread, `after-table-sync@main` those of the open.

#[cfg(feature = "__fault-points")]
mod switched_on {
    use std::mem;
    use std::sync::Once;
    use std::thread;

    /// A place where a test may interfere. Panics when `FAILPOINTS` says so or cannot be parsed.
    pub fn point(name: &str) {
        read_environment();
        fail::fail_point!(name, |_| stop(name));
        let thread = thread::current();
        let name_in_thread = format!("{name}@{}", thread.name().unwrap_or_default());
        fail::fail_point!(&name_in_thread, |_| stop(name));
    }

    /// A limit, or the smaller one of a test: `NAME=return(3)`.
    pub fn limit(name: &str, limit: usize) -> usize {
        read_environment();
        fail::fail_point!(name, |wanted| {
            wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(limit)
        });
        limit
    }

    /// Reads the environment once for the whole process.
    fn read_environment() {
        static READ: Once = Once::new();
        READ.call_once(|| mem::forget(fail::FailScenario::setup()));
    }

    fn stop(name: &str) {
        log::warn!("stopped at the fault point {name}");
        loop {
            thread::park();
        }
    }
}

#[cfg(feature = "__fault-points")]
pub use switched_on::{limit, point};

/// Does nothing.
#[cfg(not(feature = "__fault-points"))]
#[inline]
pub(crate) const fn point(_name: &str) {}

/// The limit unchanged.
#[cfg(not(feature = "__fault-points"))]
#[inline]
pub(crate) const fn limit(_name: &str, limit: usize) -> usize {
    limit
}
