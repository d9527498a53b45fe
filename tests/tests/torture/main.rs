//! External disturbances: each module disturbs servers repeatedly, and asserts the promises.
//!
//! The short form runs in `cargo xtask test`, the long one in `cargo xtask torture`.

mod damage;
mod disks;
mod drain;
mod faults;
mod kill;
mod load;
mod power;
mod races;
mod replicas;
mod start;

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::{Launch, Ledgers, TestServer, WriteOutcome, store_of};

/// A fault that limits the memtable to so few changes that it is compacted all the time.
const FEW_CHANGES_IN_MEMORY: &str = "changes-in-memory=return(64)";

/// The number of these changes.
const CHANGES_IN_MEMORY: i64 = 64;

/// A server that is disturbed repeatedly, and the ledgers of its clients.
struct Ordeal {
    server: TestServer,
    ledgers: Ledgers,
    chance: Rng,
}

impl Ordeal {
    /// A new server with this many clients, whose imports have at most this many rows.
    fn begin(launch: Launch, clients: i64, most_rows: usize, chance: Rng) -> Self {
        let ledgers = Ledgers::of_clients(clients, most_rows);
        Self { server: TestServer::start_with(launch), ledgers, chance }
    }

    /// Disturbs the server while each client writes up to its first write in doubt. Returns the outcome of
    /// that write for each client.
    fn disturb(&mut self, disturb: impl FnOnce(&mut TestServer)) -> Vec<WriteOutcome> {
        let Self { server, ledgers, chance } = self;
        ledgers.write(server, chance, || WriteOutcome::is_in_doubt, disturb)
    }

    /// Kills the server after at most this many milliseconds of load.
    fn load_and_kill(&mut self, max_load_ms: u64) {
        let load = Duration::from_millis(self.chance.u64(0..max_load_ms));
        self.disturb(|server| {
            thread::sleep(load);
            server.kill();
        });
    }

    /// Starts the server, which has ended, like this, and compares it with the ledgers.
    fn restart(&mut self, launch: Launch) {
        self.server.restart_with(launch);
        self.ledgers.compare_and_settle(&store_of(&self.server.client(), "after a restart"));
    }

    /// Ends the server and verifies its folder. Returns how many writes were acknowledged.
    fn end(mut self) -> u64 {
        assert_eq!(self.server.terminate().code(), Some(0), "{}", self.server.stderr());
        self.server.verify();
        self.ledgers.acknowledged()
    }
}
