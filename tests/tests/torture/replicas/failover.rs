//! A primary, whose commits wait for a standby, and the standby, which is away, or takes its place.

use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Figures, chance, is_long, times};
use plantd_tests::wait_until;
use test_postgres::{Cluster, Database};

use super::RETURN_DEADLINE;
use super::fleet::{Fleet, Meanwhile};
use super::replica::Replica;

/// How many writes are acknowledged at most before anything is done.
const MOST_WRITES: u64 = 100;

/// How many sessions wait for the standby at least before the primary is killed.
const LEAST_WAITING: u32 = 5;

/// How many waits for the standby are ended before the primary is killed.
const ENDED_WAITS: u32 = 12;

/// How long a standby is frozen at most.
const LONGEST_MS: u64 = 8000;

/// The id of the plant that two servers are to make in the first round; then the one before it, and so on.
const CONTESTED: i64 = -1_000_000;

/// How the primary ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All of a sudden.
    Sudden,
    /// When its standby was away for a while, so that what it has is nowhere else.
    Lonely,
    /// The same, and those who waited for the standby were ended: what they wrote is shown all the same.
    Impatient,
}

const ENDS: [End; 3] = [End::Impatient, End::Lonely, End::Sudden];

fn both(primary: &Cluster, standby: &Cluster) -> String {
    let [one, other] = [primary, standby].map(Cluster::port);
    format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres")
}

/// Of the sessions of the servers, those that wait for the standby.
fn waiting(schema: &str) -> String {
    format!(
        "FROM pg_stat_activity WHERE application_name LIKE '{schema}%' AND wait_event = 'SyncRep'"
    )
}

fn wait_for_waiting(database: &Database, schema: &str) {
    let count = format!("SELECT count(*) >= {LEAST_WAITING} {}", waiting(schema));
    wait_until("sessions to wait for the standby", || database.query(&count) == "t");
}

/// Ends all waits for the standby, and returns how many there were.
fn end_waits(database: &Database, schema: &str) -> u32 {
    let end = format!("SELECT count(pg_terminate_backend(pid)) {}", waiting(schema));
    database.query(&end).parse().expect("a number")
}

/// Has a plant written that is shown and that only the primary has, by a server that then is gone, and the
/// same again by another server: that one finds the plant as it is to be, and has nothing to write. Then the
/// standby takes the place of the primary.
fn fail_over_after_ended_waits(
    primary: &mut Cluster,
    standby: &mut Cluster,
    contested: i64,
    meanwhile: &mut Meanwhile<'_>,
) -> Instant {
    let (probes, schema) = (meanwhile.probes, meanwhile.schema);
    // With nothing else to do, so that they come to it.
    let [mut first, second] = [0; 2].map(|_| Replica::start(meanwhile.url, schema));
    let clients = [&first, &second].map(Replica::client);
    standby.stop_immediate();
    wait_for_waiting(primary.database(), schema);
    thread::scope(|scope| {
        let [first_client, second_client] = &clients;
        scope.spawn(move || probes.put_without_hope(first_client, contested));
        let look = format!("SELECT count(*) FROM {schema}.plants WHERE id = {contested}");
        wait_until("a plant to be shown that only the primary has", || {
            end_waits(primary.database(), schema);
            primary.query(&look) == "1"
        });
        first.server.kill();
        scope.spawn(move || probes.put(second_client, contested));
        let mut ended = 0;
        wait_until("waits for the standby to be ended", || {
            ended += end_waits(primary.database(), schema);
            ended >= ENDED_WAITS
        });
        primary.kill();
        standby.start_again();
        standby.promote();
        Instant::now()
    })
}

