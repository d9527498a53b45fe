//! What this version writes can be read by a next version whose plants have one more optional member.

use std::fs;
use std::path::Path;

use plant_domain::{NewPlant, PlantFilter, PlantId};
use plant_store::conformance::damage::copy_as_killed;
use plant_store::conformance::write_next_version;
use plant_store::{
    BackupFile, OnConflict, PageRequest, PlantRepository, PointInTime, Preconditions, SledConfig,
    SledInspection, SledRepository, StoredPlant,
};

fn plant(id: i64, name: &str) -> NewPlant {
    NewPlant::new(id, name, (id % 3 > 0).then(|| format!("tag {}", id % 3))).expect("valid")
}

/// Replaces these plants, and removes the last one.
async fn change(repository: &SledRepository, ids: std::ops::Range<i64>, name: &str) {
    let last = PlantId::from(ids.end - 1);
    let plants = ids.map(|id| plant(id, name)).collect();
    repository.import(plants, OnConflict::Replace).await.expect("imports");
    repository.delete(last, Preconditions::default()).await.expect("deletes");
}

async fn plants_of(repository: &SledRepository) -> Vec<StoredPlant> {
    let request = PageRequest { filter: PlantFilter::default(), after: None, limit: 1_000 };
    let page = repository.list(request).await.expect("reads");
    page.stored_plants().expect("valid")
}

async fn back_up(repository: &SledRepository, to: &Path) {
    let (mut backup, mut bytes) = (repository.backup().await.expect("a backup"), Vec::new());
    while let Some((part, rest)) = backup.next().await.expect("reads") {
        bytes.extend_from_slice(&part);
        backup = rest;
    }
    fs::write(to, bytes).expect("writes");
}

fn assert_sound(directory: &Path) {
    let inspection = SledInspection::open(&SledConfig::new(directory)).expect("opens");
    let found = inspection.verify(&|_| ()).expect("reads");
    assert!(found.agrees(), "{found:?}");
}

/// Restores a backup, and returns the plants.
async fn restored(backup: &Path, to: &Path, moment: Option<&PointInTime>) -> Vec<StoredPlant> {
    let backup = BackupFile::open(backup).expect("it is whole");
    assert!(backup.verify(&|_| ()).expect("reads").agrees());
    backup.restore(to, moment, &|_| ()).expect("restores");
    assert_sound(to);
    plants_of(&SledRepository::open(&SledConfig::new(to)).expect("opens")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_next_version_with_one_more_member_reads_a_folder_a_backup_and_an_archive_of_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut config = SledConfig::new(path("plants"));
    config.archive = Some(path("archive"));
    // Some plants are in tables, and others only in the write-ahead log.
    config.changes_in_memory = 50;
    let repository = SledRepository::open(&config).expect("opens");
    change(&repository, 0..120, "Rosa").await;
    back_up(&repository, &path("backup")).await;
    let in_backup = plants_of(&repository).await;
    change(&repository, 100..150, "Salix").await;
    let of_this_version = plants_of(&repository).await;
    copy_as_killed(&config.directory, &path("killed"));
    repository.close().await.expect("closes");
    drop(repository);

    write_next_version(true);
    config.directory = path("killed");
    assert_sound(&config.directory);
    assert_eq!(restored(&path("backup"), &path("restored"), None).await, in_backup);
    let archive = PointInTime::newest(path("archive"));
    let replayed = restored(&path("backup"), &path("replayed"), Some(&archive)).await;
    assert_eq!(replayed, of_this_version);
    let repository = SledRepository::open(&config).expect("opens");
    assert_eq!(plants_of(&repository).await, of_this_version);

    // Plants of both versions live together, also in merged tables, in a backup, and in the archive.
    change(&repository, 90..200, "Quercus").await;
    change(&repository, 200..260, "Betula").await;
    let of_both = plants_of(&repository).await;
    back_up(&repository, &path("backup of both")).await;
    repository.close().await.expect("closes");
    drop(repository);
    assert_sound(&config.directory);
    assert_eq!(restored(&path("backup of both"), &path("both"), None).await, of_both);
    let replayed = restored(&path("backup"), &path("replayed twice"), Some(&archive)).await;
    assert_eq!(replayed, of_both);

    // This version does not take the plants of the next one for damaged.
    write_next_version(false);
    let repository = SledRepository::open(&config).expect("opens");
    let unknown = repository.get(PlantId::from(201)).await.expect_err("it is newer").to_string();
    assert!(unknown.contains("version 2, and this version of the program reads"), "{unknown}");
    assert!(repository.get(PlantId::from(1)).await.expect("reads").is_some());
}
