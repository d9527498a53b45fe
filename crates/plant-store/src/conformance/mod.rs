//! Tests a repository against the contract of [`PlantRepository`].
//!
//! [`check`] tests what needs concurrency, many plants, edge cases or a canceled caller. [`model`] runs random writes,
//! batches, imports, reopens, kills and restores on the repository and on a model, and compares outcomes, revisions,
//! events, histories and pages after each. A repository that passes both fulfills the contract.
//! [`check_checkpoints`] tests [`Checkpoints`](crate::Checkpoints).
//! [`readers_never_see_a_part_of_a_batch`] is a claim of [`check`] that can run for longer. [`damage`] changes a
//! database on disk behind its back, and [`write_next_version`] makes the process write the next version of records.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use plant_store::conformance::model::KeptEvents;
//! use plant_store::conformance::{self, StoreUnderTest, model};
//! use plant_store::{PlantRepository, SledConfig, SledRepository};
//! use proptest::test_runner::Config;
//! use tokio::runtime::Builder;
//!
//! /// The place of the repository under test: a folder, or a schema.
//! struct Place(tempfile::TempDir);
//!
//! #[async_trait]
//! impl StoreUnderTest for Place {
//!     async fn open(&self) -> Arc<dyn PlantRepository> {
//!         Arc::new(SledRepository::open(&SledConfig::new(self.0.path())).expect("opens"))
//!     }
//! }
//!
//! let new_place = || Place(tempfile::tempdir().expect("a folder"));
//! let runtime = Builder::new_multi_thread().enable_time().build().expect("a runtime");
//! runtime.block_on(conformance::check(async || new_place()));
//! proptest::proptest!(Config::with_cases(64), |(operations in model::operations(40))| {
//!     let kept = KeptEvents::AtLeast(40);
//!     runtime.block_on(model::check(&new_place(), &operations, kept));
//! });
//! ```

mod batches;
mod checkpoints;
pub mod model;
mod moments;
mod pages;
mod store_under_test;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use plant_domain::{PlantFilter, PlantId, PlantPatch, TextPatch};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::timeout;

pub use self::checkpoints::check_checkpoints;
pub use self::moments::readers_never_see_a_part_of_a_batch;
pub use self::store_under_test::StoreUnderTest;
/// Makes this process write the next version of records, or this version again.
pub use crate::next_version::switch as write_next_version;
pub use crate::sled::damage;

use self::batches::{
    a_canceled_caller_of_a_batch_cancels_no_part_of_it, a_closed_repository_refuses_batches,
    a_refused_batch_leaves_nothing_to_the_writes_beside_it,
    batches_with_a_digest_are_each_carried_out_once,
    of_batches_and_writes_with_the_same_if_match_exactly_one_succeeds,
    the_largest_batch_is_carried_out,
};
use self::pages::{all_pages, all_tags, filter_of};
use self::store_under_test::{DEADLINE, at_once, create, get, new_plant, put};
use crate::write::Write;
use crate::{
    EventsAfter, IdempotencyDigest, Imported, OnConflict, PAGE_MAX_WORK, PagePlace, PageRequest,
    PlantRepository, Preconditions, Revisions, StoreError,
};

/// How many batches each writer makes while others read.
const ROUNDS: i64 = 300;

/// Checks each claim with a new empty store, and prints the claim on standard error before. Needs a tokio runtime with
/// timers.
///
/// # Panics
///
/// If a claim does not hold, or takes longer than five minutes. The message names the claim.
pub async fn check<P: StoreUnderTest>(new_store: impl AsyncFn() -> P) {
    macro_rules! check_each {
        ($($claim:ident,)*) => {
            $(in_time(stringify!($claim), async { $claim(&new_store().await).await }).await;)*
        };
    }
    check_each!(
        of_many_writes_of_one_plant_at_once_exactly_one_succeeds,
        many_creates_at_once_are_each_carried_out_once,
        imports_leave_room_for_others,
        an_import_waits_for_room,
        pages_have_what_always_exists_while_others_write,
        a_page_is_full_when_enough_plants_match,
        tags_are_counted_while_others_write,
        a_list_and_the_events_after_its_cursor_add_up_to_the_store,
        a_commit_wakes_a_waiting_reader_of_events,
        a_canceled_caller_cancels_nothing,
        a_closed_repository_is_read_but_not_written,
        of_batches_and_writes_with_the_same_if_match_exactly_one_succeeds,
        a_refused_batch_leaves_nothing_to_the_writes_beside_it,
        batches_with_a_digest_are_each_carried_out_once,
        the_largest_batch_is_carried_out,
        a_canceled_caller_of_a_batch_cancels_no_part_of_it,
        a_closed_repository_refuses_batches,
    );
    in_time("readers_never_see_a_part_of_a_batch", async {
        readers_never_see_a_part_of_a_batch(&new_store().await, ROUNDS).await;
    })
    .await;
}

