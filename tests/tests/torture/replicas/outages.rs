//! Outages of a server, of PostgreSQL, of its sessions, and of the network between them.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{chance, time, times};
use plantd_tests::wait_until;
use test_postgres::{Cluster, Database};

use super::fleet::Fleet;
use super::proxy::{Control, Network, Proxy};

#[test]
fn nothing_is_lost_or_done_twice_by_a_kill_of_one_of_three_servers() {
    const MOST_WRITES: u64 = 200;
    let (mut chance, kills) = (chance(), times(2, 50));
    let database = test_postgres::shared();
    let mut fleet = Fleet::start(database.url(), database);
    for _ in 0..kills {
        let after = chance.u64(0..MOST_WRITES);
        let killed = chance.usize(..fleet.installation.replicas.len());
        fleet.disturb(&mut chance, MOST_WRITES, |installation| {
            installation.kill(killed);
            // The other servers continue.
            installation.answers.wait_for(after);
            installation.restart(killed);
            Instant::now()
        });
    }
    fleet.end(
        "`kill -9` of one of three servers on PostgreSQL loses nothing",
        format!("{kills} kills under load"),
        "the other servers went on",
    );
}

#[test]
fn nothing_is_lost_when_postgresql_ends_and_service_returns_by_itself_when_it_is_back() {
    let (mut chance, ends) = (chance(), times(2, 100));
    let mut cluster = Cluster::start();
    let mut fleet = Fleet::start(&cluster.url(), cluster.database());
    for end in 0..ends {
        let waits_for_readiness = chance.bool();
        fleet.disturb(&mut chance, 200, |installation| {
            if end % 2 == 0 {
                cluster.stop_immediate();
            } else {
                cluster.kill();
            }
            if waits_for_readiness || end == 0 {
                installation.wait_for_readiness(false);
            }
            cluster.start_again();
            Instant::now()
        });
    }
    let took = time(fleet.longest_return);
    fleet.end(
        "PostgreSQL may crash: nothing is lost, and service returns by itself",
        format!(
            "{} immediate shutdowns of PostgreSQL, {} kills of all its processes",
            ends.div_ceil(2),
            ends / 2
        ),
        &format!("all three servers took writes again within {took}"),
    );
}

/// The sessions to end: any, those that wait for the disk, those in a commit, and those before one.
const VICTIMS: [&str; 4] = [
    "random() < 0.2",
    "lower(wait_event) IN ('walsync', 'walwrite')",
    "state = 'active' AND query LIKE 'COMMIT%'",
    "state = 'idle in transaction'",
];

/// How often PostgreSQL looks for victims, once a millisecond.
const LOOKS: u32 = 300;

/// The most sessions that are ended in a round.
const MOST_VICTIMS: u32 = 20;

#[test]
fn nothing_is_lost_or_done_twice_when_sessions_end_in_a_commit() {
    const MOST_WRITES: u64 = 100;
    let (mut chance, rounds) = (chance(), times(4, 50));
    let database = test_postgres::shared();
    let mut fleet = Fleet::start(database.url(), database);
    let mut ended = 0;
    for victims in VICTIMS.iter().cycle().take(usize::try_from(rounds).expect("a few")) {
        let after = chance.u64(1..MOST_WRITES);
        fleet.disturb(&mut chance, MOST_WRITES, |installation| {
            ended += end_sessions(&installation.database, &installation.schema, victims);
            installation.answers.wait_for(after);
            Instant::now()
        });
    }
    assert!(ended > 0, "no session was ended");
    fleet.end(
        "Sessions of PostgreSQL that are ended in a commit lose nothing",
        format!("{ended} sessions ended, many of them in a commit"),
        &format!("{rounds} rounds"),
    );
}

