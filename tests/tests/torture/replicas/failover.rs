//! A primary whose commits wait for a standby. The standby is away, frozen, or takes over.

use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{chance, is_long, time, times};
use plantd_tests::wait_until;
use test_postgres::{Cluster, Database};

use super::fleet::{Fleet, Installation};
use super::replica::{Replica, waiting_sessions};

/// The most acknowledged writes before a disturbance.
const MOST_WRITES: u64 = 100;

/// The number of sessions that must wait for the standby before the primary is killed.
const LEAST_WAITING: u32 = 5;

/// The number of waits for the standby that are canceled before the primary is killed.
const ENDED_WAITS: u32 = 12;

const LONGEST_MS: u64 = 8000;

/// The id of the plant that two servers write in the first round. Each later round takes the next lower id.
const CONTESTED: i64 = -1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sudden,
    /// By a kill while the standby is away, so that only the primary has its newest writes.
    Lonely,
    /// Like `Lonely`, after the waits for the standby were canceled, which makes their writes visible.
    Impatient,
}

const ENDS: [End; 3] = [End::Impatient, End::Lonely, End::Sudden];

pub(super) fn both(primary: &Cluster, standby: &Cluster) -> String {
    let [one, other] = [primary, standby].map(Cluster::port);
    format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres")
}

fn wait_for_waiting(database: &Database, schema: &str) {
    let count = format!("SELECT count(*) >= {LEAST_WAITING} {}", waiting_sessions(schema));
    wait_until("sessions to wait for the standby", || database.query(&count) == "t");
}

/// Terminates all sessions that wait for the standby, which makes their commits visible. Returns how many there were.
pub(super) fn terminate_waiting_sessions(database: &Database, schema: &str) -> u32 {
    let end = format!("SELECT count(pg_terminate_backend(pid)) {}", waiting_sessions(schema));
    database.query(&end).parse().expect("a number")
}

/// One server writes a plant that becomes visible but is only on the primary, and is killed. Another server writes
/// the same plant, finds it unchanged, and has nothing to write. Then the standby takes over.
fn fail_over_after_ended_waits(
    primary: &mut Cluster,
    standby: &mut Cluster,
    contested: i64,
    installation: &mut Installation,
) -> Instant {
    let Installation { probes, schema, url, .. } = &*installation;
    // Servers without other clients.
    let [mut first, second] = [0; 2].map(|_| Replica::start(url, schema));
    let clients = [&first, &second].map(Replica::client);
    standby.stop_immediate();
    wait_for_waiting(primary.database(), schema);
    thread::scope(|scope| {
        let [first_client, second_client] = &clients;
        scope.spawn(move || probes.put_without_hope(first_client, contested));
        let look = format!("SELECT count(*) FROM {schema}.plants WHERE id = {contested}");
        wait_until("a plant to be shown that only the primary has", || {
            terminate_waiting_sessions(primary.database(), schema);
            primary.query(&look) == "1"
        });
        first.server.kill();
        scope.spawn(move || probes.put(second_client, contested));
        let mut ended = 0;
        wait_until("waits for the standby to be ended", || {
            ended += terminate_waiting_sessions(primary.database(), schema);
            ended >= ENDED_WAITS
        });
        primary.kill();
        standby.start_again();
        standby.promote();
        Instant::now()
    })
}

/// Ends the primary, and promotes the standby. Returns the moment after that.
fn fail_over(
    end: End,
    primary: &mut Cluster,
    standby: &mut Cluster,
    contested: i64,
    installation: &mut Installation,
) -> Instant {
    let took_over = match end {
        End::Sudden => {
            primary.kill();
            standby.promote();
            Instant::now()
        }
        End::Lonely => {
            standby.stop_immediate();
            wait_for_waiting(primary.database(), &installation.schema);
            primary.kill();
            standby.start_again();
            standby.promote();
            Instant::now()
        }
        End::Impatient => fail_over_after_ended_waits(primary, standby, contested, installation),
    };
    installation.database = standby.database().clone();
    took_over
}

#[test]
fn nothing_acknowledged_is_lost_when_a_standby_takes_the_place_of_its_primary() {
    let (mut chance, of_each) = (chance(), times(1, 50));
    let mut primary = Cluster::start();
    let mut fleet = Fleet::start(&primary.tcp_url(), primary.database());
    // The short form leaves out the easiest kind.
    let ends = if is_long() { &ENDS[..] } else { &ENDS[..2] };
    for (number, end) in (0..).zip((0..of_each).flat_map(|_| ends)) {
        let mut standby = primary.standby();
        primary.wait_for_commits_on(&standby);
        fleet.move_to(&both(&primary, &standby));
        fleet.disturb(&mut chance, MOST_WRITES, |installation| {
            fail_over(*end, &mut primary, &mut standby, CONTESTED - number, installation)
        });
        primary = standby;
    }
    let took = time(fleet.longest_return);
    let all = of_each * u32::try_from(ends.len()).expect("a few");
    fleet.end(
        "When a synchronous standby takes over from its primary, no acknowledged write is lost",
        format!(
            "{all} primaries killed and their standbys promoted, {of_each} of them while the standby was away, {of_each} \
             after {ENDED_WAITS} waits for it were canceled too"
        ),
        &format!("all three servers took writes again within {took} after the promotion"),
    );
}

#[test]
fn nothing_is_acknowledged_while_the_standby_is_frozen_and_readiness_says_so() {
    let (mut chance, freezes) = (chance(), times(1, 50));
    let primary = Cluster::start();
    let standby = primary.standby();
    primary.wait_for_commits_on(&standby);
    let mut fleet = Fleet::start(&both(&primary, &standby), primary.database());
    let mut longest_ready = Duration::ZERO;
    for freeze in 0..freezes {
        let frozen_for =
            Duration::from_millis(if freeze == 0 { 0 } else { chance.u64(..LONGEST_MS) });
        fleet.disturb(&mut chance, MOST_WRITES, |installation| {
            standby.freeze();
            let frozen = Instant::now();
            let (goes_on, served) = installation.probe_each(|| {
                installation.wait_for_readiness(false);
                longest_ready = longest_ready.max(frozen.elapsed());
                thread::sleep(frozen_for.saturating_sub(frozen.elapsed()));
                let goes_on = Instant::now();
                standby.unfreeze();
                goes_on
            });
            assert!(
                served.iter().all(|served| *served > goes_on),
                "a plant was acknowledged which only the primary had"
            );
            goes_on
        });
    }
    let (told, took) = (time(longest_ready), time(fleet.longest_return));
    fleet.end(
        "While a synchronous standby does not answer, nothing is acknowledged, and `/readyz` says so",
        format!("{freezes} standbys frozen, for up to 8 s"),
        &format!("all three servers said so within {told}, and took writes again within {took}"),
    );
}
