//! Fault points: named places where a test makes the process panic, or stops a thread until the process is killed.
//!
//! A point does nothing without the feature `__fault-points`. The environment variable `FAILPOINTS` configures the
//! points in the syntax of the crate `fail`: `before-answers=3*off->panic(text)` panics at the fourth pass; with
//! `return` instead of `panic(text)`, the fourth pass is logged and stops the thread for good.
//! `after-table-sync@plant-compact` counts only the passes of the compaction thread, and `after-table-sync@main` those
//! of the open.

#[cfg(feature = "__fault-points")]
mod switched_on {
    use std::mem;
    use std::sync::Once;
    use std::thread;

    /// A place where a test may interfere. Panics if `FAILPOINTS` asks for that or cannot be parsed.
    pub fn point(name: &str) {
        read_environment();
        fail::fail_point!(name, |_| stop(name));
        let thread = thread::current();
        let name_in_thread = format!("{name}@{}", thread.name().unwrap_or_default());
        fail::fail_point!(&name_in_thread, |_| stop(name));
    }

    /// The limit, or a smaller one that a test sets: `NAME=return(3)`.
    pub fn limit(name: &str, limit: usize) -> usize {
        read_environment();
        fail::fail_point!(name, |wanted| {
            wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(limit)
        });
        limit
    }

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

#[cfg(not(feature = "__fault-points"))]
#[inline]
pub(crate) const fn point(_name: &str) {}

#[cfg(not(feature = "__fault-points"))]
#[inline]
pub(crate) const fn limit(_name: &str, limit: usize) -> usize {
    limit
}
