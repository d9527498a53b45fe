//! Waiting for a condition. The generous deadline only ends tests that would hang: no test asserts how long something
//! takes.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until `look` returns something. Panics at the deadline, naming `what`.
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

/// Waits until `holds` returns true. Panics at the deadline, naming `what`.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Checks all rows of a table concurrently, since most of them wait. The thread of a row has the row's name, which a
/// panic shows.
pub fn at_once<T: Debug + Sync>(rows: &[T], check: impl Fn(&T) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for row in rows {
            let thread = thread::Builder::new().name(format!("{row:?}"));
            thread.spawn_scoped(scope, move || check(row)).expect("a thread can be started");
        }
    });
}
