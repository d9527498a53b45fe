//! Events in PostgreSQL: late commits, unused blocks, cursors, and followers of several repositories.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plant_store::{
    Event, EventKind, EventRetention, EventsAfter, OnConflict, PlantRepository, StoreError,
};
use plantd_tests::wait_until;

use crate::schema::{
    COUNT_BY_HAND, Resting, Schema, count, create, create_by_hand, get, ids_of_events, keeping,
    numbered, page_of_events, position, wait_until_blocked, wait_until_forgotten,
};

/// An unused block is given up within this time, even on a busy machine.
const MOMENT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_committed_late_are_not_skipped() {
    let schema = Schema::new();
    let repository = Arc::new(schema.open().await);
    let first = create(&repository, 1).await;
    let late = Resting::between(&schema, &create_by_hand(2), COUNT_BY_HAND);
    let third = create(&repository, 3).await;
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [1]);

    let reading = {
        let repository = Arc::clone(&repository);
        let first = position(&repository, first).await;
        tokio::spawn(async move { ids_of_events(&repository, first).await })
    };
    wait_until_blocked(&schema, "generate_series");
    assert!(!reading.is_finished());
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [1]);
    late.commit();
    assert_eq!(reading.await.expect("reads"), [2, 3]);
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    assert_eq!(events.iter().map(|event| event.id.get()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(events.is_sorted_by_key(Event::revision));
    assert_eq!((events[0].revision(), events[2].revision()), (first, third));
    assert_eq!(count(&repository).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_block_delays_the_events_only_briefly() {
    // As many as a crash of PostgreSQL may skip.
    for unused in [1, 32] {
        let schema = Schema::new();
        let repository = schema.open().await;
        let first = create(&repository, 1).await;
        let skip =
            format!("SELECT nextval('SCHEMA.event_blocks') FROM generate_series(1, {unused})");
        schema.query(&skip);
        create(&repository, 2).await;
        let begun = Instant::now();
        assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [1]);
        let first = position(&repository, first).await;
        assert_eq!(ids_of_events(&repository, first).await, [2]);
        assert!(begun.elapsed() < MOMENT, "{unused}: {:?}", begun.elapsed());
        assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [1, 2]);
    }
}

/// Another session has inserted the id of a create, which waits. Meanwhile the events are read; then the session
/// rolls back.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_whose_number_was_given_up_takes_another_one() {
    let schema = Schema::new();
    let repository = Arc::new(schema.open().await);
    let row = "INSERT INTO SCHEMA.plants (id, revision, name, folded_name) VALUES (7, 0, 'a', 'a')";
    let other = Resting::between(&schema, row, "SELECT 1");
    let late = {
        let repository = Arc::clone(&repository);
        tokio::spawn(async move { create(&repository, 7).await })
    };
    wait_until_blocked(&schema, "WITH block");
    // The waiting create holds no lock on the counters.
    schema.query("SELECT slot FROM SCHEMA.counters FOR UPDATE NOWAIT");
    let early = create(&repository, 8).await;
    // This read gives up the number of the waiting create.
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [8]);
    assert!(!late.is_finished());
    other.give_up();
    let late = late.await.expect("the plant is created");
    assert!(late > early, "{late:?} is not later than {early:?}");
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    let events: Vec<_> =
        events.iter().map(|event| (event.kind, event.id.get(), event.revision())).collect();
    assert_eq!(events, [(EventKind::Created, 8, early), (EventKind::Created, 7, late)]);
    assert_eq!(count(&repository).await, 2);
    let stored = get(&repository, 7).await.expect("the plant exists");
    assert_eq!(stored.revision, late);
}

