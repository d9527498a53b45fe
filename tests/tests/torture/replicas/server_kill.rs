//! One of the servers is killed while the others go on.

use plantd_tests::torture::{Report, chance, count, times};

use super::fleet::Fleet;
use super::follower::Follower;

/// The most acknowledged writes before a kill, and after it.
const MOST_WRITES: u64 = 200;

#[test]
fn nothing_is_lost_or_done_twice_by_a_kill_of_one_of_three_servers() {
    let (mut chance, kills) = (chance(), times(3, 50));
    let database = test_postgres::shared();
    let mut fleet = Fleet::start(database.url(), database);
    let follower = Follower::start(database.url(), &fleet.schema);
    for _ in 0..kills {
        let [before, after] = [0; 2].map(|_| chance.u64(0..MOST_WRITES));
        let killed = chance.usize(..fleet.replicas.len());
        fleet.while_written(&mut chance, |meanwhile| {
            meanwhile.answers.wait_for(before);
            meanwhile.replicas[killed].kill(meanwhile.database);
            // The others go on.
            meanwhile.answers.wait_for(after);
            meanwhile.replicas[killed].restart(meanwhile.url, meanwhile.schema);
            meanwhile.wait_for_service();
        });
    }
    let answers = fleet.end(Some(follower));
    Report {
        test: "replicas",
        promise: "`kill -9` of one of three servers on PostgreSQL loses nothing",
        disturbances: format!("{} kills under load", count(kills)),
        losses: answers.losses(),
        details: format!("the other servers went on; {answers}"),
    }
    .print();
}
