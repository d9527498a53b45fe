//! PostgreSQL crashes, and returns.

use std::time::{Duration, Instant};

use plantd_tests::torture::{Report, chance, count, time, times};
use test_postgres::Cluster;

use super::RETURN_DEADLINE;
use super::fleet::Fleet;
use super::follower::Follower;

/// The most acknowledged writes before the crash.
const MOST_WRITES: u64 = 200;

#[test]
fn nothing_is_lost_when_postgresql_ends_and_service_returns_by_itself_when_it_is_back() {
    let (mut chance, ends) = (chance(), times(2, 100));
    let mut cluster = Cluster::start();
    let mut fleet = Fleet::start(&cluster.url(), &cluster.database().clone());
    let follower = Follower::start(&cluster.url(), &fleet.schema);
    let mut longest = Duration::ZERO;
    for end in 0..ends {
        let before = chance.u64(0..MOST_WRITES);
        let waits_for_readiness = chance.bool();
        fleet.while_written(&mut chance, |meanwhile| {
            meanwhile.answers.wait_for(before);
            if end % 2 == 0 {
                cluster.stop_immediate();
            } else {
                cluster.kill();
            }
            if waits_for_readiness || end == 0 {
                meanwhile.wait_for_readiness(false);
            }
            cluster.start_again();
            let is_back = Instant::now();
            let took = meanwhile.wait_for_service() - is_back;
            assert!(took < RETURN_DEADLINE, "{took:?} until writes were taken again");
            longest = longest.max(took);
        });
    }
    let answers = fleet.end(Some(follower));
    Report {
        test: "replicas",
        promise: "PostgreSQL may crash: nothing is lost, and service returns by itself",
        disturbances: format!(
            "{} immediate shutdowns of PostgreSQL, {} kills of all its processes",
            count(ends.div_ceil(2)),
            count(ends / 2)
        ),
        losses: answers.losses(),
        details: format!("all three servers took writes again within {}; {answers}", time(longest)),
    }
    .print();
}