/// Checks one claim. Claims must yield between their steps: otherwise, with a repository that never waits, the timeout
/// would never be polled.
#[expect(clippy::print_stderr, reason = "names the claim at which a test hangs")]
async fn in_time(claim: &str, check: impl Future<Output = ()>) {
    eprintln!("conformance: {claim}");
    let checked = timeout(DEADLINE, check).await;
    assert!(checked.is_ok(), "{claim} did not end within {} s", DEADLINE.as_secs());
}

async fn ids(repository: &Arc<dyn PlantRepository>, filter: &PlantFilter) -> Vec<i64> {
    let plants = all_pages(repository, filter, 1_000).await;
    plants.into_iter().map(|stored| stored.id.get()).collect()
}

async fn of_many_writes_of_one_plant_at_once_exactly_one_succeeds(store: &impl StoreUnderTest) {
    const CLIENTS: i64 = 64;
    let repository = store.open().await;
    let id = PlantId::from(7);
    for turn in 0..4 {
        for kind in ["create", "put", "patch", "delete", "put", "delete"] {
            // All writers have read the same revision.
            let unchanged = match get(&repository, id).await {
                Some(seen) => Preconditions {
                    if_match: Some(Revisions::OneOf(vec![seen.revision])),
                    if_none_match: None,
                },
                None => Preconditions { if_match: None, if_none_match: Some(Revisions::Any) },
            };
            let writes = at_once(&repository, 0..CLIENTS, |repository, number| {
                let name = format!("{turn} {kind} {number}");
                let write = match kind {
                    "create" => Write::Create(new_plant(7, &name, None), None),
                    "put" => Write::Put(new_plant(7, &name, None), unchanged.clone()),
                    "patch" => {
                        let patch = PlantPatch::new(Some(name), TextPatch::Keep);
                        Write::Patch(id, patch.expect("valid"), unchanged.clone())
                    }
                    _ => Write::Delete(id, unchanged.clone()),
                };
                async move { repository.write(write, None).await }
            });
            let mut winners = Vec::new();
            for outcome in writes.join_all().await {
                match (kind, outcome) {
                    (_, Ok(decision)) => winners.push(decision.plant.stored),
                    ("create", Err(StoreError::IdTaken(_)))
                    | ("put" | "patch", Err(StoreError::PreconditionFailed(_)))
                    | ("delete", Err(StoreError::NoSuchPlant(_))) => {}
                    (_, Err(error)) => panic!("a {kind} failed: {error}"),
                }
            }
            assert_eq!(winners.len(), 1, "exactly one {kind} succeeds");
            let left = winners.pop().filter(|_| kind != "delete");
            assert_eq!(get(&repository, id).await, left);
        }
    }
}

/// Each create is sent twice at the same time.
async fn many_creates_at_once_are_each_carried_out_once(store: &impl StoreUnderTest) {
    const CREATES: i64 = 3_000;
    let repository = store.open().await;
    let ids = (0..CREATES).chain(0..CREATES);
    let creates = at_once(&repository, ids, |repository, id| async move {
        // Tags of the maximum length make the events of a group large.
        let tag = format!("{}{}", "木".repeat(254), id % 10);
        let new_plant = new_plant(id, &format!("Rosa {id}"), Some(&tag));
        let digest = Some(IdempotencyDigest::new("key", &new_plant));
        loop {
            match repository.create(new_plant.clone(), digest).await {
                Ok(created) => return (new_plant.id(), created.stored),
                Err(StoreError::Busy) => yield_now().await,
                Err(error) => panic!("creating plant {id} failed: {error}"),
            }
        }
    });
    for (id, stored) in creates.join_all().await {
        assert_eq!(get(&repository, id).await.as_ref(), Some(&stored));
    }
}