/// Ends the primary, and lets the standby take its place. Returns when that is done.
fn fail_over(
    end: End,
    primary: &mut Cluster,
    standby: &mut Cluster,
    contested: i64,
    meanwhile: &mut Meanwhile<'_>,
) -> Instant {
    let took_over = match end {
        End::Sudden => {
            primary.kill();
            standby.promote();
            Instant::now()
        }
        End::Lonely => {
            standby.stop_immediate();
            wait_for_waiting(primary.database(), meanwhile.schema);
            primary.kill();
            standby.start_again();
            standby.promote();
            Instant::now()
        }
        End::Impatient => fail_over_after_ended_waits(primary, standby, contested, meanwhile),
    };
    *meanwhile.database = standby.database().clone();
    took_over
}

#[test]
fn nothing_acknowledged_is_lost_when_a_standby_takes_the_place_of_its_primary() {
    let (mut chance, of_each) = (chance(), times(1, 50));
    let mut primary = Cluster::start();
    let mut fleet = Fleet::start(&primary.tcp_url(), primary.database());
    let mut longest = Duration::ZERO;
    // The last kind is the easiest one.
    let ends = if is_long() { &ENDS[..] } else { &ENDS[..2] };
    for (number, end) in (0..).zip((0..of_each).flat_map(|_| ends)) {
        let mut standby = primary.standby();
        primary.wait_for_commits_on(&standby);
        fleet.move_to(&both(&primary, &standby));
        let before = chance.u64(1..MOST_WRITES);
        let took = fleet.while_written(&mut chance, |meanwhile| {
            meanwhile.answers.wait_for(before);
            let contested = CONTESTED - number;
            let took_over = fail_over(*end, &mut primary, &mut standby, contested, meanwhile);
            meanwhile.wait_for_service() - took_over
        });
        assert!(took < RETURN_DEADLINE, "{end:?}: {took:?} until writes were taken again");
        longest = longest.max(took);
        primary = standby;
    }
    let answers = fleet.end(None);
    let figures = Figures::of(
        "replicas",
        "a synchronous standby takes its primary's place: nothing acknowledged is lost",
    );
    let figures = figures
        .with(
            of_each * u32::try_from(ends.len()).expect("a few"),
            "primaries killed, and their standbys promoted",
        )
        .with(of_each, "of them killed when the standby was away")
        .with(
            of_each,
            &format!("killed when it was away and {ENDED_WAITS} waits for it were ended"),
        );
    answers
        .add_to(figures)
        .with(
            longest.as_millis(),
            "ms at most from the end of the promotion until all three servers took writes again",
        )
        .with(0, "lost or done twice")
        .print();
}

#[test]
fn nothing_is_acknowledged_while_the_standby_is_frozen_and_readiness_says_so() {
    let (mut chance, freezes) = (chance(), times(1, 50));
    let primary = Cluster::start();
    let standby = primary.standby();
    primary.wait_for_commits_on(&standby);
    let mut fleet = Fleet::start(&both(&primary, &standby), primary.database());
    let (mut longest_ready, mut longest) = (Duration::ZERO, Duration::ZERO);
    for freeze in 0..freezes {
        let before = chance.u64(1..MOST_WRITES);
        let frozen_for =
            Duration::from_millis(if freeze == 0 { 0 } else { chance.u64(..LONGEST_MS) });
        fleet.while_written(&mut chance, |meanwhile| {
            meanwhile.answers.wait_for(before);
            standby.freeze();
            let frozen = Instant::now();
            let (goes_on, served) = meanwhile.probe_each(|| {
                meanwhile.wait_for_readiness(false);
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
            let took = meanwhile.wait_for_service() - goes_on;
            longest = longest.max(took);
        });
        assert!(longest < RETURN_DEADLINE, "{longest:?} until writes were taken again");
    }
    let answers = fleet.end(None);
    let figures = Figures::of(
        "replicas",
        "while a synchronous standby does not answer nothing is acknowledged, and `/readyz` says so",
    );
    answers
        .add_to(figures.with(freezes, "standbys frozen, for 8 s at most"))
        .with(longest_ready.as_millis(), "ms at most until all three servers said so")
        .with(longest.as_millis(), "ms at most until all three took writes again")
        .print();
}
