//! Disturbances from outside: each module disturbs servers again and again, and asserts the promises.
//!
//! The short form runs in `cargo xtask test`, the long one in `cargo xtask torture`.

mod archive;
mod away;
mod backups;
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
mod webhooks;

use std::iter::Sum;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::{Followed, Followers, Launch, Ledgers, TestServer, WriteOutcome, store_of};

/// Limits the memtable to so few changes that it is compacted all the time, makes every filter use the search index,
/// and has the pieces of an archive merged all the time.
const SMALL_LIMITS: &str = "changes-in-memory=return(64);plants-scanned-first=return(1);\
    archive-merge-interval-ms=return(50);pieces-of-a-merge=return(3)";

/// The limit of the memtable.
const CHANGES_IN_MEMORY: i64 = 64;

/// A server that is disturbed repeatedly, the ledgers of its clients, and the followers of its events.
struct Ordeal {
    // Before the server, because followers must end before another server gets the port.
    followers: Followers,
    server: TestServer,
    ledgers: Ledgers,
    chance: Rng,
}

struct Totals {
    acknowledged: u64,
    followed: Followed,
}

impl Totals {
    /// What was lost, and out of how much. Nothing was, as every comparison has succeeded.
    fn losses(&self) -> String {
        format!("0 of {} acknowledged writes; {}", self.acknowledged, self.followed)
    }
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let all: Vec<Self> = all.collect();
        Self {
            acknowledged: all.iter().map(|totals| totals.acknowledged).sum(),
            followed: all.iter().map(|totals| totals.followed).sum(),
        }
    }
}

impl Ordeal {
    /// A new server with this many clients, whose imports have at most this many rows.
    fn begin(launch: Launch, clients: i64, most_rows: usize, chance: Rng) -> Self {
        let ledgers = Ledgers::of_clients(clients, most_rows);
        let server = TestServer::start_with(launch);
        let followers = Followers::of(&server);
        followers.allow_forgetting(server.forgets_events());
        Self { followers, server, ledgers, chance }
    }

    /// Disturbs the server, which must end, while each client writes up to its first write in doubt. Returns the
    /// outcome of that write for each client.
    fn disturb(&mut self, disturb: impl FnOnce(&mut TestServer)) -> Vec<WriteOutcome> {
        let Self { followers, server, ledgers, chance } = self;
        let told = ledgers.write(server, chance, || WriteOutcome::is_in_doubt, disturb);
        followers.set_servers([]);
        told
    }

    /// Kills the server after at most this many milliseconds of load.
    fn load_and_kill(&mut self, max_load_ms: u64) {
        let load = Duration::from_millis(self.chance.u64(0..max_load_ms));
        self.disturb(|server| {
            thread::sleep(load);
            server.kill();
        });
    }

    /// Restarts the ended server like this, and compares it with the ledgers and the followers.
    fn restart(&mut self, launch: Launch) {
        self.start(launch);
        let store = store_of(&self.server.client(), "after a restart");
        self.ledgers.compare_and_settle(&store);
        self.followers.assert_have(&self.server.client(), &store, "after a restart");
        self.followers.allow_forgetting(self.server.forgets_events());
    }

    /// Restarts the ended server like this. Compares nothing, so the server may end by itself at any moment.
    fn start(&mut self, launch: Launch) {
        self.server.restart_with(launch);
        if self.server.forgets_events() {
            self.followers.allow_forgetting(true);
        }
        self.followers.set_servers([self.server.address()]);
    }

    fn end(mut self) -> Totals {
        let followed = self.followers.end();
        assert_eq!(self.server.terminate().code(), Some(0), "{}", self.server.stderr());
        self.server.verify();
        Totals { acknowledged: self.ledgers.acknowledged(), followed }
    }
}
