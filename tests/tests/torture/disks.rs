//! Disks that fail: faults of single system calls, disks that become full, and folders that cannot be
//! used.
//!
//! What is held against each of them: no success that is not on disk; 503 with error 5002 as soon as
//! the store has failed, and `/readyz` with it; an exit with 74 in time, and a message that helps; and
//! a start without the fault that has every acknowledged write.

mod faults;
mod folders;
mod full;
mod ledger;
mod load;

use std::path::Path;

use plantd_tests::{Launch, wait_until};

/// What a process ends with whose disk cannot be used.
const IO: i32 = 74;

/// What every message about a disk that fails says: where it is, and what to do.
#[track_caller]
fn assert_helps(stderr: &str, data: &Path, advice: &[&str]) {
    let path = data.to_str().expect("the path is UTF-8");
    let last = stderr.lines().rfind(|line| line.contains("ERROR plantd]"));
    let last = last.unwrap_or_else(|| panic!("no word about the end: {stderr}"));
    assert!(last.contains(path), "{last:?} does not name {path}");
    let helps = advice.iter().any(|advice| last.contains(advice));
    assert!(helps, "{last:?} holds none of {advice:?}");
}

/// A start that cannot be ends with 74 and a message that helps.
#[track_caller]
fn assert_refused(launch: &Launch, data: &Path, advice: &[&str]) {
    assert_ends(&launch.clone().data(data), IO, data, advice);
}

/// A start ends with this exit code, and a message that names `path` and holds some of the advice.
#[track_caller]
fn assert_ends(launch: &Launch, exit_code: i32, path: &Path, advice: &[&str]) {
    let mut process = launch.spawn();
    wait_until("a start to end", || {
        assert_eq!(process.stdout(), "", "{} did not keep it from starting", path.display());
        !process.is_running()
    });
    let status = process.wait_for_exit();
    let stderr = process.stderr();
    assert_eq!(status.code(), Some(exit_code), "{}: {stderr}", path.display());
    assert_helps(&stderr, path, advice);
}
