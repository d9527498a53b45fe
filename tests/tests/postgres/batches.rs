//! Batches: several writes in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plant_domain::{PlantFilter, PlantId, PlantPatch, TagPatch};
use plant_store::write::Write;
use plant_store::{
    Batch, BatchError, Event, EventKind, EventsAfter, IdempotencyDigest, PagePlace, PageRequest,
    PlantRepository, Preconditions, Revision, StoreError, Written,
};
use plantd_tests::{wait_for, wait_until};
use test_postgres::Cluster;
use tokio::task::JoinSet;

use crate::schema::{
    Schema, count, create, delete, get, ids_of_events, listed_ids, numbered, page_of_events, plant,
    position, wait_until_forgotten,
};

fn batch(writes: Vec<Write>) -> Batch {
    Batch { writes, by: None, idempotency: None }
}

fn put(id: i64, name: &str) -> Write {
    Write::Put(plant(id, name, None), Preconditions::default())
}

fn tagging(id: i64, tag: &str) -> Write {
    let patch = PlantPatch::new(None, TagPatch::Set(tag.to_owned())).expect("valid");
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
async fn a_batch_is_carried_out_as_a_whole_or_not_at_all() {
    let schema = Schema::new();
    let repository = schema.open().await;
    create(&repository, 1).await;
    let removal = Write::Delete(PlantId::from(1), Preconditions::default());
    let writes = vec![
        Write::Create(numbered(2), None),
        tagging(2, "Salix"),
        removal.clone(),
        Write::Create(numbered(2), None),
    ];
    let refused = repository.batch(batch(writes.clone())).await;
    let Err(BatchError::Refused(3, StoreError::IdTaken(_))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(listed_ids(&repository).await, [1]);
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [1]);

    let done = repository.batch(batch(writes[..3].to_vec())).await.expect("it is carried out");
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.id.get())).collect();
    let expected = [
        (EventKind::Created, 1),
        (EventKind::Created, 2),
        (EventKind::Updated, 2),
        (EventKind::Deleted, 1),
    ];
    assert_eq!(told, expected);
    assert_eq!(revision_of(&done[0]), events[1].revision());
    assert_eq!(revision_of(&done[1]), events[2].revision());
    assert_eq!(done[2], Written::Deleted);
    let stored = get(&repository, 2).await.expect("the plant exists");
    assert_eq!((stored.plant.tag(), stored.revision), (Some("Salix"), events[2].revision()));
    assert_eq!(repository.count(Some("Salix")).await.expect("counts"), 1);
    assert_eq!(count(&repository).await, 1);

    // Without any change, nothing is written.
    repository.batch(batch(vec![tagging(2, "Salix")])).await.expect("it is carried out");
    assert_eq!(page_of_events(&repository, EventsAfter::Oldest).await.len(), 4);
}

