//! Opening the database.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::fs::OFlags;

use super::config::{LOCK_PATIENCE, LOCK_RETRY_INTERVAL, SLED_DIRECTORY, SledConfig};
use super::findings::Findings;
use super::fold::{checkpoint, write_synced};
use super::id_filter::IdFilter;
use super::journal::{self, Journal};
use super::layout::{self, FORMAT, FORMAT_KEY, JOURNAL_KEY, STATE_KEY, State};
use super::ordered_map::engine::{
    check_format, check_readable, make_writes_synchronous, move_unfinished_snapshots_aside,
    open_sled,
};
use super::ordered_map::guarded::{LastHandle, advise, advise_on_disk, guarded, is_of_disk};
use super::ordered_map::paced::PacedDb;
use super::recovery::{self, Replay};
use crate::fault;

/// Where sled's folder is made, before it is whole and gets its name.
const UNFINISHED_DIRECTORY: &str = "sled.unfinished";
/// The file in sled's folder that everything is written to.
const SLED_FILE: &str = "db";

/// A database in good order, with nothing in its journal that is not on disk in sled.
pub(super) struct Opened {
    pub(super) db: PacedDb,
    /// Our own handle on the file that sled writes to.
    pub(super) database_file: File,
    pub(super) state: State,
    pub(super) ids: IdFilter,
    pub(super) journal: Journal,
    pub(super) last_handle: LastHandle,
    pub(super) lock: File,
}

/// A database with its journal applied.
pub(super) struct FoundDatabase {
    pub(super) db: PacedDb,
    database_file: File,
    /// How far the database is, where that can be read.
    pub(super) state: Option<State>,
    last_handle: LastHandle,
    lock: File,
}

/// Opens the database to serve it, or makes a new one.
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
    bring_to_disk(config, find(config, lock, Replay::Unsynced, &mut Findings::Refuse)?)
}

/// Has sled bring to the disk what only the journal had, and checks that nothing is missing.
fn bring_to_disk(config: &SledConfig, found: FoundDatabase) -> anyhow::Result<Opened> {
    let FoundDatabase { db, database_file, state, last_handle, lock } = found;
    let check = || {
        let (state, ids) = match check_all(&db, state) {
            Err(lost) if !is_of_disk(&lost) => {
                warn_of_lost(&lost);
                check_all(&db, read_kept(config, &db, Replay::All, &mut Findings::Refuse)?)?
            }
            checked => checked?,
        };
        checkpoint(&db, &database_file)?;
        write_synced(&db, &state)?;
        fault::point("before-opened");
        Ok((state, ids, Journal::open(&config.directory)?))
    };
    match guarded(check).map_err(advise) {
        Ok((state, ids, journal)) => {
            Ok(Opened { db, database_file, state, ids, journal, last_handle, lock })
        }
        Err(error) => {
            drop(db);
            Err(last_handle.close_after(error))
        }
    }
}

/// What the journal still has of it comes back.
fn warn_of_lost(lost: &anyhow::Error) {
    log::warn!("all that the journal has is applied once more: {lost:#}");
}

/// Nothing is missing. Also says which ids are used.
fn check_all(db: &PacedDb, state: Option<State>) -> anyhow::Result<(State, IdFilter)> {
    let state = state.context("it is not known how far the database is")?;
    Ok((state, recovery::check(db, &state)?))
}

/// Opens a database that is there to look at it, whatever is wrong with it.
pub(super) fn open_to_look(
    config: &SledConfig,
    findings: &mut Findings,
) -> anyhow::Result<FoundDatabase> {
    let directory = &config.directory;
    ensure!(
        has_database(directory)?,
        "there is no database in {}; name the folder of one",
        directory.display()
    );
    let lock = lock(directory)?;
    find(config, lock, Replay::All, findings).map_err(advise_on_disk)
}

fn has_database(directory: &Path) -> anyhow::Result<bool> {
    directory.join(SLED_DIRECTORY).try_exists().context("the folder cannot be read")
}

