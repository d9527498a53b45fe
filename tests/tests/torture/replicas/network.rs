//! What is between the servers and PostgreSQL cuts connections, holds back what is sent, or loses it.

use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Figures, chance, times};
use plantd_tests::wait_until;
use test_postgres::Cluster;

use super::RETURN_DEADLINE;
use super::fleet::Fleet;
use super::follower::Follower;
use super::proxy::{Proxy, Way};

/// How many writes are acknowledged at most before anything is disturbed.
const MOST_WRITES: u64 = 100;

/// After how many bytes connections are cut at most.
const CUT_WITHIN: usize = 40_000;

/// How many connections are cut before the way is open again.
const CUTS: usize = 30;

/// How long the way is closed at most: a while longer than anybody waits for an answer.
const LONGEST_MS: u64 = 8000;

/// What is done to the connections.
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
                    // Those that are still to be cut would be so while nothing is disturbed any more.
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
    let figures = Figures::of(
        "replicas",
        "connections to PostgreSQL that are cut or carry nothing lose nothing",
    )
    .with(cut, "connections cut, some after so many bytes as chance says, some at a commit")
    .with(2 * of_each, "times nothing was carried, for 8 s at most");
    answers
        .add_to(figures)
        .with(longest.as_millis(), "ms at most until all three servers took writes again")
        .with(0, "lost, done twice, or missed or seen twice by who follows the events")
        .print();
}
