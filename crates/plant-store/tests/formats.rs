//! The next version, whose plants have one more optional member, reads what this version writes.

use std::ops::Range;

use plant_domain::{NewPlant, PlantId};
use plant_store::conformance::damage::copy_as_killed;
use plant_store::conformance::write_next_version;
use plant_store::{OnConflict, PlantRepository, PointInTime, Preconditions};

mod common;

use common::{Store, assert_sound, plants_of, restore};

/// Replaces these plants, and removes the last one.
async fn change(store: &Store, ids: Range<i64>, name: &str) {
    let last = PlantId::from(ids.end - 1);
    let tag = |id| (id % 3 > 0).then(|| format!("tag {}", id % 3));
    let plants = ids.map(|id| NewPlant::new(id, name, tag(id)).expect("valid")).collect();
    store.repository().import(plants, OnConflict::Replace, None).await.expect("imports");
    store.repository().delete(last, Preconditions::default()).await.expect("deletes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_next_version_with_one_more_member_reads_a_folder_a_backup_and_an_archive_of_this_one() {
    // Some plants are in tables, and others only in the write-ahead log.
    let mut store = Store::new();
    change(&store, 0..120, "Rosa").await;
    let backup = store.back_up("backup").await;
    let in_backup = plants_of(store.repository()).await;
    change(&store, 100..150, "Salix").await;
    let of_this_version = plants_of(store.repository()).await;
    let killed = store.path("killed");
    copy_as_killed(&store.config.directory, &killed);
    store.close().await;

    write_next_version(true);
    assert_sound(&killed);
    assert_eq!(plants_of(&restore(&backup, &store.path("restored"), None)).await, in_backup);
    let archive = PointInTime::newest(store.archive());
    let replayed = restore(&backup, &store.path("replayed"), Some(&archive));
    assert_eq!(plants_of(&replayed).await, of_this_version);
    store.config.directory = killed;
    store.open();
    assert_eq!(plants_of(store.repository()).await, of_this_version);

    // Plants of both versions coexist, also in merged tables, in a backup, and in the archive.
    change(&store, 90..200, "Quercus").await;
    change(&store, 200..260, "Betula").await;
    let of_both = plants_of(store.repository()).await;
    let backup_of_both = store.back_up("backup of both").await;
    store.close().await;
    assert_sound(&store.config.directory);
    let both = restore(&backup_of_both, &store.path("both"), None);
    assert_eq!(plants_of(&both).await, of_both);
    let replayed = restore(&backup, &store.path("replayed twice"), Some(&archive));
    assert_eq!(plants_of(&replayed).await, of_both);

    // This version must not report the plants of the next one as damaged.
    write_next_version(false);
    store.open();
    let unknown = store.repository().get(PlantId::from(201)).await.expect_err("it is newer");
    let unknown = unknown.to_string();
    assert!(unknown.contains("version 2, and this version of the program reads"), "{unknown}");
    assert!(store.repository().get(PlantId::from(1)).await.expect("reads").is_some());
}
