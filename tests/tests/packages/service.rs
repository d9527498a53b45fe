//! The systemd unit and its environment file fit the program. `debian.rs` runs the unit.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use plantd_tests::{default_of, repository, run_tool, variables};

const UNIT: &str = "contrib/debian/plantd.service";

/// The highest acceptable exposure by `systemd-analyze security`, in tenths.
const EXPOSURE_MAX: &str = "20";

/// How long a shutdown waits for a stalled reader of the log and for a scrape, in seconds.
const LAST_SECONDS: u64 = 5 + 1;

/// The most connections, the descriptors for other files, and the connections of scrapers.
const DESCRIPTORS: u64 = 32_768 + 128 + 64;

#[track_caller]
fn setting(name: &str) -> String {
    let unit = fs::read_to_string(repository(UNIT)).expect("a file can be read");
    let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{UNIT} does not set {name}")).to_owned()
}

#[track_caller]
fn seconds(text: &str) -> u64 {
    text.strip_suffix('s').and_then(|number| number.parse().ok()).expect("seconds")
}

#[test]
fn systemd_rates_the_exposure_of_the_services_as_low() {
    for unit in [UNIT, "contrib/debian/plantd-backup.service"] {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--no-pager", "--offline=true"]);
        analyze.arg(format!("--threshold={EXPOSURE_MAX}")).arg(repository(unit));
        run_tool(&mut analyze);
    }
}

#[test]
fn the_unit_allows_a_whole_drain_and_every_connection_keeps_every_log_line_and_limits_memory() {
    let drain = seconds(&default_of("--drain-delay")) + seconds(&default_of("--drain-timeout"));
    assert!(seconds(&setting("TimeoutStopSec")) > drain + LAST_SECONDS);
    // A drain that timed out must not restart the server.
    assert_eq!(setting("SuccessExitStatus"), "75");
    // journald must drop no audit line.
    assert_eq!(setting("LogRateLimitIntervalSec"), "0");
    assert!(setting("LimitNOFILE").parse::<u64>().expect("a number") > DESCRIPTORS);
    // A server with too much memory must not take down the machine.
    assert!(setting("MemoryMax").ends_with('%'));
}

#[test]
fn the_environment_file_describes_every_variable_and_sets_none() {
    let file =
        fs::read_to_string(repository("contrib/debian/plantd.env")).expect("a file can be read");
    let mut described = BTreeSet::new();
    for line in file.lines().filter(|line| !line.is_empty()) {
        let comment = line.strip_prefix('#').unwrap_or_else(|| panic!("{line} is in force"));
        if let Some((name, _)) = comment.split_once('=')
            && !name.contains(' ')
        {
            described.insert(name.to_owned());
        }
    }
    let mut known = variables();
    known.insert("PLANTD_BACKUP_URL".to_owned());
    assert_eq!(described, known);
    let script = fs::read_to_string(repository("contrib/debian/nightly-backup"))
        .expect("a file can be read");
    assert!(script.contains("${PLANTD_BACKUP_URL:-"));
}
