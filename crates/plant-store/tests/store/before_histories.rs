//! What the version before histories has written.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use plant_domain::{NewPlant, PlantId};
use plant_store::write::Write;
use plant_store::{
    Author, EventKind, EventRetention, EventsAfter, HistoryPage, PlantRepository, PointInTime,
    Preconditions, Revision, SledConfig, SledRepository, StoreError,
};
use tempfile::TempDir;

use crate::common::{Store, assert_sound, plants_of, restore};
use crate::folder::{history_of, wait_for_merges};

/// What the version before histories has left. It made ten changes, with an archive:
///
/// | change | plant | |
/// |---|---|---|
/// | 1 | 1 | created as Rosa canina |
/// | 2 | 2 | created as Salix alba |
/// | 3 | 3 | created as Quercus robur |
/// | 4 | 1 | renamed to Rosa rugosa |
/// | 5 | 2 | deleted; `cleanly-closed` was closed here, and has all changes in a table |
/// | 6 | 3 | got a tag |
/// | 7 | 2 | created as Salix viminalis; `backup` was made here |
/// | 8 | 4 | created as Betula pendula |
/// | 9 | 1 | deleted |
/// | 10 | 2 | renamed to Salix caprea; `killed` was killed here, and has the changes from 6 on only in its log |
fn unpack(folder: &Path) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/before-histories.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(folder).status();
    assert!(unpacked.expect("tar is installed").success());
}

fn unpacked() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    unpack(folder.path());
    folder
}

async fn names(repository: &SledRepository) -> Vec<(i64, String)> {
    let plants = plants_of(repository).await.into_iter();
    plants.map(|stored| (stored.id.get(), stored.plant.name().to_owned())).collect()
}

fn named<const N: usize>(plants: [(i64, &str); N]) -> Vec<(i64, String)> {
    plants.map(|(id, name)| (id, name.to_owned())).into()
}

