//! Batches: several writes in one transaction.

use std::sync::Arc;

use plant_domain::{PlantId, PlantPatch, TextPatch};
use plant_store::write::Write;
use plant_store::{
    Batch, BatchError, Event, EventsAfter, IdempotencyDigest, PlantRepository, Preconditions,
    Revision, StoreError, Written,
};
use plantd_tests::{wait_for, wait_until};
use test_postgres::Cluster;

use crate::schema::{
    Schema, count, create, get, ids_of_events, listed_ids, numbered, page_of_events, plant,
    position, wait_until_folded, wait_until_forgotten,
};

fn batch(writes: Vec<Write>) -> Batch {
    Batch { writes, by: None, idempotency: None }
}

fn put(id: i64, name: &str) -> Write {
    Write::Put(plant(id, name, None), Preconditions::default())
}

fn tagging(id: i64, tag: &str) -> Write {
    let patch = PlantPatch::new(None, TextPatch::Set(tag.to_owned())).expect("valid");
    Write::Patch(PlantId::from(id), patch, Preconditions::default())
}

fn revision_of(written: &Written) -> Revision {
    match written {
        Written::Created(created) => created.stored.revision,
        Written::Put(put) => put.stored.revision,
        Written::Patched(stored) => stored.revision,
        Written::Deleted => panic!("it is deleted"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_known_for_as_long_as_its_events_are_kept() {
    const KEPT: u64 = 4;
    let schema = Schema::keeping(KEPT);
    let repository = schema.open().await;
    let digest = Some(IdempotencyDigest::of_batch("key", b"text"));
    let writes = vec![Write::Create(numbered(1), None), Write::Create(numbered(2), None)];
    let batch = Batch { writes, by: None, idempotency: digest };
    let first = repository.batch(batch.clone()).await.expect("it is carried out");
    assert_eq!(repository.batch(batch.clone()).await.expect("it is known"), first);
    for id in 10..20 {
        create(&repository, id).await;
    }
    wait_until_forgotten(&schema, KEPT);
    let refused = repository.batch(batch).await;
    assert!(matches!(refused, Err(BatchError::Refused(0, StoreError::IdTaken(_)))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_writes_nothing_keeps_no_plant_locked() {
    let schema = Schema::new();
    let repository = schema.open().await;
    create(&repository, 1).await;
    let tagged = |idempotency| Batch { idempotency, ..batch(vec![tagging(1, "Salix")]) };
    let digest = Some(IdempotencyDigest::of_batch("key", b"text"));
    let first = repository.batch(tagged(digest)).await.expect("it is carried out");
    let refused = batch(vec![tagging(1, "Quercus"), Write::Create(numbered(1), None)]);
    let (retry, unchanged) = (tagged(digest), tagged(None));
    for (batch, is_refused) in [(refused, true), (retry, false), (unchanged, false)] {
        let outcome = repository.batch(batch.clone()).await;
        assert_eq!(outcome.as_ref().ok(), (!is_refused).then_some(&first), "{batch:?}");
        // Fails if another session has locked the plant.
        schema.query("SELECT id FROM SCHEMA.plants WHERE id = 1 FOR UPDATE NOWAIT");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tag_changes_of_a_batch_are_folded() {
    let schema = Schema::new();
    let repository = schema.open().await;
    for id in 1..=3 {
        let writes = vec![Write::Create(numbered(id), None), tagging(id, "Salix")];
        repository.batch(batch(writes)).await.expect("it is carried out");
        wait_until_folded(&schema);
    }
}

/// The batch is on the disk of the primary, and waits for a standby, when its session ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_answer_is_lost_after_its_commit_is_found_and_not_carried_out_again() {
    let cluster = Cluster::start();
    let schema = Schema::of(cluster.database());
    let repository = Arc::new(schema.open().await);
    create(&repository, 1).await;
    cluster.set("synchronous_standby_names", "missing");
    let sent = {
        let repository = Arc::clone(&repository);
        let writes = vec![tagging(1, "Salix"), Write::Create(numbered(2), None)];
        tokio::spawn(async move { repository.batch(batch(writes)).await })
    };
    let waiting = "SELECT array_agg(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";
    let sessions = wait_for("the batch to wait for the standby", || {
        Some(cluster.query(waiting)).filter(|sessions| !sessions.is_empty())
    });
    // These sessions and no others: the one that looks for the batch waits for the standby too.
    let of_batch = format!("FROM pg_stat_activity WHERE pid = ANY ('{sessions}')");
    cluster.query(&format!("SELECT count(pg_terminate_backend(pid)) {of_batch}"));
    wait_until("the sessions to end", || {
        cluster.query(&format!("SELECT count(*) {of_batch}")) == "0"
    });
    cluster.set("synchronous_standby_names", "");
    let done = sent.await.expect("no panic").expect("it is found");
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    assert_eq!(events.iter().map(|event| event.id.get()).collect::<Vec<_>>(), [1, 1, 2]);
    let revisions: Vec<_> = events[1..].iter().map(Event::revision).collect();
    assert_eq!(done.iter().map(revision_of).collect::<Vec<_>>(), revisions);
}

/// A trigger ends the session of the first commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_session_ends_before_its_commit_is_carried_out_once() {
    let schema = Schema::new();
    let repository = schema.open().await;
    let first = create(&repository, 1).await;
    schema.query(
        "CREATE SEQUENCE SCHEMA.ends; \
         CREATE FUNCTION SCHEMA.end_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF nextval('SCHEMA.ends') = 1 THEN \
             PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); \
           END IF; \
           RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON SCHEMA.events DEFERRABLE INITIALLY DEFERRED \
           FOR EACH ROW WHEN (cardinality(NEW.ids) = 2) EXECUTE FUNCTION SCHEMA.end_session()",
    );
    let writes = vec![tagging(1, "Salix"), Write::Create(numbered(2), None)];
    let done = repository.batch(batch(writes)).await.expect("it is carried out");
    assert_eq!(schema.query("SELECT last_value FROM SCHEMA.ends"), "2");
    let first = position(&repository, first).await;
    assert_eq!(ids_of_events(&repository, first).await, [1, 2]);
    let stored = get(&repository, 2).await.expect("the plant exists");
    assert_eq!(stored.revision, revision_of(&done[1]));
    assert_eq!(count(&repository).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_a_plant_that_postgres_refuses_is_refused_and_others_are_taken() {
    let schema = Schema::new();
    let repository = schema.open().await;
    create(&repository, 1).await;
    schema.query("ALTER TABLE SCHEMA.plants ADD CHECK (name <> 'bad')");
    let writes = vec![tagging(1, "Salix"), put(2, "bad")];
    let refused = repository.batch(batch(writes)).await;
    let Err(BatchError::Store(StoreError::Refused(_))) = refused else { panic!("{refused:?}") };
    assert_eq!(get(&repository, 1).await.expect("the plant exists").plant.tag(), None);
    create(&repository, 3).await;
    assert_eq!(listed_ids(&repository).await, [1, 3]);
}
