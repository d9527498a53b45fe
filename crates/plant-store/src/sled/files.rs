//! The files of a database except the write-ahead log and the checkpoints: `manifest`, and the tables in `tables`.
//!
//! The manifest is replaced as a whole (written to a new file, synced, renamed), so a kill leaves the old one or the
//! new one. A table is a folder named by its number, with a suffix while the table is being made or removed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};

use crate::fault;
use crate::sled::compaction::table_builder::TableBuilder;
use crate::sled::health::StoreHealth;
use crate::sled::manifest::{self, Manifest};
use crate::sled::regular_file::{create, read_own, remove_if_there};
use crate::sled::tables::seal::{Advances, Unsealed, check_files};
use crate::sled::tables::{Table, TableMetadata};

const MANIFEST: &str = "manifest";
const TABLES: &str = "tables";

/// The suffix of a table's folder while the table is being made.
const NEW: &str = ".new";

/// The suffix of a table's folder while the table is being removed.
const REMOVED: &str = ".removed";

/// The folder of sled in the oldest format, which had one database for everything.
const SLED: &str = "sled";

/// Ten million plants make about this many tables.
const TABLES_THAT_SHARE_THE_CACHE: u64 = 8;

/// The files of a database except the write-ahead log.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    /// The cache of each open table, in bytes.
    table_cache_bytes: u64,
    /// Learns whenever the making of a table advances, so that the watchdog sees progress.
    health: Arc<StoreHealth>,
}

impl Files {
    /// `cache_bytes` is divided among the tables.
    pub(crate) fn in_directory(
        directory: &Path,
        cache_bytes: u64,
        health: Arc<StoreHealth>,
    ) -> Self {
        let table_cache_bytes = cache_bytes / TABLES_THAT_SHARE_THE_CACHE;
        Self { directory: directory.to_owned(), table_cache_bytes, health }
    }

    /// Whether there is a database. Fails if an older version made it.
    pub(crate) fn has_database(&self) -> anyhow::Result<bool> {
        let exists = |name| {
            let path = self.directory.join(name);
            path.try_exists().with_context(|| format!("cannot look for {}", path.display()))
        };
        if exists(MANIFEST)? {
            return Ok(true);
        }
        ensure!(!exists(SLED)?, manifest::other_format("format 4 or less"));
        Ok(false)
    }

    /// Makes the folder of tables. Fails if it has tables, because their manifest is then missing.
    pub(crate) fn make(&self) -> anyhow::Result<()> {
        let directory = self.tables_directory();
        // Private, because the files that sled makes inside get their mode from the umask.
        make_directory(&directory)?;
        ensure!(
            self.table_numbers()?.is_empty(),
            "the manifest is missing beside {}; put it back, or restore a backup",
            directory.display()
        );
        Ok(())
    }

