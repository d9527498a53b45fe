//! Waiting for a condition. How long something takes is never a claim; the deadline is generous and
//! only ends a test that would hang.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything that a test waits for may take, on a machine under load too.
pub const DEADLINE: Duration = Duration::from_secs(120);

const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until `look` finds something.
///
/// # Panics
///
/// When it has found nothing by the deadline; `what` says then what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Waits until `holds` says so.
///
/// # Panics
///
/// When it has not by the deadline; `what` says then what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Checks all rows of a table at the same time, since most of them wait. A row that fails is named as the
/// thread that panicked.
///
/// # Panics
///
/// When a check does.
pub fn at_once<T: Debug + Sync>(rows: &[T], check: impl Fn(&T) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for row in rows {
            let thread = thread::Builder::new().name(format!("{row:?}"));
            thread.spawn_scoped(scope, move || check(row)).expect("a thread can be started");
        }
    });
}
