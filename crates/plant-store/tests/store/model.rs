//! The repository on disk against the contract and the model, also across restores.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use plant_store::conformance::model::KeptEvents;
use plant_store::conformance::{self, StoreUnderTest, model};
use plant_store::{EventRetention, PlantRepository, PointInTime};
use proptest::prelude::ProptestConfig;
use proptest::proptest;
use proptest::sample::select;

use crate::common::{back_up, restore};
use crate::folder::Folder;

/// How many events the model test keeps: few, so that many are forgotten.
const FEW_EVENTS: usize = 16;

/// A database whose small limits make rare things happen often.
fn with_small_limits(changes_in_memory: usize) -> Folder {
    let mut folder = Folder::new();
    folder.config.cache_mib = 1;
    folder.config.retention = EventRetention::new(FEW_EVENTS as u64, Duration::ZERO);
    folder.config.changes_in_memory = changes_in_memory;
    // Every filter uses the search index.
    folder.config.plants_scanned_first = 1;
    folder
}

/// A database with an archive, and a backup of the beginning of its log.
struct Restorable {
    folder: Folder,
    archive: PathBuf,
    restores: AtomicU32,
}

impl Restorable {
    fn new(changes_in_memory: usize) -> Self {
        let mut folder = with_small_limits(changes_in_memory);
        let archive = folder.path("archive");
        folder.config.archive = Some(archive.clone());
        Self { folder, archive, restores: AtomicU32::new(0) }
    }

    fn backup(&self) -> PathBuf {
        self.folder.path("backup")
    }
}

#[async_trait]
impl StoreUnderTest for Restorable {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        let repository = self.folder.open().await;
        if !self.backup().exists() {
            back_up(&*repository, &self.backup()).await;
        }
        repository
    }

    async fn kill(&self, repository: Arc<dyn PlantRepository>) {
        self.folder.kill(repository).await;
    }

    /// In turns, from the old backup and the archive, and from a new backup alone.
    async fn restore(&self, repository: Arc<dyn PlantRepository>) -> bool {
        let by_archive = self.restores.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        if !by_archive {
            back_up(&*repository, &self.backup()).await;
        }
        repository.close().await.expect("closes");
        drop(repository);
        let (restored, newest) = (self.folder.path("restored"), PointInTime::newest(&self.archive));
        drop(restore(&self.backup(), &restored, by_archive.then_some(&newest)));
        self.folder.replace_by(&restored);
        fs::remove_file(self.backup()).expect("removes");
        true
    }

    async fn verify(&self) {
        self.folder.assert_sound();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_on_disk_keeps_the_contract() {
    // Claims about many plants meet many tables.
    conformance::check(async || {
        let mut folder = Folder::new();
        folder.config.changes_in_memory = 10_000;
        folder
    })
    .await;
}

/// `PLANTD_BATCHES` in the environment is the number of batches of each writer.
#[tokio::test(flavor = "multi_thread")]
async fn readers_never_see_a_part_of_a_batch_while_tables_are_written_and_merged() {
    let batches = std::env::var("PLANTD_BATCHES").ok();
    let batches = batches.map_or(500, |batches| batches.parse().expect("a number"));
    let folder = with_small_limits(1_000);
    conformance::readers_never_see_a_part_of_a_batch(&folder, batches).await;
    folder.assert_sound();
}

#[test]
fn the_repository_on_disk_behaves_like_the_model() {
    const OPERATIONS: usize = 40;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // Each case makes several databases, so a sixth of PROPTEST_CASES suffices.
    let default = ProptestConfig::default();
    let config = ProptestConfig { cases: default.cases / 6, failure_persistence: None, ..default };
    // Fewer and more than the kept events, so that memory also has events that readers no longer see.
    let changes_in_memory = select(vec![6, 3 * FEW_EVENTS]);
    proptest!(config, |(operations in model::operations(OPERATIONS), changes in changes_in_memory)| {
        let store = Restorable::new(changes);
        runtime.block_on(model::check(&store, &operations, KeptEvents::Exactly(FEW_EVENTS)));
    });
}
