//! Batches while others read and write.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use plant_domain::{NewPlant, PlantId, PlantPatch, TextPatch};
use tokio::task::yield_now;

use super::store_under_test::{StoreUnderTest, at_once, create, get, new_plant};
use crate::write::Write;
use crate::{
    Author, BATCH_MAX_WRITES, Batch, BatchError, EventKind, EventsAfter, IdempotencyDigest,
    PlantRepository, Precondition, Preconditions, Revision, Revisions, StoreError, StoredPlant,
    Written,
};

pub(super) const fn batch_of(writes: Vec<Write>) -> Batch {
    Batch { writes, by: None, idempotency: None }
}

/// Sends a batch again while the repository is busy.
pub(super) async fn send_batch(
    repository: &Arc<dyn PlantRepository>,
    batch: &Batch,
) -> Result<Vec<Written>, BatchError> {
    loop {
        match repository.batch(batch.clone()).await {
            Err(BatchError::Store(StoreError::Busy)) => yield_now().await,
            outcome => return outcome,
        }
    }
}

fn put(id: i64, name: &str, preconditions: Preconditions) -> Write {
    Write::Put(new_plant(id, name, None), preconditions)
}

fn if_match(revision: Revision) -> Preconditions {
    let if_match = Some(Revisions::OneOf(vec![revision]));
    Preconditions { if_match, if_none_match: None }
}

async fn plants_of(repository: &Arc<dyn PlantRepository>, ids: &[i64]) -> Vec<StoredPlant> {
    let ids: BTreeSet<_> = ids.iter().copied().map(PlantId::from).collect();
    let page = repository.get_all(ids).await.expect("reads");
    page.stored_plants().expect("valid plants")
}