/// Ends matching sessions as they appear, and returns how many.
fn end_sessions(database: &Database, schema: &str, victims: &str) -> u32 {
    // A loop inside PostgreSQL is faster than a query for each look.
    database.query(&format!("CREATE TABLE IF NOT EXISTS {schema}.ended (sessions integer)"));
    database.query(&format!(
        "DO $$ DECLARE of_look integer; ended integer := 0; BEGIN \
           FOR look IN 1..{LOOKS} LOOP \
             SELECT count(pg_terminate_backend(pid)) INTO of_look FROM pg_stat_activity \
               WHERE application_name LIKE '{schema}%' AND {victims}; \
             ended := ended + of_look; \
             EXIT WHEN ended >= {MOST_VICTIMS}; \
             PERFORM pg_sleep(0.001); \
             PERFORM pg_stat_clear_snapshot(); \
           END LOOP; \
           INSERT INTO {schema}.ended VALUES (ended); \
         END $$"
    ));
    let ended = database.query(&format!("DELETE FROM {schema}.ended RETURNING sessions"));
    ended.parse().expect("a number")
}

const CUT_WITHIN: usize = 40_000;

const CUTS: usize = 30;

/// The longest interruption, in milliseconds: longer than any deadline of an answer.
const LONGEST_MS: u64 = 8000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    CutAll,
    CutAnywhere,
    CutCommits,
    Hold,
    Lose,
}

const KINDS: [Interruption; 5] = [
    Interruption::CutAll,
    Interruption::CutAnywhere,
    Interruption::CutCommits,
    Interruption::Hold,
    Interruption::Lose,
];

impl Interruption {
    fn happen(self, network: &Control, closed: Duration) {
        let enough = network.cut.load(Ordering::Relaxed) + CUTS;
        let wait_for_cuts = || {
            wait_until("connections to be cut", || network.cut.load(Ordering::Relaxed) >= enough);
        };
        match self {
            Self::CutAll => network.cut_all(),
            Self::CutAnywhere => {
                network.cut_within.store(CUT_WITHIN, Ordering::Relaxed);
                network.cut_all();
                wait_for_cuts();
                network.cut_within.store(0, Ordering::Relaxed);
                // No planned cut may happen after the disturbance.
                network.cut_all();
            }
            Self::CutCommits => {
                let kinds = [&network.cut_at_create, &network.cut_at_commit];
                let before = kinds.map(|cut| cut.load(Ordering::Relaxed));
                network.cuts_commits.store(true, Ordering::Relaxed);
                wait_for_cuts();
                wait_until("commits of both kinds to be cut", || {
                    kinds
                        .iter()
                        .zip(before)
                        .all(|(cut, before)| cut.load(Ordering::Relaxed) > before)
                });
                network.cuts_commits.store(false, Ordering::Relaxed);
            }
            Self::Hold | Self::Lose => {
                network.set_network(if self == Self::Hold { Network::Held } else { Network::Lost });
                thread::sleep(closed);
                network.set_network(Network::Open);
            }
        }
    }
}

#[test]
fn nothing_is_lost_or_done_twice_by_connections_that_are_cut_or_carry_nothing() {
    let (mut chance, of_each) = (chance(), times(1, 50));
    let cluster = Cluster::start();
    let proxy = Proxy::before(cluster.port());
    let mut fleet = Fleet::start(&proxy.url(), cluster.database());
    for interruption in (0..of_each).flat_map(|_| KINDS) {
        let closed = Duration::from_millis(chance.u64(..LONGEST_MS / u64::from(times(4, 1))));
        fleet.disturb(&mut chance, 100, |_| {
            interruption.happen(&proxy.control, closed);
            Instant::now()
        });
    }
    let (cut, took) = (proxy.control.cut.load(Ordering::Relaxed), time(fleet.longest_return));
    fleet.end(
        "Connections to PostgreSQL that are cut or stall lose nothing",
        format!(
            "{cut} connections cut, after a random number of bytes or at a commit, and {} interruptions of up to 8 s",
            2 * of_each
        ),
        &format!("all three servers took writes again within {took}"),
    );
}
