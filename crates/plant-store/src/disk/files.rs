//! The files of a database except the write-ahead log: `manifest`, and the tables in `tables`.
//!
//! The manifest is replaced as a whole (written beside, synced, renamed), so a kill leaves the old one or the new one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::errors::OtherFormat;
use super::health::StoreHealth;
use super::manifest::{FORMAT, Manifest};
use super::new_file::{create, remove_if_there};
use super::table_writer::TableFile;
use crate::fault;

const MANIFEST: &str = "manifest";
const NEW_MANIFEST: &str = "manifest.new";
const TABLES: &str = "tables";

/// The folder of sled, on which older versions built.
const SLED: &str = "sled";

/// The files of a database except the write-ahead log.
#[derive(Clone, Debug)]
pub(super) struct Files {
    directory: PathBuf,
    /// Told after each sync of a table, so that the watchdog sees progress.
    health: Arc<StoreHealth>,
}

impl Files {
    pub(super) fn in_directory(directory: &Path, health: Arc<StoreHealth>) -> Self {
        Self { directory: directory.to_owned(), health }
    }

    /// Whether there is a database. Fails when an older version made it.
    pub(super) fn has_database(&self) -> anyhow::Result<bool> {
        let exists = |name| {
            let path = self.directory.join(name);
            path.try_exists().with_context(|| format!("cannot look for {}", path.display()))
        };
        if exists(MANIFEST)? {
            return Ok(true);
        }
        let found = "format 4 or less".to_owned();
        ensure!(!exists(SLED)?, OtherFormat { found, known: FORMAT });
        Ok(false)
    }

    /// Fails when tables are there, whose manifest is then missing.
    pub(super) fn make(&self) -> anyhow::Result<()> {
        let directory = self.tables_directory();
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make the folder {}", directory.display()))?;
        ensure!(
            self.table_numbers()?.is_empty(),
            "the manifest is missing beside {}; put it back, or restore a backup",
            directory.display()
        );
        Ok(())
    }

    pub(super) fn read_manifest(&self) -> anyhow::Result<Manifest> {
        let path = self.directory.join(MANIFEST);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Manifest::decode(&bytes)
            .with_context(|| format!("the manifest {} cannot be used", path.display()))
    }

    /// Makes the rename of the manifest durable. A kill between the rename and this sync leaves a manifest that a power
    /// cut can still undo.
    pub(super) fn sync_manifest_name(&self) -> anyhow::Result<()> {
        sync_folder(&self.directory)
    }

    /// Replaces the manifest. When this returns, the new one is on disk.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> anyhow::Result<()> {
        let (new, path) = (self.directory.join(NEW_MANIFEST), self.directory.join(MANIFEST));
        let write = || {
            fault::point("before-manifest-write");
            remove_if_there(&new)?;
            let mut file = create(&new)?;
            file.write_all(&manifest.encode()?)?;
            fault::point("before-manifest-sync");
            file.sync_all()?;
            fault::point("before-manifest-rename");
            fs::rename(&new, &path)?;
            fault::point("after-manifest-rename");
            anyhow::Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        self.sync_manifest_name()
    }

    fn tables_directory(&self) -> PathBuf {
        self.directory.join(TABLES)
    }

    pub(super) fn table_path(&self, number: u64) -> PathBuf {
        self.tables_directory().join(format!("{number:012}"))
    }

    /// Begins the file of a new table.
    pub(super) fn create_table(&self, number: u64) -> anyhow::Result<TableFile> {
        TableFile::create(self.table_path(number), Arc::clone(&self.health))
    }

    /// Makes the names of new tables durable. The manifest may name them then.
    pub(super) fn sync_tables_directory(&self) -> anyhow::Result<()> {
        sync_folder(&self.tables_directory())
    }

    /// The numbers of the tables that are there, named by the manifest or not.
    pub(super) fn table_numbers(&self) -> anyhow::Result<Vec<u64>> {
        let directory = self.tables_directory();
        let read = || {
            let mut numbers = Vec::new();
            for entry in fs::read_dir(&directory)? {
                let name = entry?.file_name();
                numbers.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
            }
            anyhow::Ok(numbers)
        };
        read().with_context(|| format!("cannot read the folder {}", directory.display()))
    }

    /// Removes a table that the manifest does not name, if it is there.
    pub(super) fn remove_table(&self, number: u64) -> anyhow::Result<()> {
        let path = self.table_path(number);
        remove_if_there(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> anyhow::Result<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().with_context(|| format!("cannot sync {}", folder.display()))
}
