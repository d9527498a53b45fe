//! Fault points: named places where tests let a process panic, or stop until it is killed.
//!
//! They are for tests, behind the feature `__fault-points`; without it a point is nothing. The variable
//! `FAILPOINTS` in the environment says what happens where, in the words of the crate `fail`:
//! `before-answers=3*off->panic(text)` lets whoever comes there for the fourth time panic, and `return`
//! in the place of `panic(text)` lets it log that it has come there and stop for good.
//! `after-plants@plant-fold` counts only the thread of that name, `after-plants@main` the opening.

#[cfg(feature = "__fault-points")]
mod switched_on {
    use std::mem;
    use std::sync::Once;
    use std::thread;

    /// A place where a test may let something happen.
    ///
    /// # Panics
    ///
    /// When the environment says so, or says something that makes no sense.
    pub fn point(name: &str) {
        read_environment();
        fail::fail_point!(name, |_| stop(name));
        let thread = thread::current();
        let name_in_thread = format!("{name}@{}", thread.name().unwrap_or_default());
        fail::fail_point!(&name_in_thread, |_| stop(name));
    }

    /// A limit, or the smaller one that a test wants: `NAME=return(3)`.
    pub(crate) fn limit(name: &str, limit: usize) -> usize {
        read_environment();
        fail::fail_point!(name, |wanted| {
            wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(limit)
        });
        limit
    }

    /// The first time only; what it says stays in force to the end of the process.
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
pub use switched_on::point;

#[cfg(feature = "__fault-points")]
pub(crate) use switched_on::limit;

/// Nothing.
#[cfg(not(feature = "__fault-points"))]
#[inline]
pub(crate) const fn point(_name: &str) {}

/// The limit as it is.
#[cfg(not(feature = "__fault-points"))]
#[inline]
pub(crate) const fn limit(_name: &str, limit: usize) -> usize {
    limit
}
