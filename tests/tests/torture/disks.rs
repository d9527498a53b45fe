//! Disks that fail: faults of single system calls, disks that become full, and folders that cannot be used.
//!
//! The promises: no success that is not on disk; 503 with error 5002, and a `/readyz` other than 200, as soon as the
//! store has failed; an exit with 74 in time and a message that helps; and all acknowledged writes after a start
//! without the fault.

mod faults;
mod folders;
mod full;
mod load;

use std::path::Path;

use plantd_tests::{Followed, Followers, IO, Launch, Ledgers, Process, TestServer, store_of};

/// Asserts that the last error names the folder and says what to do.
#[track_caller]
fn assert_helps(stderr: &str, data: &Path, advice: &[&str]) {
    let path = data.to_str().expect("the path is UTF-8");
    let last = stderr.lines().rfind(|line| line.contains("ERROR plantd]"));
    let last = last.unwrap_or_else(|| panic!("no error: {stderr}"));
    assert!(last.contains(path), "{last:?} does not name {path}");
    let helps = advice.iter().any(|advice| last.contains(advice));
    assert!(helps, "{last:?} holds none of {advice:?}");
}

/// Starts on a bad disk. Asserts that the server serves and ends in order, or ends with 74 and says what to do.
/// Returns whether it served, and the ended process.
#[track_caller]
fn start_and_end(launch: &Launch, data: &Path, advice: &[&str]) -> (bool, Process) {
    let mut process = launch.clone().data(data).spawn();
    let is_ready = process.becomes_ready();
    if is_ready {
        process.send_terminate();
    }
    let status = process.wait_for_exit();
    let stderr = process.stderr();
    if !(is_ready && status.success()) {
        assert_eq!(status.code(), Some(IO), "{stderr}");
        assert_helps(&stderr, data, advice);
    }
    (is_ready, process)
}

/// Like [`check_repaired`], and asserts that the followers have missed nothing. Returns what they have seen.
#[track_caller]
fn check_repaired_for(
    mut followers: Followers,
    ledgers: &Ledgers,
    server: &mut TestServer,
) -> Followed {
    followers.set_servers([server.address()]);
    let client = server.client();
    let when = "after its disk was repaired";
    followers.assert_have(&client, &store_of(&client, when), when);
    let followed = followers.end();
    check_repaired(ledgers, server);
    followed
}

/// Asserts that a server without faults has the plants of the ledgers, and still takes writes.
#[track_caller]
fn check_repaired(ledgers: &Ledgers, server: &mut TestServer) {
    let client = server.client();
    ledgers.compare(&store_of(&client, "after its disk was repaired"));
    client.create(1_000_000, "Abies", None).assert_plant("Abies", None);
    assert_eq!(server.terminate().code(), Some(0));
}

/// Asserts that a start ends with 74 and a message that helps.
#[track_caller]
fn assert_refused(launch: &Launch, data: &Path, advice: &[&str]) {
    assert_ends(&launch.clone().data(data), IO, data, advice);
}

/// Asserts that a start ends with this exit code and a message that names `path` and contains some of the advice.
#[track_caller]
fn assert_ends(launch: &Launch, exit_code: i32, path: &Path, advice: &[&str]) {
    let mut process = launch.spawn();
    let is_ready = process.becomes_ready();
    assert!(!is_ready, "{} did not keep it from starting", path.display());
    process.assert_exit_code(exit_code);
    assert_helps(&process.stderr(), path, advice);
}
