//! Histories outlive restores, and are forgotten with their events.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use plant_domain::{NewPlant, PlantId};
use plant_store::conformance::damage::contents;
use plant_store::write::Write;
use plant_store::{
    Author, Batch, EventKind, EventRetention, EventsAfter, HistoryPage, HistoryRequest,
    IdempotencyDigest, PlantRepository, PointInTime, Preconditions, SledRepository, StoreError,
};

mod common;
#[path = "common/histories.rs"]
mod histories;

use common::{Store, assert_sound, plants_of, restore};
use histories::{history_of, wait_for_merges};

const IDS: Range<i64> = 0..20;

fn author(name: &str) -> Author {
    Author::new(name).expect("valid")
}

fn put(id: i64, name: String) -> Write {
    Write::Put(NewPlant::new(id, name, None).expect("valid"), Preconditions::default())
}

/// Makes random changes of few plants, some of them in batches.
async fn change_often(repository: &SledRepository, times: usize, by: &str, chance: &mut Rng) {
    for _ in 0..times {
        let id = chance.i64(IDS);
        let name = format!("Rosa {}", chance.u64(..));
        let put = |id| put(id, name.clone());
        match chance.u8(..5) {
            0 => {
                let delete = Write::Delete(PlantId::from(id), Preconditions::default());
                match repository.write(delete, Some(author(by))).await {
                    Ok(_) | Err(StoreError::NoSuchPlant(_)) => {}
                    Err(error) => panic!("a delete failed: {error}"),
                }
            }
            1 => {
                let writes = vec![put(id), put((id + 7) % IDS.end), put((id + 9) % IDS.end)];
                let batch = Batch { writes, by: Some(author(by)), idempotency: None };
                repository.batch(batch).await.expect("puts are not refused");
            }
            _ => drop(repository.write(put(id), Some(author(by))).await.expect("puts")),
        }
    }
}

/// The history of each plant of which something is known.
async fn histories(repository: &SledRepository) -> BTreeMap<i64, HistoryPage> {
    let mut histories = BTreeMap::new();
    for id in IDS {
        let request = HistoryRequest { id: PlantId::from(id), before: None, limit: 10_000 };
        match repository.history(request).await {
            Ok(history) => drop(histories.insert(id, history)),
            Err(StoreError::NoSuchPlant(_)) => {}
            Err(error) => panic!("reading the history of plant {id} failed: {error}"),
        }
    }
    histories
}

fn changes(histories: &BTreeMap<i64, HistoryPage>) -> usize {
    histories.values().map(|history| history.changes.len()).sum()
}