/// Opens sled, and what is in it.
fn find(
    config: &SledConfig,
    lock: File,
    replay: Replay,
    findings: &mut Findings,
) -> anyhow::Result<FoundDatabase> {
    let sled_directory = config.directory.join(SLED_DIRECTORY);
    move_unfinished_snapshots_aside(&sled_directory)?;
    let file = sled_directory.join(SLED_FILE);
    if !file.try_exists().context("the folder cannot be read")? {
        // sled would make an empty one.
        return Err(advise(anyhow!("the file {} is missing", file.display())));
    }
    let database_file = File::open(&file)
        .with_context(|| format!("cannot read {}; check who owns it", file.display()))?;
    check_readable(&file)?;
    make_writes_synchronous(&database_file, &file);
    let db = guarded(|| open_sled(config, &sled_directory)).map_err(|cause| {
        advise(cause.context(format!("sled cannot open {}", sled_directory.display())))
    })?;
    fault::point("after-sled-opened");
    let last_handle = LastHandle::new(db.clone());
    let db = PacedDb::new(db);
    // What sled has made, renamed and removed while it opened is on disk before anything builds on it.
    let synced = sync_directory(&sled_directory);
    match synced.and_then(|()| read_kept(config, &db, replay, findings)) {
        Ok(state) => Ok(FoundDatabase { db, database_file, state, last_handle, lock }),
        Err(error) => {
            drop(db);
            Err(last_handle.close_after(error))
        }
    }
}

/// Applies the journal, and reads how far the database is.
fn read_kept(
    config: &SledConfig,
    db: &PacedDb,
    replay: Replay,
    findings: &mut Findings,
) -> anyhow::Result<Option<State>> {
    check_format(db)?;
    guarded(|| {
        let mut contents = journal::read(&config.directory, findings)?;
        if db.get(JOURNAL_KEY)?.as_deref() != Some(&contents.salts) {
            findings.add("the journal is not that of this database; put its own back")?;
            contents.payloads.clear();
        }
        match guarded(|| recovery::read(db, &contents.payloads, replay, findings)) {
            Err(lost) if replay == Replay::Unsynced && !is_of_disk(&lost) => {
                warn_of_lost(&lost);
                recovery::read(db, &contents.payloads, Replay::All, findings)
            }
            read => read,
        }
    })
    .map_err(advise)
}

/// Makes a folder for its owner alone, and its parents where they are missing.
fn make_directory(directory: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
        .with_context(|| format!("cannot make the folder {}", directory.display()))
}

/// Syncs the names of a folder and of those that it is in. A start that was killed may have made any of
/// them. One that cannot be read or written was there before.
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

/// Only one process may have the database open.
fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("lock");
    // The folder may be another user's, whose link would lead to any file.
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
                bail!("another process has it open; stop that one first, or use another folder")
            }
            Err(TryLockError::Error(cause)) => {
                return Err(cause).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}

/// Makes an empty journal, and an empty database under another name. It gets its own name when
/// everything is whole and on disk, so that a kill in between leaves nothing that sled would later
/// stumble over.
fn make_database(config: &SledConfig, sled_directory: &Path) -> anyhow::Result<()> {
    let unfinished = config.directory.join(UNFINISHED_DIRECTORY);
    match fs::remove_dir_all(&unfinished) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            return Err(cause).with_context(|| format!("cannot remove {}", unfinished.display()));
        }
        _ => {}
    }
    fault::point("before-journal-made");
    let salts = journal::make(&config.directory)?;
    let db = open_sled(config, &unfinished).context("sled cannot make a database")?;
    fault::point("after-unfinished-opened");
    db.insert(FORMAT_KEY, &FORMAT.to_be_bytes())?;
    db.insert(JOURNAL_KEY, &salts)?;
    db.insert(STATE_KEY, layout::encode(&State::default())?)?;
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

/// Syncs the files of a folder, its subfolders' names and its own names.
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