/// Batches that change all plants, and single writes that change one of them. All have read the same revisions.
pub(super) async fn of_batches_and_writes_with_the_same_if_match_exactly_one_succeeds(
    store: &impl StoreUnderTest,
) {
    const CLIENTS: i64 = 16;
    const IDS: [i64; 5] = [i64::MIN, -7, 0, 7, i64::MAX];
    let repository = store.open().await;
    for id in IDS {
        create(&repository, &new_plant(id, "Rosa", None)).await;
    }
    for turn in 0..100 {
        let contested = turn % IDS.len();
        let before = plants_of(&repository, &IDS).await;
        let puts = |client: i64| -> Vec<Write> {
            let name = format!("{turn} {client}");
            let put = |seen: &StoredPlant| put(seen.id.get(), &name, if_match(seen.revision));
            before.iter().map(put).collect()
        };
        let clients = at_once(&repository, 0..CLIENTS, |repository, client| {
            let mut writes = puts(client);
            async move {
                if client % 2 == 0 {
                    let outcome = send_batch(&repository, &batch_of(writes)).await;
                    return (client, outcome.map(|results| results.len()));
                }
                let outcome = repository.write(writes.swap_remove(contested), None).await;
                (client, outcome.map(|_| 1).map_err(BatchError::from))
            }
        });
        let mut winners = Vec::new();
        let mut refusals = Vec::new();
        for (client, outcome) in clients.join_all().await {
            match outcome {
                Ok(written) => winners.push((client, written)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let [(winner, written)] = winners[..] else { panic!("{winners:?} succeed") };
        let name = format!("{turn} {winner}");
        for (place, (before, after)) in
            before.iter().zip(plants_of(&repository, &IDS).await).enumerate()
        {
            if written == IDS.len() || place == contested {
                assert_eq!(after.plant.name(), name);
            } else {
                assert_eq!(after, *before, "{name} changes one plant");
            }
        }
        let first_changed = if written == IDS.len() { 0 } else { contested };
        for refusal in refusals {
            let (BatchError::Refused(_, cause) | BatchError::Store(cause)) = &refusal;
            let is_expected =
                matches!(cause, StoreError::PreconditionFailed(Precondition::IfMatch));
            let is_first =
                !matches!(refusal, BatchError::Refused(place, _) if place != first_changed);
            assert!(is_expected && is_first, "{refusal} after a change of {first_changed}");
        }
    }
}

/// Refused batches, which rename a plant twice before they fail, beside patches of its tag.
pub(super) async fn a_refused_batch_leaves_nothing_to_the_writes_beside_it(
    store: &impl StoreUnderTest,
) {
    let (repository, id) = (store.open().await, PlantId::from(7));
    create(&repository, &new_plant(7, "Rosa", None)).await;
    for turn in 0..100 {
        let clients = at_once(&repository, 0..16, |repository, client| async move {
            if client % 2 == 0 {
                let renamed = |name| put(7, name, Preconditions::default());
                let missing = Write::Delete(PlantId::from(8), Preconditions::default());
                let batch = batch_of(vec![renamed("Salix"), renamed("Populus"), missing]);
                let refusal = send_batch(&repository, &batch).await;
                let is_missing =
                    matches!(refusal, Err(BatchError::Refused(2, StoreError::NoSuchPlant(_))));
                assert!(is_missing, "{refusal:?}");
                return None;
            }
            let tag = TextPatch::Set(format!("tag {turn} {client}"));
            let patch = PlantPatch::new(None, tag).expect("valid");
            let patched = repository.patch(id, patch, Preconditions::default()).await;
            Some(patched.unwrap_or_else(|error| panic!("a patch failed: {error}")))
        });
        let patched: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
        assert!(patched.iter().all(|stored| stored.plant.name() == "Rosa"), "{patched:?}");
        let newest = patched.into_iter().max_by_key(|stored| stored.revision);
        assert_eq!(get(&repository, id).await, newest);
    }
}

/// Each batch is sent several times at the same time.
pub(super) async fn batches_with_a_digest_are_each_carried_out_once(store: &impl StoreUnderTest) {
    const COPIES: i64 = 4;
    let repository = store.open().await;
    create(&repository, &new_plant(-1, "before all", None)).await;
    for turn in 0..100 {
        let begin = repository.newest_event().await.expect("reads");
        let patch = PlantPatch::new(Some(format!("turn {turn}")), TextPatch::Keep).expect("valid");
        let writes = vec![
            Write::Create(new_plant(turn, "Rosa", None), None),
            Write::Patch(PlantId::from(-1), patch, Preconditions::default()),
            Write::Delete(PlantId::from(turn), Preconditions::default()),
            Write::Create(new_plant(turn, "Salix", None), None),
        ];
        let digest = IdempotencyDigest::of_batch("key", format!("{writes:?}").as_bytes());
        let batch = Batch { idempotency: Some(digest), ..batch_of(writes) };
        let copies = at_once(&repository, 0..COPIES, |repository, _| {
            let batch = batch.clone();
            async move { send_batch(&repository, &batch).await }
        });
        let results = copies.join_all().await.into_iter().map(|outcome| outcome.expect("the same"));
        let results: Vec<_> = results.collect();
        assert!(results.iter().all(|one| *one == results[0]), "{results:?}");
        let events =
            repository.events(EventsAfter::Cursor(begin), 100).await.expect("reads").events;
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        use EventKind::{Created, Deleted, Updated};
        assert_eq!(kinds, [Created, Updated, Deleted, Created]);
    }
}

/// All texts have the maximum length.
pub(super) async fn the_largest_batch_is_carried_out(store: &impl StoreUnderTest) {
    let repository = store.open().await;
    let by = Some(Author::new("a".repeat(crate::AUTHOR_MAX_BYTES)).expect("valid"));
    let (name, other) = ("木".repeat(255), "葉".repeat(255));
    let plants = |tag: &str| -> Vec<NewPlant> {
        (0..).take(BATCH_MAX_WRITES).map(|id| new_plant(id, &name, Some(tag))).collect()
    };
    let no_conditions = Preconditions::default;
    let creates = plants(&name).into_iter().map(|it| Write::Create(it, None)).collect();
    let puts = plants(&other).into_iter().map(|it| Write::Put(it, no_conditions())).collect();
    let deletes = plants(&name).into_iter().map(|it| Write::Delete(it.id(), no_conditions()));
    let begin = repository.newest_event().await.expect("reads");
    for (turn, writes) in (0_u8..).zip([creates, puts, deletes.collect()]) {
        let digest = IdempotencyDigest::from_bytes([turn; IdempotencyDigest::BYTES]);
        let batch = Batch { writes, by: by.clone(), idempotency: Some(digest) };
        let results = send_batch(&repository, &batch).await.expect("it is not too large");
        assert_eq!(send_batch(&repository, &batch).await.expect("it is the same"), results);
    }
    assert_eq!(repository.count(None).await.expect("counts"), 0);
    let events = repository.events(EventsAfter::Cursor(begin), 10_000).await.expect("reads").events;
    assert_eq!(events.len(), 3 * BATCH_MAX_WRITES);
    assert!(events.iter().all(|event| event.by == by));
}

/// Callers stop waiting at once, or as soon as a plant of their batch is there.
pub(super) async fn a_canceled_caller_of_a_batch_cancels_no_part_of_it(
    store: &impl StoreUnderTest,
) {
    const BATCHES: i64 = 60;
    let repository = store.open().await;
    for turn in 0..BATCHES {
        let ids = [turn, 1_000 + turn, -1 - turn];
        let creates = ids.map(|id| Write::Create(new_plant(id, "Rosa", None), None));
        let mut batch = pin!(repository.batch(batch_of(creates.into())));
        let mut context = Context::from_waker(Waker::noop());
        while batch.as_mut().poll(&mut context).is_pending() {
            let found = plants_of(&repository, &ids).await.len();
            assert!(found == 0 || found == ids.len(), "{found} plants of a batch");
            if turn % 2 == 0 || found > 0 {
                break;
            }
            yield_now().await;
        }
    }
    create(&repository, &new_plant(i64::MAX, "Salix", None)).await;
    for turn in 0..BATCHES {
        let found = plants_of(&repository, &[turn, 1_000 + turn, -1 - turn]).await.len();
        assert!(found == 3 || (turn % 2 == 0 && found == 0), "{found} plants of a batch");
    }
}

pub(super) async fn a_closed_repository_refuses_batches(store: &impl StoreUnderTest) {
    let repository = store.open().await;
    let batch = |id| batch_of(vec![Write::Create(new_plant(id, "Rosa", None), None)]);
    send_batch(&repository, &batch(1)).await.expect("it is open");
    repository.close().await.expect("closes");
    let refusal = repository.batch(batch(2)).await;
    assert!(matches!(refusal, Err(BatchError::Store(StoreError::Closed))), "{refusal:?}");
    assert_eq!(get(&repository, PlantId::from(2)).await, None);
}