/// Two servers put the same name into all plants at once, and single writes change the tag of one. Every reader sees one
/// name.
#[tokio::test(flavor = "multi_thread")]
async fn batches_and_single_writes_of_two_servers_leave_no_plant_out() {
    const PLANTS: i64 = 12;
    const TURNS: i64 = 20;
    let schema = Schema::new();
    let repositories = schema.open_two().await;
    let all = |name: &str| batch((0..PLANTS).map(|id| put(id, name)).collect());
    repositories[0].batch(all("start")).await.expect("it is carried out");
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = JoinSet::new();
    for (place, repository) in (0_i64..).zip(&repositories) {
        let (repository, is_over) = (Arc::clone(repository), Arc::clone(&is_over));
        others.spawn(async move {
            let mut turn = place;
            while !is_over.load(Ordering::Relaxed) {
                let written = repository.write(tagging(turn % PLANTS, &turn.to_string()), None);
                written.await.expect("no batch makes a single write fail");
                turn += 1;
            }
        });
    }
    for repository in &repositories {
        let (repository, is_over) = (Arc::clone(repository), Arc::clone(&is_over));
        others.spawn(async move {
            let filter = PlantFilter::default();
            while !is_over.load(Ordering::Relaxed) {
                let request =
                    PageRequest { filter: filter.clone(), place: PagePlace::First, limit: 100 };
                let ids: BTreeSet<_> = (0..PLANTS).map(PlantId::from).collect();
                let mut snapshot = repository.snapshot().await.expect("there is room");
                let (first, rest) = {
                    let limit = usize::try_from(PLANTS / 2).expect("small");
                    let first = snapshot.list(PageRequest { limit, ..request.clone() });
                    let first = first.await.expect("reads");
                    let place = PagePlace::after(first.next);
                    let rest = snapshot.list(PageRequest { place, ..request.clone() });
                    (first, rest.await.expect("reads"))
                };
                let by_snapshot =
                    [first.stored_plants(), rest.stored_plants()].map(|page| page.expect("valid"));
                let listed = repository.list(request).await.expect("reads");
                let read = repository.get_all(ids).await.expect("reads");
                for page in [
                    by_snapshot.concat(),
                    listed.stored_plants().expect("valid"),
                    read.stored_plants().expect("valid"),
                ] {
                    let names: BTreeSet<_> =
                        page.iter().map(|stored| stored.plant.name().to_owned()).collect();
                    assert_eq!(
                        (page.len(), names.len()),
                        (usize::try_from(PLANTS).expect("few"), 1),
                        "{names:?}"
                    );
                }
            }
        });
    }
    let mut batches = JoinSet::new();
    for (place, repository) in repositories.iter().enumerate() {
        let repository = Arc::clone(repository);
        batches.spawn(async move {
            for turn in 0..TURNS {
                let name = format!("{place} {turn}");
                let writes = (0..PLANTS).map(|id| put(id, &name)).collect();
                repository.batch(batch(writes)).await.expect("it is carried out");
            }
        });
    }
    batches.join_all().await;
    is_over.store(true, Ordering::Relaxed);
    others.join_all().await;
    // The events of a batch have consecutive places.
    let mut after = EventsAfter::Oldest;
    let mut events = Vec::new();
    loop {
        let page = repositories[0].events(after, 1_000).await.expect("reads");
        if page.events.is_empty() {
            break;
        }
        after = EventsAfter::Cursor(page.next);
        events.extend(page.events);
    }
    let mut blocks = BTreeMap::<u64, Vec<i64>>::new();
    for event in &events {
        blocks.entry(event.revision().get() / 1024).or_default().push(event.id.get());
    }
    let whole = (0..PLANTS).collect::<Vec<_>>();
    let of_batches = blocks.values().filter(|ids| **ids == whole).count();
    assert_eq!(i64::try_from(of_batches), Ok(1 + 2 * TURNS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_sent_again_to_another_server_is_carried_out_once_and_answered_alike() {
    let schema = Schema::new();
    let repositories = schema.open_two().await;
    for turn in 0..20 {
        let [one, other, gone] = [turn * 10, turn * 10 + 1, turn * 10 + 2];
        create(&repositories[0], other).await;
        create(&repositories[0], gone).await;
        let unchanged = tagging(other, "same");
        repositories[0].write(unchanged.clone(), None).await.expect("there is a plant");
        let writes = vec![
            Write::Create(numbered(one), None),
            unchanged,
            tagging(one, "Rosa"),
            put(other, "put"),
            Write::Delete(PlantId::from(gone), Preconditions::default()),
            tagging(one, "Salix"),
        ];
        let digest = IdempotencyDigest::of_batch("key", &turn.to_be_bytes());
        let batch = Batch { writes, by: None, idempotency: Some(digest) };
        let sent = repositories.each_ref().map(|repository| {
            let (repository, batch) = (Arc::clone(repository), batch.clone());
            tokio::spawn(async move { repository.batch(batch).await.expect("it is carried out") })
        });
        let [first, second] = sent;
        let (first, second) = (first.await.expect("a batch"), second.await.expect("a batch"));
        assert_eq!(first, second, "{turn}");
        let stored = get(&repositories[1], one).await.expect("the plant exists");
        assert_eq!(first[5], Written::Patched(stored));
        // Later changes do not change the answer.
        delete(&repositories[1], one).await;
        create(&repositories[1], gone).await;
        assert_eq!(repositories[1].batch(batch).await.expect("it is known"), first);
        let events = ids_of_events(&repositories[0], EventsAfter::Oldest).await;
        let created = events.iter().filter(|id| **id == one).count();
        assert_eq!(created, 4, "{events:?}");
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
        wait_until("the changes of tags to be folded", || {
            schema.query("SELECT count(*) FROM SCHEMA.tag_changes") == "0"
        });
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
