//! Snapshots: the plants of one moment, page by page.

use plant_domain::PlantFilter;
use plant_store::{PagePlace, PageRequest, PlantRepository, PlantSnapshot, StoreError};
use plantd_tests::wait_until;

use crate::schema::{Schema, create, delete, filter, get, listed_ids};

/// How many snapshots a repository with the default number of sessions has at most.
const MOST: usize = 4;

async fn ids(snapshot: &mut dyn PlantSnapshot, filter: &PlantFilter, limit: usize) -> Vec<i64> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let request = PageRequest { filter: filter.clone(), place: PagePlace::after(after), limit };
        let page = snapshot.list(request).await.expect("reads");
        ids.extend(page.plants().map(|(plant, _)| plant.id.get()));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_shows_the_plants_of_its_moment_while_others_are_written() {
    let schema = Schema::new();
    let repository = schema.open().await;
    for id in 0..10 {
        create(&repository, id).await;
    }
    let mut snapshot = repository.snapshot().await.expect("there is room");
    for id in 0..10 {
        delete(&repository, id).await;
    }
    create(&repository, 20).await;
    let whole: Vec<i64> = (0..10).collect();
    for limit in [1, 3, 100] {
        assert_eq!(ids(&mut *snapshot, &PlantFilter::default(), limit).await, whole);
        assert_eq!(ids(&mut *snapshot, &filter(Some("plant"), None), limit).await, whole);
    }
    assert_eq!(listed_ids(&repository).await, [20]);
    // The repository is closed, and the snapshot is over, but answers.
    drop(repository);
    let request = PageRequest { filter: PlantFilter::default(), place: PagePlace::First, limit: 1 };
    let over = snapshot.list(request).await;
    assert!(matches!(over, Err(StoreError::Failed(_))), "{over:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_leave_sessions_for_other_reads_and_end_when_they_are_dropped() {
    let schema = Schema::new();
    let repository = schema.open().await;
    create(&repository, 1).await;
    let mut snapshots = Vec::new();
    for _ in 0..MOST {
        snapshots.push(repository.snapshot().await.expect("there is room"));
    }
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE state = 'idle in transaction' AND strpos(query, '{}') > 0",
        schema.config.schema
    );
    wait_until("all transactions to be open", || schema.query(&open) == MOST.to_string());
    let (one_more, read) = tokio::join!(repository.snapshot(), get(&repository, 1));
    assert!(matches!(one_more, Err(StoreError::Busy)), "there is no room");
    assert!(read.is_some());
    assert_eq!(listed_ids(&repository).await, [1]);
    snapshots.pop();
    snapshots.push(repository.snapshot().await.expect("there is room again"));
    drop(snapshots);
    wait_until("all transactions to end", || schema.query(&open) == "0");
}
