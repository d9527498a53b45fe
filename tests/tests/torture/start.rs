//! Kills while the server starts.

use std::path::Path;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{Launch, TestServer};

use crate::Ordeal;
use crate::kill::MOST_ROWS;

const CLIENTS: i64 = 4;

/// How many starts in a row are killed before one may become ready.
const KILLS_IN_A_ROW: u32 = 5;

/// The longest load before the kill from which the starts must recover, in milliseconds.
const MAX_LOAD_MS: u64 = 300;

#[derive(Default)]
struct Kills {
    all: u32,
    before_ready: u32,
}

impl Kills {
    /// Starts on a folder again and again, and kills each start at a random moment.
    fn kill_starts(&mut self, data: &Path, usual: Duration, chance: &mut Rng) {
        for _ in 0..KILLS_IN_A_ROW {
            let mut process = Launch::new().data(data).spawn();
            thread::sleep(usual.mul_f64(1.2 * chance.f64()));
            process.kill();
            self.all += 1;
            self.before_ready += u32::from(process.stdout().is_empty());
        }
    }
}

#[test]
fn repeatedly_killed_starts_do_not_block_the_next_start() {
    let wanted = times(10, 500);
    let mut kills = Kills::default();
    let mut ordeal = Ordeal::begin(Launch::new(), CLIENTS, MOST_ROWS, chance());
    while kills.all < wanted {
        ordeal.load_and_kill(MAX_LOAD_MS);
        let Ordeal { server, chance, .. } = &mut ordeal;
        kills.kill_starts(server.data(), server.start_took(), chance);
        ordeal.restart(Launch::new());
    }
    let totals = ordeal.end();
    assert!(kills.before_ready > 0, "every start was ready before its kill");
    Report {
        test: "start",
        promise: "`kill -9` while a server starts or recovers is not in the way of the next start",
        disturbances: format!("{} kills of starts", kills.all),
        losses: totals.losses(),
        details: format!("{} kills before the server was ready", kills.before_ready),
    }
    .print();
}

#[test]
fn repeatedly_killed_first_starts_do_not_block_the_next_start() {
    let (mut chance, wanted) = (chance(), times(10, 500));
    let mut kills = Kills::default();
    let usual = TestServer::start().start_took();
    while kills.all < wanted {
        // The first start makes the folder.
        let server = TestServer::start_prepared(Launch::new(), "data", |data| {
            kills.kill_starts(data, usual, &mut chance);
        });
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    }
    assert!(kills.before_ready > 0, "every start was ready before its kill");
    Report {
        test: "start",
        promise: "`kill -9` during the very first start is not in the way of the next start",
        disturbances: format!("{} kills of first starts", kills.all),
        losses: "nothing to lose yet".to_owned(),
        details: format!("{} kills before the server was ready", kills.before_ready),
    }
    .print();
}
