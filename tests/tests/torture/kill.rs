//! Kills under load.

use fastrand::Rng;
use plantd_tests::Launch;
use plantd_tests::torture::{Report, chance, times};

use crate::{Ordeal, SMALL_LIMITS};

const CLIENTS: i64 = 12;

/// The most rows of an import. Longer imports would take most of the time.
pub(crate) const MOST_ROWS: usize = 64;

const MAX_LOAD_MS: u64 = 400;

/// Limits so small that every task of a group commit is frequent: every fourth server soon forgets events, and every
/// other one compacts early.
fn small_limits(chance: &mut Rng) -> Launch {
    let launch = Launch::new().arguments(["--cache-mb", "4"]);
    let launch = if chance.u8(..4) == 0 {
        launch.keep_only_events(chance.choice(&["1", "100", "2000"]).expect("some"))
    } else {
        launch
    };
    if chance.bool() { launch.faults(SMALL_LIMITS) } else { launch }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill_under_load() {
    let (mut chance, kills) = (chance(), times(5, 500));
    let launch = small_limits(&mut chance);
    let mut ordeal = Ordeal::begin(launch, CLIENTS, MOST_ROWS, chance);
    for _ in 0..kills {
        ordeal.load_and_kill(MAX_LOAD_MS);
        ordeal.server.verify();
        let launch = small_limits(&mut ordeal.chance);
        ordeal.restart(launch);
    }
    let totals = ordeal.end();
    assert!(totals.acknowledged > u64::from(kills), "next to nothing was written");
    Report {
        test: "kill",
        promise: "`kill -9` under load loses no acknowledged write",
        disturbances: format!("{kills} kills under load"),
        losses: totals.losses(),
        details: format!(
            "{CLIENTS} clients; {} more exports of followers whose events were forgotten",
            totals.followed.exports
        ),
    }
    .print();
}
