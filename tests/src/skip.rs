//! Tests that are skipped because this machine lacks something.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::thread;

use test_postgres::is_root;

/// Names the file that gets a line for each skipped test. `cargo xtask test` prints these lines, and fails because of
/// them unless it is told that tests may be skipped.
const SKIPPED_VARIABLE: &str = "PLANTD_TESTS_SKIPPED";

/// Whether the tests run as root. If not, records that the current test, or a part of it, is skipped: only root can
/// do what `what` says.
#[track_caller]
pub fn is_root_or_skipped(what: &str) -> bool {
    if !is_root() {
        skip(&format!("only root can {what}"));
    }
    is_root()
}

#[allow(clippy::print_stdout, reason = "a test that claims nothing says why")]
fn skip(why: &str) {
    let thread = thread::current();
    let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
    print!("skipped: {line}");
    if let Some(path) = env::var_os(SKIPPED_VARIABLE) {
        let file = File::options().append(true).create(true).open(path);
        // One write, so that lines of concurrent processes do not mix.
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file can be written");
    }
}
