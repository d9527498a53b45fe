//! A repository with an archive and backups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plant_domain::PlantFilter;
use plant_store::{
    BackupReader, EventRetention, PagePlace, PageRequest, PlantRepository, PointInTime, SledConfig,
    SledInspection, SledRepository, StoredPlant,
};
use tempfile::TempDir;

/// A repository with an archive.
pub(crate) struct Store {
    folder: TempDir,
    pub(crate) config: SledConfig,
    repository: Option<SledRepository>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = SledConfig::new(folder.path().join("plants"));
        config.archive = Some(folder.path().join("archive"));
        config.changes_in_memory = 64;
        config.retention = EventRetention::new(100, Duration::ZERO);
        let mut store = Self { folder, config, repository: None };
        store.open();
        store
    }

    pub(crate) fn open(&mut self) {
        self.repository = Some(SledRepository::open(&self.config).expect("opens"));
    }

    pub(crate) async fn close(&mut self) {
        let repository = self.repository.take().expect("it is open");
        repository.close().await.expect("closes");
    }

    pub(crate) fn repository(&self) -> &SledRepository {
        self.repository.as_ref().expect("it is open")
    }

    pub(crate) fn archive(&self) -> &Path {
        self.config.archive.as_deref().expect("there is one")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn back_up(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        back_up(self.repository(), &path).await;
        path
    }
}

pub(crate) async fn back_up(repository: &dyn PlantRepository, path: &Path) {
    let mut bytes = Vec::new();
    let mut backup = repository.backup().await.expect("makes a backup");
    while let Some((part, rest)) = backup.next().await.expect("reads") {
        bytes.extend_from_slice(&part);
        backup = rest;
    }
    fs::write(path, bytes).expect("writes");
}

pub(crate) async fn plants_of(repository: &impl PlantRepository) -> Vec<StoredPlant> {
    let request =
        PageRequest { filter: PlantFilter::default(), place: PagePlace::First, limit: 1_000 };
    let page = repository.list(request).await.expect("reads");
    assert!(page.next.is_none(), "there are few plants");
    page.stored_plants().expect("valid")
}

pub(crate) fn assert_sound(directory: &Path) {
    let inspection = SledInspection::open(&SledConfig::new(directory)).expect("opens");
    let found = inspection.verify(&|_| ()).expect("reads");
    assert!(found.agrees(), "{found:?}");
}

/// Verifies a backup, restores it, verifies the folder, and opens it.
pub(crate) fn restore(backup: &Path, to: &Path, moment: Option<&PointInTime>) -> SledRepository {
    let open = || BackupReader::open(backup).expect("it is a backup");
    let found = open().verify(&|_| ()).expect("reads");
    assert!(found.agrees(), "{found:?}");
    open().restore(to, moment, &|_| ()).expect("restores");
    assert_sound(to);
    SledRepository::open(&SledConfig::new(to)).expect("opens")
}
