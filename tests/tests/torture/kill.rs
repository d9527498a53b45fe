//! Kills while the server writes.

use std::thread;
use std::time::Duration;

use plantd_tests::torture::{Figures, chance, times};
use plantd_tests::{Launch, Ledgers, TestServer, Told, store_of};

use super::FEW_CHANGES_IN_MEMORY;

const CLIENTS: i64 = 12;

/// How many rows an import has at most: with more, most of the time would go to imports.
pub(crate) const MOST_ROWS: usize = 64;

/// How long clients write before a kill at most, in milliseconds.
const MAX_LOAD_MS: u64 = 400;

/// A start that forgets events early, half of the time with the program that folds early too, so that all that a
/// group does happens often.
fn small_limits(chance: &mut fastrand::Rng) -> Launch {
    let keep_events = *chance.choice(&["1", "100", "2000", "1000000"]).expect("some");
    let launch = Launch::new().arguments(["--keep-events", keep_events, "--cache-mb", "4"]);
    if chance.bool() { launch.faults(FEW_CHANGES_IN_MEMORY) } else { launch }
}

/// Lets all clients write until the server is killed, after a while.
pub(crate) fn load_and_kill(
    server: &mut TestServer,
    ledgers: &mut Ledgers,
    chance: &mut fastrand::Rng,
    max_load_ms: u64,
) {
    let load = Duration::from_millis(chance.u64(0..max_load_ms));
    ledgers.write(
        server,
        chance,
        || Told::is_in_doubt,
        |server| {
            thread::sleep(load);
            server.kill();
        },
    );
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill_under_load() {
    let (mut chance, kills) = (chance(), times(10, 500));
    let mut ledgers = Ledgers::of_clients(CLIENTS, MOST_ROWS);
    let mut server = TestServer::start_with(small_limits(&mut chance));
    for _ in 0..kills {
        load_and_kill(&mut server, &mut ledgers, &mut chance, MAX_LOAD_MS);
        server.verify();
        server.restart_with(small_limits(&mut chance));
        ledgers.compare_and_settle(&store_of(&server.client(), "after a kill"));
    }
    assert_eq!(server.terminate().code(), Some(0));
    let acknowledged = ledgers.acknowledged();
    assert!(acknowledged > u64::from(kills), "next to nothing was written");
    Figures::of("kill", "nothing acknowledged is lost by `kill -9` under load")
        .with(kills, "kills")
        .with(acknowledged, "acknowledged writes")
        .with(0, "lost")
        .print();
}
