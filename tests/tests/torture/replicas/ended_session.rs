//! An administrator, or what watches over PostgreSQL, ends sessions in the middle of what they do.

use plantd_tests::torture::{Figures, chance, times};

use super::fleet::Fleet;
use super::follower::Follower;

/// How many writes are acknowledged at most in a round before sessions are ended, and after it.
const MOST_WRITES: u64 = 100;

/// Which sessions are ended: any, those that wait for the disk, and those that are just committing.
const VICTIMS: [&str; 4] = [
    "random() < 0.2",
    "lower(wait_event) IN ('walsync', 'walwrite')",
    "state = 'active' AND query LIKE 'COMMIT%'",
    "state = 'idle in transaction'",
];

/// For how long the server looks for victims, in looks, a millisecond each.
const LOOKS: u32 = 300;

/// How many sessions are ended at most in a round.
const MOST_VICTIMS: u32 = 20;

#[test]
fn nothing_is_lost_or_done_twice_by_sessions_that_are_ended_in_a_commit() {
    let (mut chance, rounds) = (chance(), times(4, 50));
    let database = test_postgres::shared();
    let mut fleet = Fleet::start(database.url(), database);
    let follower = Follower::start(database.url(), &fleet.schema);
    let mut ended = 0;
    for round in 0..rounds {
        let [before, after] = [0; 2].map(|_| chance.u64(1..MOST_WRITES));
        let victims = VICTIMS[usize::try_from(round).expect("a few") % VICTIMS.len()];
        ended += fleet.while_written(&mut chance, |meanwhile| {
            meanwhile.answers.wait_for(before);
            let ended = end_sessions(meanwhile.database, meanwhile.schema, victims);
            meanwhile.answers.wait_for(after);
            meanwhile.wait_for_service();
            ended
        });
    }
    let answers = fleet.end(Some(follower));
    assert!(ended > 0, "no session was ended");
    let figures = Figures::of("replicas", "sessions that are ended in a commit lose nothing")
        .with(rounds, "rounds")
        .with(ended, "sessions ended, many of them in a commit");
    answers
        .add_to(figures)
        .with(0, "lost, done twice, or missed or seen twice by who follows the events")
        .print();
}

/// Ends sessions as they come along, and returns how many.
fn end_sessions(database: &test_postgres::Database, schema: &str, victims: &str) -> u32 {
    // PostgreSQL looks by itself, which is quicker than whoever would have to ask it each time.
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
