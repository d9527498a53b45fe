//! Kills while the server starts.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use plantd_tests::torture::{Figures, chance, times};
use plantd_tests::{Launch, Ledgers, TestServer, store_of};

use crate::kill::{MOST_ROWS, load_and_kill};

const CLIENTS: i64 = 4;

/// How often a start is killed before the server may start and write again.
const KILLS_IN_A_ROW: u32 = 5;

/// How long clients write before the kill that the starts have to recover from, in milliseconds.
const MAX_LOAD_MS: u64 = 300;

/// What kills have done.
#[derive(Default)]
struct Kills {
    all: u32,
    before_ready: u32,
    /// How many of the starts found an unfinished snapshot.
    with_unfinished_snapshot: u32,
}

impl Kills {
    /// Starts on a folder again and again, and kills each start at some moment.
    fn kill_starts(&mut self, data: &Path, usual: Duration, chance: &mut fastrand::Rng) {
        for _ in 0..KILLS_IN_A_ROW {
            if chance.bool() {
                self.with_unfinished_snapshot += u32::from(leave_unfinished_snapshot(data, chance));
            }
            let mut process = Launch::new().data(data).spawn();
            thread::sleep(usual.mul_f64(1.2 * chance.f64()));
            process.kill();
            self.all += 1;
            self.before_ready += u32::from(process.stdout().is_empty());
        }
    }
}

/// Leaves what a kill leaves that comes while sled writes a snapshot, where there is one to take the
/// bytes from. Says whether there was.
fn leave_unfinished_snapshot(data: &Path, chance: &mut fastrand::Rng) -> bool {
    let sled = data.join("plants/sled");
    let Ok(entries) = fs::read_dir(&sled) else { return false };
    let snapshot = entries.map(|entry| entry.expect("a folder can be read").path()).find(|path| {
        path.file_name().expect("it has a name").to_string_lossy().starts_with("snap.")
    });
    let Some(snapshot) = snapshot else { return false };
    let mut bytes = fs::read(&snapshot).expect("a file can be read");
    bytes.truncate(chance.usize(..=bytes.len()));
    let name = format!("snap.{:016X}.generating", chance.u64(..));
    fs::write(sled.join(name), bytes).expect("a file can be written");
    true
}

#[test]
fn a_start_that_is_killed_again_and_again_is_in_nobodys_way() {
    let (mut chance, wanted) = (chance(), times(10, 500));
    let mut ledgers = Ledgers::of_clients(CLIENTS, MOST_ROWS);
    let mut kills = Kills::default();
    let mut server = TestServer::start();
    while kills.all < wanted {
        load_and_kill(&mut server, &mut ledgers, &mut chance, MAX_LOAD_MS);
        kills.kill_starts(server.data(), server.start_took(), &mut chance);
        server.restart();
        ledgers.compare_and_settle(&store_of(&server.client(), "after killed starts"));
    }
    assert_eq!(server.terminate().code(), Some(0));
    server.verify();
    assert!(kills.before_ready > 0, "every start was ready before its kill");
    assert!(kills.with_unfinished_snapshot > 0, "no start found an unfinished snapshot");
    Figures::of("start", "a kill while it starts, or recovers, is in nobody's way")
        .with(kills.all, "kills")
        .with(kills.before_ready, "of them before it was ready")
        .with(kills.with_unfinished_snapshot, "of them on an unfinished snapshot")
        .with(ledgers.acknowledged(), "acknowledged writes")
        .with(0, "lost")
        .print();
}

#[test]
fn a_first_start_that_is_killed_again_and_again_is_in_nobodys_way() {
    let (mut chance, wanted) = (chance(), times(10, 500));
    let mut kills = Kills::default();
    let usual = TestServer::start().start_took();
    while kills.all < wanted {
        // The folder is not there before.
        let server = TestServer::start_prepared(Launch::new(), "data", |data| {
            kills.kill_starts(data, usual, &mut chance);
        });
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    }
    assert!(kills.before_ready > 0, "every start was ready before its kill");
    Figures::of("start", "a kill while it starts for the first time is in nobody's way")
        .with(kills.all, "kills")
        .with(kills.before_ready, "of them before it was ready")
        .print();
}
