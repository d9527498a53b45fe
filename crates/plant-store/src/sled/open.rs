//! Opening the database.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use crate::fault;
use crate::sled::checkpoints::CheckpointFile;
use crate::sled::commit::change::ChangeGroup;
use crate::sled::commit::recovery::{newest_run, replay};
use crate::sled::commit::write_ahead_log::{self, WriteAheadLog};
use crate::sled::compaction::merge::Tables;
use crate::sled::compaction::write_table;
use crate::sled::config::SledConfig;
use crate::sled::files::{Files, make_directory, sync_folder};
use crate::sled::health::StoreHealth;
use crate::sled::health::errors::{advise, advise_on_disk};
use crate::sled::health::findings::Findings;
use crate::sled::manifest::Manifest;
use crate::sled::regular_file::open_own;
use crate::sled::tree::with_newest;

/// How long an open waits for a lock that another process is about to release.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

const LOCK: &str = "lock";

/// An open database. All changes in its write-ahead log are in tables.
pub(crate) struct Opened {
    pub(crate) files: Files,
    pub(crate) manifest: Manifest,
    pub(crate) tables: Tables,
    pub(crate) write_ahead_log: WriteAheadLog,
    /// The newest consecutive groups in the write-ahead log, oldest first, if there is an archive.
    pub(crate) to_archive: Vec<ChangeGroup>,
    pub(crate) checkpoints: CheckpointFile,
    pub(crate) lock: File,
}

/// Opens the database, or makes a new one.
pub(crate) fn open(config: &SledConfig, health: Arc<StoreHealth>) -> anyhow::Result<Opened> {
    make_or_open(config, health).map_err(advise_on_disk)
}

fn make_or_open(config: &SledConfig, health: Arc<StoreHealth>) -> anyhow::Result<Opened> {
    let directory = &config.directory;
    make_directory(directory)?;
    let lock = lock(&directory.join(LOCK))?;
    let files = Files::in_directory(directory, config.cache_bytes(), health);
    if !files.has_database()? {
        make_database(directory, &files)?;
    }
    // Not in `recover`, whose errors advise to restore a backup: backups have no checkpoints.
    let checkpoints = CheckpointFile::open(directory)?;
    recover(config, files, checkpoints, lock).map_err(advise)
}

/// Checks the database, and flushes what only the write-ahead log has.
fn recover(
    config: &SledConfig,
    files: Files,
    checkpoints: CheckpointFile,
    lock: File,
) -> anyhow::Result<Opened> {
    let mut findings = Findings::Refuse;
    let mut manifest = files.read_manifest()?;
    // A kill may have come between the rename of the manifest and this sync; a power cut could still undo the rename.
    sync_folder(&config.directory)?;
    // Before sled opens the tables, because it may hang on damaged files.
    check_tables(&files, &manifest)?;
    let mut tables = open_tables(&files, &manifest)?;
    let log = write_ahead_log::read(&config.directory, Some(manifest.log_salts), &mut findings)?;
    let write_ahead_log = WriteAheadLog::open(&config.directory, &log)?;
    let groups = log.into_groups();
    let to_archive = config.archive.as_ref().map_or_else(Vec::new, |_| newest_run(&groups));
    let (memtables, totals) = replay(Some(manifest.totals), groups, &mut findings)?;
    fault::point("after-replay");
    // Not earlier: with an older manifest, which was refused above, these tables may have the only copy of a plant.
    files.remove_other_tables(&manifest)?;
    // At most one, because a gap in the log is refused.
    for memtable in &memtables {
        let table = write_table(&files, &mut manifest, memtable, totals)?;
        tables = with_newest(&tables, table);
    }
    fault::point("before-opened");
    Ok(Opened { files, manifest, tables, write_ahead_log, to_archive, checkpoints, lock })
}

pub(crate) fn open_tables(files: &Files, manifest: &Manifest) -> anyhow::Result<Tables> {
    manifest.tables.iter().map(|named| files.open_table(*named).map(Arc::new)).collect()
}

/// Reads all files of all tables, so that damage shows now, not when a plant is read. Each table has a thread, because
/// computing checksums keeps a processor busy.
fn check_tables(files: &Files, manifest: &Manifest) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let spawn =
            |table| thread::Builder::new().spawn_scoped(scope, move || files.check_table(table));
        let checking: Vec<_> = manifest.tables.iter().map(spawn).collect();
        checking.into_iter().try_for_each(|thread| {
            thread?.join().unwrap_or_else(|_| Err(anyhow!("a check of the tables panicked")))
        })
    })
}

/// Makes the files of an empty database, the manifest last: a kill before that leaves nothing that blocks the next
/// open.
fn make_database(directory: &Path, files: &Files) -> anyhow::Result<()> {
    fault::point("before-log-made");
    files.make()?;
    let salts = write_ahead_log::make(directory)?;
    sync_names(directory)?;
    files.write_manifest(&Manifest::new(salts, new_event_log()?))
}

/// A random name for a log of events.
pub(crate) fn new_event_log() -> anyhow::Result<u32> {
    getrandom::u32().context("the system gives no random bytes")
}

/// Syncs a folder and all its ancestors, because a killed start may have created any of them. An ancestor that this
/// user may not open existed before.
pub(crate) fn sync_names(directory: &Path) -> anyhow::Result<()> {
    for folder in directory.canonicalize()?.ancestors() {
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            Err(cause)
                if !matches!(
                    cause.kind(),
                    ErrorKind::PermissionDenied
                        | ErrorKind::InvalidInput
                        | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Err(cause).with_context(|| format!("cannot sync {}", folder.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens or makes a lock file, and locks it.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let file = open_own(path, File::options().create(true).truncate(false).write(true))
        .with_context(|| format!("cannot write {}; check who owns it", path.display()))?;
    try_lock(path, file)
}

/// Locks the database without a change: its file system may be read-only, and what is left of it may have no lock file.
pub(crate) fn lock_to_look(directory: &Path) -> anyhow::Result<Option<File>> {
    let path = directory.join(LOCK);
    match open_own(&path, File::options().read(true)) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        opened => {
            let file = opened.with_context(|| format!("cannot read {}", path.display()))?;
            try_lock(&path, file).map(Some)
        }
    }
}

fn try_lock(path: &Path, file: File) -> anyhow::Result<File> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => {
                bail!("another process has it open; stop that process first, or use another folder")
            }
            Err(TryLockError::Error(cause)) => {
                return Err(cause).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}