    pub(crate) fn read_manifest(&self) -> anyhow::Result<Manifest> {
        let path = self.directory.join(MANIFEST);
        let bytes = read_own(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Manifest::decode(&bytes)
            .with_context(|| format!("the manifest {} cannot be used", path.display()))
    }

    /// Replaces the manifest. When this returns, the new one is on disk.
    pub(crate) fn write_manifest(&self, manifest: &Manifest) -> anyhow::Result<()> {
        replace(&self.directory, MANIFEST, &manifest.encode()?)
    }

    /// A callback that reports progress to the watchdog.
    pub(crate) fn advances(&self) -> Advances {
        let health = Arc::clone(&self.health);
        Arc::new(move || {
            health.compaction_advances();
            Ok(())
        })
    }

    /// Begins a table of at most this many plants. Removes what a killed attempt has left under its name.
    pub(crate) fn create_table(
        &self,
        number: u64,
        plants: usize,
        advances: Advances,
    ) -> anyhow::Result<TableBuilder> {
        let folder = self.table_name(number, NEW);
        remove_folder(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        TableBuilder::create(folder, plants, advances)
    }

    /// Seals a table. When this returns, the table is on disk under its name, and the manifest may name it.
    pub(crate) fn seal(&self, table: Unsealed, number: u64) -> anyhow::Result<TableMetadata> {
        let metadata = table.seal(number, &self.table_folder(number))?;
        sync_folder(&self.tables_directory())?;
        Ok(metadata)
    }

    /// Opens a table. Its files must be as they were sealed.
    pub(crate) fn open_table(&self, metadata: TableMetadata) -> anyhow::Result<Table> {
        fault::point("before-table-open");
        let folder = self.table_folder(metadata.number);
        Table::open(&folder, metadata, self.table_cache_bytes)
    }

    /// Compares the files of a table with the manifest.
    pub(crate) fn check_table(&self, metadata: &TableMetadata) -> anyhow::Result<()> {
        check_files(&self.table_folder(metadata.number), metadata, &*self.advances())
    }

    fn tables_directory(&self) -> PathBuf {
        self.directory.join(TABLES)
    }

    pub(crate) fn table_folder(&self, number: u64) -> PathBuf {
        self.table_name(number, "")
    }

    fn table_name(&self, number: u64, ending: &str) -> PathBuf {
        self.tables_directory().join(format!("{number:012}{ending}"))
    }

    /// The numbers of the tables on disk, named by the manifest or not.
    pub(crate) fn table_numbers(&self) -> anyhow::Result<Vec<u64>> {
        let names = self.names_in_tables()?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    fn names_in_tables(&self) -> anyhow::Result<Vec<OsString>> {
        let directory = self.tables_directory();
        let read = || {
            let names = fs::read_dir(&directory)?;
            names.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()
        };
        read().with_context(|| format!("cannot read the folder {}", directory.display()))
    }

    /// Removes a table that the manifest does not name, if it exists. A kill meanwhile leaves the whole table, or a
    /// folder with the suffix of a removal.
    pub(crate) fn remove_table(&self, number: u64) -> anyhow::Result<()> {
        let [folder, removed] = ["", REMOVED].map(|ending| self.table_name(number, ending));
        let remove = || {
            match fs::rename(&folder, &removed) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            fault::point("before-table-removed");
            for left in [&removed, &self.table_name(number, NEW)] {
                remove_folder(left)?;
            }
            anyhow::Ok(())
        };
        remove().with_context(|| format!("cannot remove {}", folder.display()))
    }

    /// Removes what kills have left: half-made and half-removed tables, and those that the manifest does not name.
    pub(crate) fn remove_other_tables(&self, manifest: &Manifest) -> anyhow::Result<()> {
        for name in self.names_in_tables()? {
            let is_named =
                |table: &TableMetadata| self.table_folder(table.number).file_name() == Some(&name);
            if !manifest.tables.iter().any(is_named) {
                fault::point("before-other-table-removed");
                let other = self.tables_directory().join(&name);
                remove_folder(&other)
                    .with_context(|| format!("cannot remove {}", other.display()))?;
            }
        }
        Ok(())
    }
}

/// Replaces a file as a whole: a kill leaves the old one or the new one. When this returns, the new one is on disk.
pub(crate) fn replace(directory: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    replace_through(&directory.join(format!("{name}.new")), &directory.join(name), content, None)
}

/// Like [`replace`]. The content is written to the file `new` first, which must have one writer at a time and be in the
/// same folder. The file gets the time `written_at`, or the current time.
pub(crate) fn replace_through(
    new: &Path,
    path: &Path,
    content: &[u8],
    written_at: Option<SystemTime>,
) -> anyhow::Result<()> {
    let write = || {
        fault::point("before-file-write");
        remove_if_there(new)?;
        let mut file = create(new)?;
        file.write_all(content)?;
        if let Some(written_at) = written_at {
            file.set_modified(written_at)?;
        }
        fault::point("before-file-sync");
        file.sync_all()?;
        fault::point("before-file-rename");
        fs::rename(new, path)?;
        fault::point("after-file-rename");
        anyhow::Ok(())
    };
    // On a full disk, half a file would take the room that the next attempt needs.
    let written = write().inspect_err(|_| drop(remove_if_there(new)));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    sync_folder(path.parent().context("a file is in a folder")?)
}

/// Removes a folder and everything in it, if it exists.
fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        Err(cause) if cause.kind() == ErrorKind::NotADirectory => fs::remove_file(folder),
        removed => removed,
    }
}

/// Makes a folder and its missing parents, private to their owner. An existing folder stays as it is.
pub(crate) fn make_directory(directory: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
        .with_context(|| format!("cannot make the folder {}", directory.display()))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> anyhow::Result<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().with_context(|| format!("cannot sync {}", folder.display()))
}
