//! What the bench on PostgreSQL measures: each work with all programs that do it, which are measured one right after
//! the other.

use super::statement::Statement;
use crate::bench::claims::PGBENCH;
use crate::bench::contender::PLANTD;
use crate::bench::load::Script;
use crate::bench::measurement::{CONNECTIONS, Work};
use crate::bench::options::IdOrder;

const PGBENCH_MANY: &str = "pgbench, 64 rows a statement";
const TWO_REPLICAS: &str = "2 replicas of plantd";
const THREE_REPLICAS: &str = "3 replicas of plantd";

/// In the order in which they stand in tables.
pub(super) const PROGRAMS: [&str; 5] =
    [PGBENCH, PLANTD, TWO_REPLICAS, THREE_REPLICAS, PGBENCH_MANY];

/// The same.
pub(super) const WORKS: [Work; 5] =
    [create(1), create(16), create(CONNECTIONS), Work::Read, Work::List];

/// Creates with random ids, as the rows of pgbench have them.
pub(super) const fn create(connections: u32) -> Work {
    Work::Create { connections, ids: IdOrder::Random }
}

/// One measurement, as it is repeated in each round.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) work: Work,
    pub(super) program: &'static str,
    pub(super) connections: u32,
    pub(super) task: Task,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// pgbench carries out a statement, over and over.
    Pgbench(Statement),
    /// wrk puts load on so many servers beside each other.
    Plantd { replicas: usize, script: Script },
}

/// What a round measures, in its order.
pub(super) fn turns() -> Vec<Vec<Entry>> {
    WORKS.into_iter().map(turn).collect()
}

fn turn(work: Work) -> Vec<Entry> {
    let (connections, statement, script) = match work {
        Work::Create { connections, .. } => (connections, Statement::InsertOne, Script::Create),
        Work::List => (CONNECTIONS, Statement::List, Script::List),
        _ => (CONNECTIONS, Statement::Read, Script::Read),
    };
    let entry = |program, task| Entry { work, program, connections, task };
    let mut turn = vec![
        entry(PGBENCH, Task::Pgbench(statement)),
        entry(PLANTD, Task::Plantd { replicas: 1, script }),
    ];
    if work == create(CONNECTIONS) {
        turn.extend([
            entry(TWO_REPLICAS, Task::Plantd { replicas: 2, script }),
            entry(THREE_REPLICAS, Task::Plantd { replicas: 3, script }),
            entry(PGBENCH_MANY, Task::Pgbench(Statement::InsertMany)),
        ]);
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::super::statement::MANY;
    use super::*;

    #[test]
    fn pgbench_does_everything_that_plantd_does() {
        for turn in turns() {
            let programs: Vec<_> = turn.iter().map(|entry| entry.program).collect();
            assert_eq!(programs[..2], [PGBENCH, PLANTD], "{}", turn[0].work);
        }
    }

    #[test]
    fn replicas_and_many_rows_are_compared_at_64_connections() {
        let has_more = |turn: &&Vec<Entry>| turn.len() > 2;
        let turns = turns();
        let [turn] = turns.iter().filter(has_more).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(turn[0].work, create(CONNECTIONS));
        let mut programs: Vec<_> = turn.iter().map(|entry| entry.program).collect();
        programs.sort_unstable();
        let mut all = PROGRAMS;
        all.sort_unstable();
        assert_eq!(programs, all);
        assert!(PGBENCH_MANY.contains(&MANY.to_string()));
    }
}
