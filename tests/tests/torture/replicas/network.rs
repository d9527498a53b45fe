//! The network between the servers and PostgreSQL cuts connections, delays bytes or loses them.

use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Report, chance, count, time, times};
use plantd_tests::wait_until;
use test_postgres::Cluster;

use super::RETURN_DEADLINE;
use super::fleet::Fleet;
use super::follower::Follower;
use super::proxy::{Proxy, Way};

/// The most acknowledged writes before a disturbance.
const MOST_WRITES: u64 = 100;

/// The most bytes before a connection is cut.
const CUT_WITHIN: usize = 40_000;

/// How many connections are cut in one disturbance.
const CUTS: usize = 30;

/// The longest interruption, in milliseconds: longer than any deadline of an answer.
const LONGEST_MS: u64 = 8000;

/// A disturbance of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    CutAll,
    CutAnywhere,
    CutCommits,
    Hold,
    Lose,
}

const KINDS: [Disturbance; 5] = [
    Disturbance::CutAll,
    Disturbance::CutAnywhere,
    Disturbance::CutCommits,
    Disturbance::Hold,
    Disturbance::Lose,
];

#[test]
fn nothing_is_lost_or_done_twice_by_connections_that_are_cut_or_carry_nothing() {
    let (mut chance, of_each) = (chance(), times(1, 50));
    let cluster = Cluster::start();
    let proxy = Proxy::before(cluster.port());
    let mut fleet = Fleet::start(&proxy.url(), cluster.database());
    let follower = Follower::start(&proxy.url(), &fleet.schema);
    let mut longest = Duration::ZERO;
    for disturbance in (0..of_each).flat_map(|_| KINDS) {
        let before = chance.u64(0..MOST_WRITES);
        let closed = Duration::from_millis(chance.u64(..LONGEST_MS / u64::from(times(4, 1))));
        let took = fleet.while_written(&mut chance, |meanwhile| {
            meanwhile.answers.wait_for(before);
            match disturbance {
                Disturbance::CutAll => proxy.cut_all(),
                Disturbance::CutAnywhere => {
                    let enough = proxy.cut() + CUTS;
                    proxy.cut_new_within(CUT_WITHIN);
                    proxy.cut_all();
                    wait_until("connections to be cut", || proxy.cut() >= enough);
                    proxy.cut_new_within(0);
                    // Connections that are still to be cut must not be cut after the disturbance.
                    proxy.cut_all();
                }
                Disturbance::CutCommits => {
                    let enough = proxy.cut() + CUTS;
                    proxy.set_cuts_commits(true);
                    wait_until("commits to be cut", || proxy.cut() >= enough);
                    proxy.set_cuts_commits(false);
                }
                Disturbance::Hold | Disturbance::Lose => {
                    let way = if disturbance == Disturbance::Hold { Way::Held } else { Way::Lost };
                    proxy.set_way(way);
                    thread::sleep(closed);
                    proxy.set_way(Way::Open);
                }
            }
            let is_healed = Instant::now();
            meanwhile.wait_for_service() - is_healed
        });
        assert!(took < RETURN_DEADLINE, "{disturbance:?}: {took:?} until writes were taken again");
        longest = longest.max(took);
    }
    let cut = proxy.cut();
    let answers = fleet.end(Some(follower));
    Report {
        test: "replicas",
        promise: "Connections to PostgreSQL that are cut or stall lose nothing",
        disturbances: format!(
            "{} connections cut, after a random number of bytes or at a commit, and {} interruptions of up to 8 s",
            count(cut),
            count(2 * of_each)
        ),
        losses: answers.losses(),
        details: format!("all three servers took writes again within {}; {answers}", time(longest)),
    }
    .print();
}
