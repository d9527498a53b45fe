//! An administrator, or a watchdog of PostgreSQL, ends sessions in the middle of their work.

use plantd_tests::torture::{Report, chance, count, times};

use super::fleet::Fleet;
use super::follower::Follower;

/// The most acknowledged writes in a round before sessions are ended, and after that.
const MOST_WRITES: u64 = 100;

/// The sessions to end: any, those that wait for the disk, those that are committing, and those before a commit.
const VICTIMS: [&str; 4] = [
    "random() < 0.2",
    "lower(wait_event) IN ('walsync', 'walwrite')",
    "state = 'active' AND query LIKE 'COMMIT%'",
    "state = 'idle in transaction'",
];

/// How often PostgreSQL looks for victims, with pauses of a millisecond.
const LOOKS: u32 = 300;

/// The most sessions that are ended in a round.
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
    Report {
        test: "replicas",
        promise: "Sessions of PostgreSQL that are ended in a commit lose nothing",
        disturbances: format!("{} sessions ended, many of them in a commit", count(ended)),
        losses: answers.losses(),
        details: format!("{rounds} rounds; {answers}"),
    }
    .print();
}

/// Ends matching sessions as they appear, and returns how many.
fn end_sessions(database: &test_postgres::Database, schema: &str, victims: &str) -> u32 {
    // A loop within PostgreSQL is quicker than a query for each look.
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
