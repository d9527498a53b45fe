//! The folder of a database, and what is read from it behind the back of the repository.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use plant_store::conformance::StoreUnderTest;
use plant_store::conformance::damage::copy_as_killed;
use plant_store::{
    HistoryPage, HistoryRequest, OpenError, PlantRepository, SledConfig, SledInspection,
    SledRepository,
};
use tempfile::TempDir;

pub(crate) struct Folder {
    folder: TempDir,
    pub(crate) config: SledConfig,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = SledConfig::new(folder.path().join("plants"));
        Self { folder, config }
    }

    /// A path beside the database.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.config.directory
    }

    pub(crate) fn try_open(&self) -> Result<SledRepository, OpenError> {
        SledRepository::open(&self.config)
    }

    pub(crate) fn inspect(&self) -> SledInspection {
        SledInspection::open(&self.config).expect("opens to inspect")
    }

    pub(crate) fn disagreements(&self) -> Vec<String> {
        self.inspect().verify(&|_| ()).expect("the disk works").disagreements
    }

    /// The plants that an inspection reads.
    pub(crate) fn readable(&self) -> Vec<NewPlant> {
        self.inspect().plants().filter_map(Result::ok).collect()
    }

    /// Checks that an open is refused with these words.
    #[track_caller]
    pub(crate) fn assert_refused(&self, words: &str) {
        let refusal = self.try_open().map(drop).expect_err("it must not open").to_string();
        assert!(refusal.contains(words), "{refusal}");
    }

    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.disagreements(), Vec::<String>::new());
    }

    /// A copy of the folder as a kill would leave it now.
    pub(crate) fn killed(&self) -> Self {
        let copy = Self::new();
        copy_as_killed(self.directory(), copy.directory());
        copy
    }

    /// Takes the database of another folder instead of its own.
    pub(crate) fn replace_by(&self, directory: &Path) {
        fs::remove_dir_all(self.directory()).expect("removes");
        fs::rename(directory, self.directory()).expect("moves");
    }
}

#[async_trait]
impl StoreUnderTest for Folder {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        Arc::new(self.try_open().expect("opens"))
    }

    async fn kill(&self, repository: Arc<dyn PlantRepository>) {
        let killed = self.killed();
        repository.close().await.expect("closes");
        drop(repository);
        self.replace_by(killed.directory());
    }

    async fn verify(&self) {
        self.assert_sound();
    }
}

pub(crate) fn new_plant(id: i64) -> NewPlant {
    let tag = Some(format!("tag {}", id % 7));
    NewPlant::new(id, format!("plant {id}"), tag).expect("valid")
}

pub(crate) async fn create(repository: &SledRepository, ids: Range<i64>) {
    for id in ids {
        repository.create(new_plant(id), None).await.expect("the id is free");
    }
}

pub(crate) async fn assert_readable(repository: &SledRepository, ids: Range<i64>) {
    for id in ids {
        let found = repository.get(PlantId::from(id)).await.expect("reads");
        assert_eq!(found.expect("it was created").into_new_plant(), new_plant(id));
    }
}

/// The whole history of a plant, on one page.
pub(crate) async fn history_of(repository: &impl PlantRepository, id: i64) -> HistoryPage {
    let request = HistoryRequest { id: PlantId::from(id), before: None, limit: 1_000 };
    repository.history(request).await.expect("something is known of the plant")
}

/// Waits until merges have left fewer tables than one merge takes.
pub(crate) async fn wait_for_merges(directory: &Path) {
    let tables = || fs::read_dir(directory.join("tables")).expect("a folder").count();
    let merges = async {
        while tables() >= 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), merges).await.expect("merges end");
}
