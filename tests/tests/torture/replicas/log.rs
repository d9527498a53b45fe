//! The log of events in the tables.

use std::collections::BTreeMap;

use plantd_tests::Plants;
use test_postgres::Database;

/// The revisions in a block of events.
const EVENTS_IN_A_BLOCK: i64 = 1024;

/// The kinds of events in the tables.
pub(super) const CREATED: i64 = 1;
pub(super) const UPDATED: i64 = 2;
pub(super) const DELETED: i64 = 3;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) revision: i64,
    pub(super) kind: i64,
    pub(super) id: i64,
}

/// All events, in their order.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) events: Vec<Logged>,
}

impl Log {
    /// Reads the log. Asserts that revisions grow, and that each is in its block.
    pub(super) fn read(database: &Database, schema: &str) -> Self {
        let rows =
            format!("SELECT block, revisions, kinds, ids FROM {schema}.events ORDER BY block");
        let mut events: Vec<Logged> = Vec::new();
        for row in database.query(&rows).lines() {
            let columns: Vec<Vec<i64>> = row.split('|').map(numbers).collect();
            let [block, revisions, kinds, ids] = &columns[..] else { panic!("a row of 4: {row}") };
            assert!(revisions.len() == kinds.len() && kinds.len() == ids.len(), "{row}");
            for ((revision, kind), id) in revisions.iter().zip(kinds).zip(ids) {
                assert_eq!(revision.div_euclid(EVENTS_IN_A_BLOCK), block[0], "{row}");
                let is_later = events.last().is_none_or(|last| last.revision < *revision);
                assert!(is_later, "the revisions do not grow: {row}");
                events.push(Logged { revision: *revision, kind: *kind, id: *id });
            }
        }
        Self { events }
    }

    /// Asserts that the log leads to exactly these plants, that each has the revision of its last event, and that the
    /// counters agree.
    pub(super) fn assert_leads_to(&self, plants: &Plants, database: &Database, schema: &str) {
        let mut last_events = BTreeMap::new();
        for event in &self.events {
            let before: Option<Logged> = last_events.insert(event.id, *event);
            let was_there = before.is_some_and(|before| before.kind != DELETED);
            let fits = match event.kind {
                CREATED => !was_there,
                UPDATED | DELETED => was_there,
                kind => panic!("there is no kind {kind}"),
            };
            assert!(fits, "{event:?} cannot come after {before:?}");
        }
        let led_to: Vec<i64> =
            last_events.values().filter(|e| e.kind != DELETED).map(|e| e.id).collect();
        assert!(plants.keys().eq(&led_to), "the events do not lead to the plants that are there");
        let rows = format!(
            "SELECT id, revision, (name IS NOT NULL)::integer FROM {schema}.plants ORDER BY id"
        );
        let rows = database.query(&rows);
        let mut rows = rows.lines().map(|row| row.split('|').flat_map(numbers).collect::<Vec<_>>());
        for (id, event) in &last_events {
            let is_there = i64::from(event.kind != DELETED);
            assert_eq!(
                rows.next(),
                Some(vec![*id, event.revision, is_there]),
                "the row of a plant"
            );
        }
        assert_eq!(rows.next(), None, "a row that no event tells of");
        let counts = format!("SELECT sum(events), sum(plants) FROM {schema}.counters");
        let expected = format!("{}|{}", self.events.len(), plants.len());
        assert_eq!(database.query(&counts), expected, "the counters of events and plants");
    }
}

/// The numbers of a column: one, or those of an array.
fn numbers(column: &str) -> Vec<i64> {
    let numbers = column.trim_matches(['{', '}']).split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().expect("a number")).collect()
}