/// A create assumes that its id is free. If the id is taken, the whole statement is rolled back.
#[tokio::test(flavor = "multi_thread")]
async fn creates_of_taken_ids_delay_no_events_and_take_few_numbers() {
    const MANY: i64 = 50;
    let schema = Schema::new();
    let repository = schema.open().await;
    let first = create(&repository, 1).await;
    let numbers_taken = || schema.query("SELECT last_value FROM SCHEMA.event_blocks");
    let refused = async || {
        let taken = repository.create(numbered(1), None).await.expect_err("the id is taken");
        assert!(matches!(taken, StoreError::IdTaken(_)), "{taken}");
    };
    refused().await;
    let last = create(&repository, 2).await;
    // Every block is used or given up by now, so one read suffices.
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    let revisions: Vec<_> = events.iter().map(Event::revision).collect();
    assert_eq!(revisions, [first, last]);

    let before = numbers_taken();
    for _ in 0..MANY {
        refused().await;
    }
    assert_eq!(numbers_taken(), before);
    assert_eq!(count(&repository).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_after_many_unused_blocks_are_shown_when_the_events_before_are_forgotten() {
    const IMPORTED: i64 = 10;
    let mut schema = Schema::new();
    let repository = schema.open().await;
    let start = EventsAfter::Cursor(repository.newest_event().await.expect("reads"));
    let first = create(&repository, 0).await;
    let first = position(&repository, first).await;
    // More than one read can cover.
    schema.query("SELECT nextval('SCHEMA.event_blocks') FROM generate_series(1, 40)");
    let import = repository.import((1..=IMPORTED).map(numbered).collect(), OnConflict::Error, None);
    assert_eq!(import.await.expect("imports").len(), 10);
    let imported: Vec<i64> = (1..=IMPORTED).collect();
    assert_eq!(ids_of_events(&repository, first).await, imported);
    drop(repository);

    // The events of the import are forgotten together or not at all.
    schema.config.retention = keeping(8);
    let repository = schema.open().await;
    wait_until("all before the import to be forgotten", || {
        let is_next =
            "SELECT forgotten_to + 1 = (SELECT max(block) FROM SCHEMA.events) FROM SCHEMA.log";
        schema.query(is_next) == "t"
    });
    assert_eq!(ids_of_events(&repository, first).await, imported);
    let before = repository.events(start, 1).await;
    assert!(matches!(before, Err(StoreError::EventsGone)), "{before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_after_an_unused_block_are_forgotten_without_another_write() {
    const KEPT: u64 = 4;
    let schema = Schema::keeping(KEPT);
    let repository = schema.open().await;
    schema.query("SELECT nextval('SCHEMA.event_blocks')");
    for id in 1..=10 {
        create(&repository, id).await;
    }
    wait_until_forgotten(&schema, KEPT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_a_group_that_a_failover_has_lost_is_refused() {
    let schema = Schema::new();
    let repository = schema.open().await;
    let first = create(&repository, 1).await;
    create(&repository, 2).await;
    let last = EventsAfter::Cursor(repository.newest_event().await.expect("reads"));
    repository.events(last, 10).await.expect("the plant exists");
    // Another group takes the number.
    schema.query("UPDATE SCHEMA.events SET group_id = '\\x01' WHERE 2 = ANY(ids)");
    let lost = repository.events(last, 10).await;
    assert!(matches!(lost, Err(StoreError::EventsGone)), "{lost:?}");
    let first = position(&repository, first).await;
    assert_eq!(ids_of_events(&repository, first).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn young_events_are_kept_beyond_the_number_and_old_ones_are_not() {
    let mut schema = Schema::new();
    schema.config.retention = EventRetention::new(2, Duration::from_secs(3600));
    let repository = schema.open().await;
    for id in 1..=10 {
        create(&repository, id).await;
    }
    // A start looks at once, and a running repository looks rarely while the oldest events are young.
    schema.query("UPDATE SCHEMA.events SET at_ms = 0 WHERE ids[1] <= 4");
    drop(repository);
    let repository = schema.open().await;
    wait_until_forgotten(&schema, 6);
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [5, 6, 7, 8, 9, 10]);
    schema.query("UPDATE SCHEMA.events SET at_ms = 0");
    drop(repository);
    let repository = schema.open().await;
    wait_until_forgotten(&schema, 2);
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [9, 10]);
}
