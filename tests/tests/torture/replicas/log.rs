//! The log of events in the tables.

use std::collections::BTreeMap;

use plantd_tests::{EventKind, FollowedEvent, Plants};
use test_postgres::Database;

const EVENTS_IN_A_BLOCK: i64 = 1024;

/// Reads all events in order. Asserts that revisions ascend, and that each is in its block.
pub(super) fn read_log(database: &Database, schema: &str) -> Vec<FollowedEvent> {
    let rows = format!("SELECT block, revisions, kinds, ids FROM {schema}.events ORDER BY block");
    let mut events: Vec<FollowedEvent> = Vec::new();
    for row in database.query(&rows).lines() {
        let columns: Vec<Vec<i64>> = row.split('|').map(numbers).collect();
        let [block, revisions, kinds, ids] = &columns[..] else { panic!("a row of 4: {row}") };
        assert!(revisions.len() == kinds.len() && kinds.len() == ids.len(), "{row}");
        for ((revision, kind), id) in revisions.iter().zip(kinds).zip(ids) {
            assert_eq!(revision.div_euclid(EVENTS_IN_A_BLOCK), block[0], "{row}");
            let revision = revision.cast_unsigned();
            let is_later = events.last().is_none_or(|last| last.revision < revision);
            assert!(is_later, "the revisions do not grow: {row}");
            let kind = match kind {
                1 => EventKind::Created,
                2 => EventKind::Updated,
                3 => EventKind::Deleted,
                kind => panic!("there is no kind {kind}"),
            };
            events.push(FollowedEvent { revision, kind, id: *id });
        }
    }
    events
}

/// Asserts that the events lead to exactly these plants, that each plant has the revision of its last event, and that
/// the counters agree.
pub(super) fn assert_leads_to(
    events: &[FollowedEvent],
    plants: &Plants,
    database: &Database,
    schema: &str,
) {
    let mut last_events = BTreeMap::new();
    for event in events {
        let before: Option<&FollowedEvent> = last_events.insert(event.id, event);
        let was_there = before.is_some_and(|before| before.kind != EventKind::Deleted);
        let fits = was_there != (event.kind == EventKind::Created);
        assert!(fits, "{event:?} cannot come after {before:?}");
    }
    let is_there = |event: &FollowedEvent| event.kind != EventKind::Deleted;
    let led_to = last_events.iter().filter(|(_, event)| is_there(event)).map(|(id, _)| id);
    assert!(plants.keys().eq(led_to), "the events do not lead to the plants that are there");
    let rows = format!(
        "SELECT id, revision, (name IS NOT NULL)::integer FROM {schema}.plants ORDER BY id"
    );
    let rows = database.query(&rows);
    let mut rows = rows.lines();
    for (id, event) in &last_events {
        let row = format!("{id}|{}|{}", event.revision, u8::from(is_there(event)));
        assert_eq!(rows.next(), Some(&*row), "the row of a plant");
    }
    assert_eq!(rows.next(), None, "a row that no event tells of");
    let counts = format!("SELECT sum(events), sum(plants) FROM {schema}.counters");
    let expected = format!("{}|{}", events.len(), plants.len());
    assert_eq!(database.query(&counts), expected, "the counters of events and plants");
}

/// The numbers of a column: one, or those of an array.
fn numbers(column: &str) -> Vec<i64> {
    let numbers = column.trim_matches(['{', '}']).split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().expect("a number")).collect()
}
