//! Snapshots: how many there may be, and when they end.

use plant_domain::PlantFilter;
use plant_store::{PagePlace, PageRequest, PlantRepository, StoreError};
use plantd_tests::wait_until;

use crate::schema::{Schema, create, get, listed_ids};

/// How many snapshots a repository with the default number of sessions has at most.
const MOST: usize = 4;

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
    let mut last = snapshots.pop().expect("there is one");
    drop(snapshots);
    wait_until("the other transactions to end", || schema.query(&open) == "1");
    // The repository is closed, and the snapshot is over, but answers.
    drop(repository);
    let request = PageRequest { filter: PlantFilter::default(), place: PagePlace::First, limit: 1 };
    let over = last.list(request).await;
    assert!(matches!(over, Err(StoreError::Failed(_))), "{over:?}");
}