/// Opens a store of another folder, without an archive.
async fn move_to(store: &mut Store, name: &str, retention: u64) {
    store.close().await;
    store.config.directory = store.path(name);
    store.config.archive = None;
    store.config.retention = EventRetention::new(retention, Duration::ZERO);
    store.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_with_their_authors_survive_a_restore_an_archive_and_a_restore_of_the_restore() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(21));
    store.close().await;
    store.config.retention = EventRetention::default();
    store.open();
    change_often(store.repository(), 200, "alice", &mut chance).await;
    let batch = Batch {
        writes: vec![put(3, "Salix".to_owned()), put(4, "Populus".to_owned())],
        by: Some(author("alice")),
        idempotency: Some(IdempotencyDigest::of_batch("key", b"willows")),
    };
    let results = store.repository().batch(batch.clone()).await.expect("puts");
    let backup = store.back_up("backup").await;
    let in_backup = histories(store.repository()).await;
    assert!(in_backup.values().all(|history| !history.is_cut && history.next.is_none()));
    change_often(store.repository(), 200, "bob", &mut chance).await;
    let at_the_end = histories(store.repository()).await;
    store.close().await;

    let alone = restore(&backup, &store.path("alone"), None);
    assert_eq!(histories(&alone).await, in_backup);
    // The log of events begins anew, but the batch is known.
    let begin = alone.newest_event().await.expect("reads");
    let page = alone.events(EventsAfter::Oldest, 10).await.expect("reads");
    assert!(page.events.is_empty() && page.next == begin, "{page:?}");
    assert_eq!(alone.batch(batch).await.expect("it is known"), results);
    assert_eq!(alone.newest_event().await.expect("reads"), begin);
    drop(alone);

    let archive = PointInTime::newest(store.archive());
    drop(restore(&backup, &store.path("replayed"), Some(&archive)));
    store.open();
    move_to(&mut store, "replayed", 1_000).await;
    assert_eq!(histories(store.repository()).await, at_the_end);
    change_often(store.repository(), 150, "carol", &mut chance).await;
    let of_all = histories(store.repository()).await;
    for (id, old) in &at_the_end {
        let new = &of_all[id].changes;
        assert!(new.ends_with(&old.changes), "plant {id}: {new:?}");
        let more = &new[..new.len() - old.changes.len()];
        assert!(more.iter().all(|change| change.by == Some(author("carol"))), "{more:?}");
    }
    let (second, plants) = (store.back_up("second").await, plants_of(store.repository()).await);
    store.close().await;
    assert_sound(&store.config.directory);
    let again = restore(&second, &store.path("again"), None);
    assert_eq!(histories(&again).await, of_all);
    assert_eq!(plants_of(&again).await, plants);
    for (id, history) in of_all {
        for change in history.changes.into_iter().filter(|change| change.plant.is_some()) {
            let version = again.version(PlantId::from(id), change.revision).await;
            assert_eq!(Some(version.expect("it is known").plant), change.plant);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_retention_has_forgotten_stays_forgotten_after_a_restore() {
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(22));
    change_often(store.repository(), 600, "alice", &mut chance).await;
    // Then nothing is left in memory, which may remember more than a backup has.
    store.close().await;
    store.open();
    let known = histories(store.repository()).await;
    assert!(known.values().any(|history| history.is_cut), "nothing is forgotten");
    assert!((100..600).contains(&changes(&known)), "{}", changes(&known));
    let backup = store.back_up("backup").await;
    let restored = restore(&backup, &store.path("restored"), None);
    assert_eq!(histories(&restored).await, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_that_forgets_its_first_events_forgets_the_old_histories_too() {
    const KEPT: u64 = 30;
    let (mut store, mut chance) = (Store::new(), Rng::with_seed(23));
    change_often(store.repository(), 60, "alice", &mut chance).await;
    repeat(store.repository(), 19, 0..1).await;
    let old = history_of(store.repository(), 19).await;
    let backup = store.back_up("backup").await;
    drop(restore(&backup, &store.path("restored"), None));
    store.config.changes_in_memory = 10;
    move_to(&mut store, "restored", KEPT).await;

    repeat(store.repository(), 100, 0..25).await;
    assert_eq!(history_of(store.repository(), 19).await, old, "nothing is forgotten yet");
    repeat(store.repository(), 100, 25..200).await;
    store.close().await;
    store.open();
    let forgotten = history_of(store.repository(), 19).await;
    let (changes, next) = (Vec::new(), None);
    assert_eq!(forgotten, HistoryPage { changes, next, is_cut: true });
    let newest = history_of(store.repository(), 100).await;
    assert!(newest.is_cut && newest.changes.len() >= 30, "{newest:?}");
    assert!(newest.changes.iter().all(|change| change.kind == EventKind::Updated));
    wait_for_merges(&store.config.directory).await;
    store.close().await;
    assert_sound(&store.config.directory);
    let again = store.path("again");
    store.open();
    let (backup, newest) =
        (store.back_up("after all").await, history_of(store.repository(), 100).await);
    let restored = restore(&backup, &again, None);
    assert_eq!(history_of(&restored, 100).await, newest);
    assert!(history_of(&restored, 19).await.changes.is_empty());
}

/// Puts one plant again and again.
async fn repeat(repository: &SledRepository, id: i64, turns: Range<u32>) {
    for turn in turns {
        let written = repository.write(put(id, format!("Quercus {turn}")), Some(author("bob")));
        written.await.expect("puts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_forget_versions_and_batches_with_their_events() {
    const KEPT: u64 = 50;
    const CHANGES_IN_MEMORY: usize = 20;
    let mut store = Store::new();
    store.config.changes_in_memory = CHANGES_IN_MEMORY;
    move_to(&mut store, "plants", KEPT).await;
    for turn in 0..200_u32 {
        let writes = (0..2).map(|id| put(id, format!("Rosa {turn}"))).collect();
        let digest = IdempotencyDigest::of_batch("key", &turn.to_be_bytes());
        let batch = Batch { writes, by: None, idempotency: Some(digest) };
        store.repository().batch(batch).await.expect("puts");
    }
    wait_for_merges(&store.config.directory).await;
    store.close().await;
    assert_sound(&store.config.directory);
    let tables = contents(&store.config.directory);
    let keys = || tables.iter().flat_map(|table| table.events.keys());
    let of_events = keys().filter(|key| key.len() == 8).count();
    let of_versions = keys().filter(|key| key.len() == 9).count();
    let of_batches = keys().filter(|key| key.len() == 25).count();
    // A version may be in another table than the event that made it, and so be forgotten earlier or later.
    let difference = of_events.abs_diff(of_versions);
    assert!(difference <= CHANGES_IN_MEMORY, "{of_events} events, {of_versions} versions");
    assert!((50..200).contains(&of_events), "{of_events} events of 400 are left");
    assert!((25..=100).contains(&of_batches), "{of_batches} batches of 200 are left");
}