/// The revisions and the kinds of the changes, and whether older ones are forgotten.
fn summary(history: &HistoryPage) -> (Vec<(u64, EventKind)>, bool) {
    assert_eq!(history.next, None);
    let changes = history.changes.iter().map(|change| (change.revision.get(), change.kind));
    (changes.collect(), history.is_cut)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_version_before_histories_goes_on_with_histories() {
    use EventKind::{Created, Deleted, Updated};
    let mut store = Store::new();
    store.close().await;
    unpack(&store.path(""));
    let directory = store.path("before-histories/killed");
    assert_sound(&directory);
    store.config.directory.clone_from(&directory);
    store.config.archive = Some(store.path("before-histories/archive"));
    store.config.changes_in_memory = 20;
    store.config.retention = EventRetention::default();
    store.open();
    let repository = store.repository();
    let plants = named([(2, "Salix caprea"), (3, "Quercus robur"), (4, "Betula pendula")]);
    assert_eq!(names(repository).await, plants);
    for (id, changes, is_cut) in [
        (2, vec![(10, Updated)], true),
        (3, vec![(6, Updated)], true),
        (4, vec![(8, Created)], false),
    ] {
        let history = history_of(repository, id).await;
        assert_eq!(summary(&history), (changes, is_cut), "plant {id}");
        assert!(history.changes.iter().all(|change| change.by.is_none()), "{history:?}");
    }
    let version = async |id: i64, revision: u64| {
        repository.version(PlantId::from(id), Revision::from(revision)).await
    };
    for (id, revision) in [(1, 1), (1, 4), (1, 9), (2, 7)] {
        let gone = version(id, revision).await;
        assert!(matches!(gone, Err(StoreError::VersionGone(..))), "{gone:?}");
    }

    // Merges bring the events of both versions together.
    let gardener = Author::new("gardener").expect("valid");
    for turn in 0..150 {
        let plant = NewPlant::new(3, format!("Quercus {turn}"), None).expect("valid");
        let put = Write::Put(plant, Preconditions::default());
        repository.write(put, Some(gardener.clone())).await.expect("puts");
    }
    wait_for_merges(&directory).await;
    store.close().await;
    assert_sound(&directory);
    store.open();
    let repository = store.repository();
    let events = repository.events(EventsAfter::Oldest, 1_000).await.expect("reads").events;
    let told = |range: Range<usize>| {
        let told = events[range].iter();
        told.map(|event| (event.id.get(), event.kind, event.by.clone())).collect::<Vec<_>>()
    };
    let of_both = [(1, Created), (2, Created), (3, Created), (1, Updated), (2, Deleted)];
    let of_both = of_both.into_iter().chain([(3, Updated), (2, Created), (4, Created)]);
    let of_both = of_both.chain([(1, Deleted), (2, Updated)]).map(|(id, kind)| (id, kind, None));
    assert_eq!(told(0..10), of_both.collect::<Vec<_>>());
    assert_eq!(told(10..160), vec![(3, Updated, Some(gardener)); 150]);
    let of_oak = history_of(repository, 3).await;
    let revisions = of_oak.changes.iter().map(|change| change.revision.get());
    assert!(revisions.eq((11..=160).rev().chain([6])) && of_oak.is_cut, "{of_oak:?}");

    // The archive has pieces of both versions.
    let plants = plants_of(repository).await;
    let backup = store.back_up("backup").await;
    store.close().await;
    let restored = restore(&backup, &store.path("restored"), None);
    assert_eq!(history_of(&restored, 3).await, of_oak);
    let old_backup = store.path("before-histories/backup");
    let archive = PointInTime::newest(store.archive());
    let replayed = restore(&old_backup, &store.path("replayed"), Some(&archive));
    assert_eq!(plants_of(&replayed).await, plants);
    assert_eq!(history_of(&replayed, 3).await, of_oak);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_folder_of_the_version_before_histories_knows_the_newest_change_of_each_plant() {
    let folder = unpacked();
    let directory = folder.path().join("before-histories/cleanly-closed");
    assert_sound(&directory);
    let repository = SledRepository::open(&SledConfig::new(&directory)).expect("opens");
    assert_eq!(names(&repository).await, named([(1, "Rosa rugosa"), (3, "Quercus robur")]));
    for (id, change, is_cut) in
        [(1, (4, EventKind::Updated), true), (3, (3, EventKind::Created), false)]
    {
        let history = history_of(&repository, id).await;
        assert_eq!(summary(&history), (vec![change], is_cut), "plant {id}");
    }
    let current = repository.version(PlantId::from(1), Revision::from(4)).await;
    assert_eq!(current.expect("it is current").plant.name(), "Rosa rugosa");
    let deletion = repository.delete(PlantId::from(1), Preconditions::default()).await;
    deletion.expect("deletes");
    let history = history_of(&repository, 1).await;
    assert_eq!(summary(&history), (vec![(6, EventKind::Deleted), (4, EventKind::Updated)], true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_the_version_before_histories_restores_alone_and_with_its_archive() {
    let folder = unpacked();
    let path = |name: &str| folder.path().join("before-histories").join(name);
    let alone = restore(&path("backup"), &path("alone"), None);
    let plants = [(1, "Rosa rugosa"), (2, "Salix viminalis"), (3, "Quercus robur")];
    assert_eq!(names(&alone).await, named(plants));
    assert_eq!(summary(&history_of(&alone, 2).await), (vec![(7, EventKind::Created)], false));

    let archive = PointInTime::newest(path("archive"));
    let replayed = restore(&path("backup"), &path("replayed"), Some(&archive));
    let plants = [(2, "Salix caprea"), (3, "Quercus robur"), (4, "Betula pendula")];
    assert_eq!(names(&replayed).await, named(plants));
    for (id, change, is_cut) in [
        (2, (10, EventKind::Updated), true),
        (3, (6, EventKind::Updated), true),
        (4, (8, EventKind::Created), false),
    ] {
        let history = history_of(&replayed, id).await;
        assert_eq!(summary(&history), (vec![change], is_cut), "plant {id}");
    }
}