async fn a_canceled_caller_cancels_nothing(store: &impl StoreUnderTest) {
    const WRITES: i64 = 50;
    let repository = store.open().await;
    for id in 0..WRITES {
        let plant = new_plant(id, "Rosa", None);
        let mut write = pin!(async {
            if id % 2 == 0 {
                repository.create(plant, None).await.map(drop)
            } else {
                repository.import(vec![plant], OnConflict::Error, None).await.map(drop)
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        while write.as_mut().poll(&mut context).is_pending() {
            if get(&repository, PlantId::from(id)).await.is_some() {
                break;
            }
            yield_now().await;
        }
    }
    // No canceled caller still holds a permit.
    let rows = vec![new_plant(WRITES, "Salix", None)];
    let imported = repository.import(rows, OnConflict::Error, None).await;
    assert_eq!(imported.expect("imports"), [Imported::Created]);
    assert_eq!(repository.count(None).await.expect("counts"), 51);
}

async fn a_closed_repository_is_read_but_not_written(store: &impl StoreUnderTest) {
    let repository = store.open().await;
    let rose = create(&repository, &new_plant(7, "Rosa", None)).await;
    repository.check_ready().await.expect("an open repository is ready");
    repository.close().await.expect("closes");
    repository.close().await.expect("closes");

    assert!(repository.check_ready().await.is_err());
    let refusal = repository.create(new_plant(8, "Salix", None), None).await;
    assert!(matches!(refusal, Err(StoreError::Closed)), "{refusal:?}");
    assert_eq!(get(&repository, rose.id).await, Some(rose));
}

async fn imports_leave_room_for_others(store: &impl StoreUnderTest) {
    const ROWS: i64 = 2_000;
    let repository = store.open().await;
    let imports = at_once(&repository, 0..8, |repository, import| async move {
        // Tags of the maximum length make the events of a group large.
        let tag = "木".repeat(255);
        let rows = (0..ROWS).map(|row| new_plant(import * ROWS + row, "Rosa", Some(&tag)));
        repository.import(rows.collect(), OnConflict::Error, None).await
    });
    // The imports must leave room in the queue: no create may fail as busy.
    for id in 0..50 {
        create(&repository, &new_plant(-1 - id, "Salix", None)).await;
    }
    for imported in imports.join_all().await {
        assert!(imported.expect("imports").iter().all(|imported| *imported == Imported::Created));
    }
    assert_eq!(repository.count(None).await.expect("counts"), 8 * 2_000 + 50);
}

async fn an_import_waits_for_room(store: &impl StoreUnderTest) {
    const CLIENTS: i64 = 4_000;
    let repository = store.open().await;
    let creates = at_once(&repository, 0..CLIENTS, |repository, id| async move {
        // Creates that find the queue full are refused.
        let _ = repository.create(new_plant(id, "Rosa", None), None).await;
    });
    for id in 0..100 {
        let rows = vec![new_plant(-1 - id, "Salix", None)];
        let imported = repository.import(rows, OnConflict::Error, None).await;
        assert_eq!(imported.expect("waits for room"), [Imported::Created]);
    }
    creates.join_all().await;
}

async fn pages_have_what_always_exists_while_others_write(store: &impl StoreUnderTest) {
    const STABLE: i64 = 300;
    let repository = store.open().await;
    let rows = (0..STABLE).map(|id| new_plant(2 * id, "Rosa", Some("Rosaceae"))).collect();
    repository.import(rows, OnConflict::Error, None).await.expect("imports");
    let (began, begun) = oneshot::channel();
    let writer = {
        let repository = Arc::clone(&repository);
        tokio::spawn(async move {
            let mut began = Some(began);
            for turn in 0.. {
                let id = 2 * (turn % STABLE) + 1;
                put(&repository, &new_plant(id, "Salix", Some("Rosaceae"))).await;
                put(&repository, &new_plant(id, "Salix", Some("Salicaceae"))).await;
                let removed = repository.delete(PlantId::from(id), Preconditions::default()).await;
                removed.expect("it is there");
                began.take().map(|began| began.send(()));
                yield_now().await;
            }
        })
    };
    begun.await.expect("the writer goes on");
    for filter in [PlantFilter::default(), filter_of(None, Some("Rosaceae"))] {
        for _ in 0..10 {
            let plants = all_pages(&repository, &filter, 7).await;
            let stable = plants.iter().map(|stored| stored.id.get()).filter(|id| id % 2 == 0);
            assert!(stable.eq((0..STABLE).map(|id| 2 * id)), "a plant is missing");
        }
    }
    assert!(!writer.is_finished(), "the writer did not go on");
    writer.abort();
}

/// The matching plants come after more plants than one page may examine.
async fn a_page_is_full_when_enough_plants_match(store: &impl StoreUnderTest) {
    const PLANTS: i64 = 130_000;
    assert!(PLANTS - 20_000 > i64::try_from(PAGE_MAX_WORK).expect("small"));
    let repository = store.open().await;
    let name = |id: i64| match PLANTS - id {
        1 | 1_000 | 2_000 => format!("Salix {id}"),
        500 | 1_500 | 2_500 => format!("Sålix × {id}"),
        700 | PLANTS => format!("Rosal {id}"),
        // The name has every trigram of "rosal", but not the whole.
        _ => format!("Rosa osal {id}"),
    };
    let tag = |id: i64| if id % 2 == 0 { "Salicaceae" } else { "Rosaceae" };
    let mut plants = (0..PLANTS).map(|id| new_plant(id, &name(id), Some(tag(id)))).peekable();
    while plants.peek().is_some() {
        let rows = plants.by_ref().take(10_000).collect();
        repository.import(rows, OnConflict::Error, None).await.expect("imports");
    }
    for (part, tag, found) in [
        ("SALIX", None, &[128_000, 129_000, 129_999][..]),
        ("lix", None, &[127_500, 128_000, 128_500, 129_000, 129_500, 129_999]),
        ("å", None, &[127_500, 128_500, 129_500]),
        ("×", None, &[127_500, 128_500, 129_500]),
        (" × 1295", None, &[129_500]),
        ("salix", Some("Salicaceae"), &[128_000, 129_000]),
        ("salix", Some("Rosaceae"), &[129_999]),
        ("rosa osal 129998", None, &[129_998]),
        ("rosa salix", None, &[]),
        ("木", None, &[]),
    ] {
        let filter = filter_of(Some(part), tag);
        let request = PageRequest { filter: filter.clone(), place: PagePlace::First, limit: 2 };
        let first = repository.list(request).await.expect("reads");
        assert_eq!(first.len(), found.len().min(2), "the first page of {filter:?}");
        assert_eq!(ids(&repository, &filter).await, found, "{filter:?}");
    }
    // A page may end before it has examined all plants. The next pages then continue.
    let filter = filter_of(Some("rosal"), None);
    assert_eq!(ids(&repository, &filter).await, [0, PLANTS - 700]);
}

async fn tags_are_counted_while_others_write(store: &impl StoreUnderTest) {
    const WRITERS: i64 = 8;
    let repository = store.open().await;
    let mut writers = at_once(&repository, 0..WRITERS, |repository, writer| async move {
        for turn in 0..25 {
            // The plant moves from tag to tag, and always exists.
            put(&repository, &new_plant(writer, "Rosa", Some(["a", "b", "é"][turn % 3]))).await;
        }
    });
    let mut is_complete = false;
    while !writers.is_empty() {
        let _ = writers.try_join_next();
        let sum: u64 = all_tags(&repository, "", 1_000).await.values().sum();
        assert!(sum <= 8 && (!is_complete || sum == 8), "a page is not of one moment: {sum}");
        is_complete = sum == 8;
        yield_now().await;
    }
    assert_eq!(all_tags(&repository, "", 1).await, BTreeMap::from([("a".to_owned(), 8)]));
}

/// Builds a copy as a client does: lists the plants, then applies the events after a cursor from before the list.
async fn a_list_and_the_events_after_its_cursor_add_up_to_the_store(store: &impl StoreUnderTest) {
    const WRITERS: i64 = 8;
    const TURNS: i64 = 25;
    let repository = store.open().await;
    let mut writers = at_once(&repository, 0..WRITERS, |repository, writer| async move {
        for turn in 0..TURNS {
            let id = PlantId::from((writer + turn) % 10);
            put(&repository, &new_plant(id.get(), &format!("{writer} {turn}"), None)).await;
            if turn % 3 == 0 {
                match repository.delete(id, Preconditions::default()).await {
                    Ok(()) | Err(StoreError::NoSuchPlant(_)) => {}
                    Err(error) => panic!("a delete failed: {error}"),
                }
            }
        }
    });
    let mut copies = Vec::new();
    while copies.is_empty() || !writers.is_empty() {
        let _ = writers.try_join_next();
        let cursor = repository.newest_event().await.expect("reads");
        let plants = all_pages(&repository, &PlantFilter::default(), 3).await;
        let plants = plants.into_iter().map(|stored| (stored.id, stored));
        copies.push((cursor, plants.collect::<BTreeMap<_, _>>()));
        yield_now().await;
    }
    let newest = repository.newest_event().await.expect("reads");
    let everything = all_pages(&repository, &PlantFilter::default(), 1_000).await;
    for (mut cursor, mut plants) in copies {
        while cursor != newest {
            let page = repository.events(EventsAfter::Cursor(cursor), 7).await.expect("reads");
            for event in page.events {
                assert!(event.revision() > cursor.revision, "{event:?} comes after {cursor}");
                cursor = event.cursor;
                match get(&repository, event.id).await {
                    Some(stored) => drop(plants.insert(event.id, stored)),
                    None => drop(plants.remove(&event.id)),
                }
            }
            assert_eq!(page.next, cursor);
        }
        assert!(plants.into_values().eq(everything.iter().cloned()), "a copy went astray");
    }
}

async fn a_commit_wakes_a_waiting_reader_of_events(store: &impl StoreUnderTest) {
    let repository = store.open().await;
    for id in 0..20 {
        let before = repository.newest_event().await.expect("reads");
        let mut waiting = pin!(repository.next_events(before, 2));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending(), "there are no events yet");
        let stored = create(&repository, &new_plant(id, "Rosa", None)).await;
        let page = waiting.await.expect("reads");
        let told: Vec<_> = page.events.iter().map(|event| (event.revision(), event.id)).collect();
        assert_eq!(told, [(stored.revision, stored.id)]);
        assert_eq!(page.next, repository.newest_event().await.expect("reads"));
    }
}
