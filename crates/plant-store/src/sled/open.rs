//! Opening the database.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::fs::OFlags;

use super::bloom_filter::BloomFilter;
use super::compaction::{checkpoint, write_synced};
use super::config::{LOCK_PATIENCE, LOCK_RETRY_INTERVAL, SLED_DIRECTORY, SledConfig};
use super::findings::Findings;
use super::layout::{self, FORMAT, FORMAT_KEY, LOG_SALTS_KEY, MANIFEST_KEY, Manifest};
use super::ordered_map::guarded::{LastHandle, advise, advise_on_disk, guarded, is_of_disk};
use super::ordered_map::opening::{
    check_format, check_readable, make_writes_synchronous, move_unfinished_snapshots_aside,
    open_sled,
};
use super::ordered_map::paced::PacedDb;
use super::recovery::{self, Replay};
use super::write_ahead_log::{self, WriteAheadLog};
use crate::fault;

/// The name of sled's folder until the new database is complete.
const UNFINISHED_DIRECTORY: &str = "sled.unfinished";
const SLED_FILE: &str = "db";

/// A checked database: sled has everything in the write-ahead log on disk.
pub(super) struct Opened {
    pub(super) found: FoundDatabase,
    pub(super) manifest: Manifest,
    /// The ids in use.
    pub(super) ids: BloomFilter,
    pub(super) write_ahead_log: WriteAheadLog,
}

/// A database whose write-ahead log is not read yet.
pub(super) struct FoundDatabase {
    pub(super) db: PacedDb,
    /// Our own handle to sled's file.
    pub(super) file: File,
    pub(super) last_handle: LastHandle,
    pub(super) lock: File,
}

impl FoundDatabase {
    /// Recovers the database. After an error, closes sled, unless the disk has failed.
    fn recovered<T>(
        self,
        recover: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Self, T)> {
        match guarded(|| recover(&self)).map_err(advise) {
            Ok(recovered) => Ok((self, recovered)),
            Err(error) => Err(self.close_after(error)),
        }
    }

    fn close_after(self, error: anyhow::Error) -> anyhow::Error {
        drop(self.db);
        if is_of_disk(&error) {
            self.last_handle.leave_open();
        } else {
            drop(self.last_handle);
        }
        error
    }
}

pub(super) fn open(config: &SledConfig) -> anyhow::Result<Opened> {
    guarded(|| make_or_open(config)).map_err(advise_on_disk)
}

fn make_or_open(config: &SledConfig) -> anyhow::Result<Opened> {
    let directory = &config.directory;
    make_directory(directory)?;
    let lock = lock(directory)?;
    if !has_database(directory)? {
        make_database(config, &directory.join(SLED_DIRECTORY))?;
    }
    let found = find(config, lock)?;
    let (found, (manifest, ids, write_ahead_log)) =
        found.recovered(|found| recover(config, &found.db, &found.file))?;
    Ok(Opened { found, manifest, ids, write_ahead_log })
}

/// Replays the write-ahead log, checks that nothing is missing, and makes changes durable in sled that only the log
/// had.
fn recover(
    config: &SledConfig,
    db: &PacedDb,
    file: &File,
) -> anyhow::Result<(Manifest, BloomFilter, WriteAheadLog)> {
    let payloads = read_log(config, db, &mut Findings::Refuse)?;
    let replayed = |replay| {
        let manifest = guarded(|| recovery::read(db, &payloads, replay, &mut Findings::Refuse))?;
        let manifest = manifest.context("the manifest cannot be read")?;
        anyhow::Ok((manifest, recovery::check(db, &manifest)?))
    };
    let (manifest, ids) = match replayed(Replay::Unsynced) {
        Err(lost) if !is_of_disk(&lost) => {
            log::warn!(
                "replaying all of the write-ahead log, because sled has lost changes: {lost:#}"
            );
            replayed(Replay::All)?
        }
        replayed => replayed?,
    };
    checkpoint(db, file)?;
    write_synced(db, &manifest)?;
    fault::point("before-opened");
    Ok((manifest, ids, WriteAheadLog::open(&config.directory)?))
}

/// Opens an existing database, and replays the write-ahead log, even if the database is damaged. Also returns the
/// manifest, if it can be read.
pub(super) fn open_to_look(
    config: &SledConfig,
    findings: &mut Findings,
) -> anyhow::Result<(FoundDatabase, Option<Manifest>)> {
    let directory = &config.directory;
    ensure!(
        has_database(directory)?,
        "there is no database in {}; name the folder of one",
        directory.display()
    );
    let lock = lock(directory)?;
    let replay = |found: &FoundDatabase| {
        let payloads = read_log(config, &found.db, findings)?;
        recovery::read(&found.db, &payloads, Replay::All, findings)
    };
    find(config, lock).and_then(|found| found.recovered(replay)).map_err(advise_on_disk)
}

