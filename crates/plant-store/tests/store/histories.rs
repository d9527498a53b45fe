//! Histories outlive restores, and are forgotten with their events.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use plant_domain::{NewPlant, PlantId};
use plant_store::conformance::damage::contents;
use plant_store::write::Write;
use plant_store::{
    Author, Batch, EventKind, EventRetention, HistoryPage, HistoryRequest, IdempotencyDigest,
    PlantRepository, Preconditions, SledRepository, StoreError,
};

use crate::common::{Store, assert_sound, restore};
use crate::folder::{history_of, wait_for_merges};

const IDS: Range<i64> = 0..20;

fn put(id: i64, name: String) -> Write {
    Write::Put(NewPlant::new(id, name, None).expect("valid"), Preconditions::default())
}

/// Puts one plant again and again.
async fn repeat(repository: &SledRepository, id: i64, turns: Range<u32>) {
    for turn in turns {
        let written = repository.write(put(id, format!("Quercus {turn}")), Author::new("bob").ok());
        written.await.expect("puts");
    }
}

/// The history of each plant of which something is known.
async fn histories(repository: &SledRepository) -> BTreeMap<i64, HistoryPage> {
    let mut histories = BTreeMap::new();
    for id in IDS {
        let request = HistoryRequest { id: PlantId::from(id), before: None, limit: 1_000 };
        match repository.history(request).await {
            Ok(history) => drop(histories.insert(id, history)),
            Err(StoreError::NoSuchPlant(_)) => {}
            Err(error) => panic!("reading the history of plant {id} failed: {error}"),
        }
    }
    histories
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
async fn a_restored_store_knows_what_its_backup_knew_and_forgets_that_with_its_first_events() {
    const KEPT: u64 = 30;
    let mut store = Store::new();
    // More changes than the store keeps.
    for turn in 0..200 {
        let (id, repository) = (turn * 7 % IDS.end, store.repository());
        if turn % 9 == 0 {
            let deleted = repository.delete(PlantId::from(id), Preconditions::default()).await;
            assert!(matches!(deleted, Ok(()) | Err(StoreError::NoSuchPlant(_))), "{deleted:?}");
        } else {
            repository.write(put(id, format!("Rosa {turn}")), None).await.expect("puts");
        }
    }
    repeat(store.repository(), 19, 0..1).await;
    // Then nothing is left in memory, which may remember more than a backup has.
    store.close().await;
    store.open();
    let old = histories(store.repository()).await;
    assert!(old.values().any(|history| history.is_cut), "nothing is forgotten");
    let backup = store.back_up("backup").await;
    drop(restore(&backup, &store.path("restored"), None));
    store.config.changes_in_memory = 10;
    move_to(&mut store, "restored", KEPT).await;
    assert_eq!(histories(store.repository()).await, old);

    repeat(store.repository(), 100, 0..25).await;
    assert_eq!(histories(store.repository()).await, old, "nothing is forgotten yet");
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
    store.open();
    let (backup, newest) =
        (store.back_up("after all").await, history_of(store.repository(), 100).await);
    let restored = restore(&backup, &store.path("again"), None);
    assert_eq!(history_of(&restored, 100).await, newest);
    assert!(history_of(&restored, 19).await.changes.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_forget_old_entries_of_plants_and_versions_and_batches_with_their_events() {
    const KEPT: u64 = 50;
    const CHANGES_IN_MEMORY: usize = 20;
    let mut store = Store::new();
    store.config.changes_in_memory = CHANGES_IN_MEMORY;
    move_to(&mut store, "plants", KEPT).await;
    // Each turn changes a plant, and replaces another one.
    for turn in 0..200 {
        let (new, old) = (1_000 + turn, PlantId::from(999 + turn));
        let mut writes: Vec<_> = [0, new].map(|id| put(id, format!("Rosa {turn}"))).into();
        if turn > 0 {
            writes.push(Write::Delete(old, Preconditions::default()));
        }
        let digest = IdempotencyDigest::of_batch("key", &turn.to_be_bytes());
        let batch = Batch { writes, by: None, idempotency: Some(digest) };
        store.repository().batch(batch).await.expect("puts");
    }
    wait_for_merges(&store.config.directory).await;
    store.close().await;
    assert_sound(&store.config.directory);
    let tables = contents(&store.config.directory);
    let plants: usize = tables.iter().map(|table| table.plants.len()).sum();
    assert!(plants < 200, "{plants} entries of 2 plants are left");
    let keys = || tables.iter().flat_map(|table| table.events.keys());
    let of_events = keys().filter(|key| key.len() == 8).count();
    let of_versions = keys().filter(|key| key.len() == 9).count();
    let of_batches = keys().filter(|key| key.len() == 25).count();
    // Each third event is a deletion, which makes no version. A version may be in another table than the event that made
    // it, and so be forgotten earlier or later.
    let difference = of_events.abs_diff(of_versions * 3 / 2);
    assert!(difference <= CHANGES_IN_MEMORY, "{of_events} events, {of_versions} versions");
    assert!((50..300).contains(&of_events), "{of_events} events of 599 are left");
    assert!((16..=150).contains(&of_batches), "{of_batches} batches of 200 are left");
}