/// Reads the records of the write-ahead log.
fn read_log(
    config: &SledConfig,
    db: &PacedDb,
    findings: &mut Findings,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let (salts, mut payloads) = write_ahead_log::read(&config.directory, findings)?;
    if db.get(LOG_SALTS_KEY)?.as_deref() != Some(&salts) {
        findings.add(
            "journal.0 and journal.1 belong to another database; put the files of this one back",
        )?;
        payloads.clear();
    }
    Ok(payloads)
}

fn has_database(directory: &Path) -> anyhow::Result<bool> {
    directory.join(SLED_DIRECTORY).try_exists().context("the folder cannot be read")
}

/// Opens sled with its guards.
fn find(config: &SledConfig, lock: File) -> anyhow::Result<FoundDatabase> {
    let sled_directory = config.directory.join(SLED_DIRECTORY);
    move_unfinished_snapshots_aside(&sled_directory)?;
    let path = sled_directory.join(SLED_FILE);
    if !path.try_exists().context("the folder cannot be read")? {
        // sled would make an empty file.
        return Err(advise(anyhow!("the file {} is missing", path.display())));
    }
    let file = File::open(&path)
        .with_context(|| format!("cannot read {}; check who owns it", path.display()))?;
    check_readable(&path)?;
    make_writes_synchronous(&file, &path);
    let db = guarded(|| open_sled(config, &sled_directory)).map_err(|cause| {
        advise(cause.context(format!("sled cannot open {}", sled_directory.display())))
    })?;
    fault::point("after-sled-opened");
    let last_handle = LastHandle::new(db.clone());
    let db = PacedDb::new(db);
    let found = FoundDatabase { db, file, last_handle, lock };
    // Wait until the names of the files that sled has created, renamed and removed are on disk.
    match sync_directory(&sled_directory).and_then(|()| check_format(&found.db)) {
        Ok(()) => Ok(found),
        Err(error) => Err(found.close_after(error)),
    }
}

fn make_directory(directory: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
        .with_context(|| format!("cannot make the folder {}", directory.display()))
}

/// Syncs the names of a folder and of its ancestors: a killed start may have created any of them. An ancestor that this
/// user may not open existed before.
fn sync_names(directory: &Path) -> anyhow::Result<()> {
    let directory = directory.canonicalize()?;
    for parent in directory.ancestors().skip(1) {
        match File::open(parent).and_then(|parent| parent.sync_all()) {
            Err(cause)
                if !matches!(
                    cause.kind(),
                    ErrorKind::PermissionDenied
                        | ErrorKind::InvalidInput
                        | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Err(cause).with_context(|| format!("cannot sync {}", parent.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("lock");
    // In a folder of another user, a link could lead to any file.
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .custom_flags(no_link)
        .open(&path)
        .with_context(|| format!("cannot write {}; check who owns it", path.display()))?;
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

/// Creates an empty write-ahead log, and an empty sled database under another name, which is renamed once everything is
/// on disk. A kill in between leaves nothing that blocks the next open.
fn make_database(config: &SledConfig, sled_directory: &Path) -> anyhow::Result<()> {
    let unfinished = config.directory.join(UNFINISHED_DIRECTORY);
    match fs::remove_dir_all(&unfinished) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            return Err(cause).with_context(|| format!("cannot remove {}", unfinished.display()));
        }
        _ => {}
    }
    fault::point("before-journal-made");
    let salts = write_ahead_log::make(&config.directory)?;
    let db = open_sled(config, &unfinished).context("sled cannot make a database")?;
    fault::point("after-unfinished-opened");
    db.insert(FORMAT_KEY, &FORMAT.to_be_bytes())?;
    db.insert(LOG_SALTS_KEY, &salts)?;
    db.insert(MANIFEST_KEY, layout::encode(&Manifest::default())?)?;
    db.flush()?;
    fault::point("after-format");
    LastHandle::new(db).close()?;
    sync_directory(&unfinished)?;
    sync_names(&config.directory)?;
    fault::point("before-rename");
    fs::rename(&unfinished, sled_directory)?;
    fault::point("after-rename");
    sync_directory(&config.directory)
}

/// Syncs the files and subfolders of a folder, and their names.
fn sync_directory(directory: &Path) -> anyhow::Result<()> {
    let sync = |path: PathBuf| -> anyhow::Result<()> {
        File::open(&path)
            .and_then(|file| file.sync_all())
            .with_context(|| format!("cannot sync {}", path.display()))
    };
    for entry in fs::read_dir(directory)? {
        sync(entry?.path())?;
    }
    sync(directory.to_owned())
}
