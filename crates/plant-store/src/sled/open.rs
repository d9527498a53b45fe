//! Opening the database, with what sled needs to be guarded against.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};

use super::SledConfig;
use super::checkpoint::checkpoint;
use super::database::{Database, Shared, State, write_group};
use super::digest::Digest;
use super::journal::{self, Journal};
use super::layout::{
    self, EVENT_PREFIX, EventRecord, FORMAT, FORMAT_KEY, Group, PLANT_PREFIX, PlantRecord,
    event_sequence, plant_id,
};
use super::tag_index::{TagIndex, tag_digest};

/// For how long another process may still hold a lock that it is about to let go of.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// sled's own folder, in the folder of the database.
pub(super) const SLED_DIRECTORY: &str = "sled";
/// Where sled's folder is made, before it is whole and gets its name.
const UNFINISHED_DIRECTORY: &str = "sled.unfinished";
/// The file in sled's folder that everything is written to.
const SLED_FILE: &str = "db";

/// A database in good order, with nothing in its journal that is not on disk in sled.
pub(super) struct Opened {
    pub(super) database: Database,
    /// Our own handle on the file that sled writes to, for checkpoints.
    pub(super) database_file: File,
    pub(super) journal: Journal,
    pub(super) lock: File,
}

/// Opens the database. sled panics on some damaged files: that becomes an error too.
pub(super) fn open_guarded(config: &SledConfig) -> anyhow::Result<Opened> {
    panic::catch_unwind(AssertUnwindSafe(|| open(config))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(advise(anyhow!("sled panicked: {text}")))
    })
}

/// Says what to do about a database that cannot be read, unless it is the disk that fails.
fn advise(error: anyhow::Error) -> anyhow::Error {
    let is_io = error.chain().any(|cause| {
        cause.is::<io::Error>() || matches!(cause.downcast_ref(), Some(sled::Error::Io(_)))
    });
    if is_io {
        error.context("the disk cannot be read or written; make sure that it works and has room")
    } else {
        error.context(
            "if the disk works and has room, the database is damaged; \
             restore a backup into a new folder, and keep this one",
        )
    }
}

fn open(config: &SledConfig) -> anyhow::Result<Opened> {
    let directory = &config.directory;
    make_directory(directory)?;
    let lock = lock(directory)?;

    let sled_directory = directory.join(SLED_DIRECTORY);
    if !sled_directory.try_exists().context("the folder cannot be read")? {
        make_database(config, &sled_directory)?;
    }
    move_unfinished_snapshots_aside(&sled_directory)?;

    let db = open_sled(config, &sled_directory)?;
    check_format(&db)?;
    let database_file = File::open(sled_directory.join(SLED_FILE))?;
    replay_journal(&db, directory).map_err(advise)?;
    let state = read_state(&db).map_err(advise)?;
    let tag_index = TagIndex::new(config.tag_changes_in_memory, state.indexed_through);
    read_events(&db, &state, &tag_index).map_err(advise)?;
    check_plants(&db, &state, &tag_index).map_err(advise)?;
    // What has gathered over several short runs is folded now, if it is much.
    tag_index.fold(&db, usize::MAX, state.last_sequence).map_err(advise)?;
    checkpoint(&db, &database_file)?;
    tag_index.checkpointed(tag_index.folded_through());
    let shared = Shared::new(state, tag_index);
    let database = Database { db, shared, keep_events: config.keep_events };
    // What sled has repaired while it opened is on disk before anything builds on it.
    sync_directory(&sled_directory)?;
    Ok(Opened { database, database_file, journal: Journal::open(directory)?, lock })
}

/// Makes a folder for its owner alone, and its parents where they are missing, and syncs their names.
fn make_directory(directory: &Path) -> anyhow::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = match directory.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    make_directory(parent)?;
    let made = DirBuilder::new().mode(0o700).create(directory);
    made.and_then(|()| File::open(parent)?.sync_all())
        .with_context(|| format!("cannot make the folder {}", directory.display()))
}

/// Only one process may have the database open.
fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
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
    journal::make(&config.directory)?;
    let db = open_sled(config, &unfinished)?;
    db.insert(FORMAT_KEY, &FORMAT.to_be_bytes())?;
    db.flush()?;
    drop(db);
    sync_directory(&unfinished)?;
    fs::rename(&unfinished, sled_directory)?;
    sync_directory(&config.directory)
}

/// A kill while sled writes a snapshot can leave an unfinished one, which the next open would take
/// for a snapshot and fail. Finished ones are left alone: they are part of the database.
fn move_unfinished_snapshots_aside(sled_directory: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(sled_directory)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        if name.starts_with("snap.") && name.ends_with(".generating") {
            let aside = path.with_file_name(format!("aside.{name}"));
            fs::rename(&path, &aside)?;
            log::warn!("moved an unfinished snapshot aside, to {}", aside.display());
        }
    }
    Ok(())
}

fn open_sled(config: &SledConfig, sled_directory: &Path) -> anyhow::Result<sled::Db> {
    let sled_config = sled::Config::new()
        .path(sled_directory)
        .cache_capacity(config.cache_mib.saturating_mul(1024 * 1024))
        .mode(sled::Mode::HighThroughput);
    let started = Instant::now();
    loop {
        match sled_config.open() {
            Ok(db) => return Ok(db),
            // sled lets go of its lock a little after a database was closed.
            Err(sled::Error::Io(cause))
                if cause.to_string().contains("could not acquire lock")
                    && started.elapsed() < LOCK_PATIENCE =>
            {
                thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(cause) => {
                let cause = anyhow!(cause);
                let failed = format!("sled cannot open {}", sled_directory.display());
                return Err(advise(cause.context(failed)));
            }
        }
    }
}

fn check_format(db: &sled::Db) -> anyhow::Result<()> {
    let value =
        db.get(FORMAT_KEY)?.context("the format number is missing: this is no plant store")?;
    let format = layout::decode_format(&value)?;
    ensure!(
        format == FORMAT,
        "the database has format {format}, and this version reads format {FORMAT}; \
         use the version that wrote it to export the plants, and this one to import them"
    );
    Ok(())
}

/// Applies again what the journal has; see there.
fn replay_journal(db: &sled::Db, directory: &Path) -> anyhow::Result<()> {
    let payloads = journal::read_payloads(directory)?;
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in &payloads {
        groups.push(Group::decode(payload)?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let newest = groups.chunk_by(|one, next| one.last_sequence() + 1 == next.first_sequence).last();
    let Some(newest @ [first, ..]) = newest else { return Ok(()) };

    let in_sled = read_state(db)?;
    if newest.last().is_some_and(|last| last.last_sequence() < in_sled.last_sequence) {
        // A kill came while the first record since the last start was written, over the newest ones.
        // What those held was brought to the disk in sled by that start.
        return Ok(());
    }
    ensure!(
        first.first_sequence <= in_sled.last_sequence + 1,
        "the changes between number {} and {} are lost from the journal",
        in_sled.last_sequence,
        first.first_sequence
    );
    let mut state = in_sled.before(first);
    for group in newest {
        state = state.after(&group.changes)?;
        write_group(db, group, &state)?;
    }
    Ok(())
}

/// How far the newest event record says that the database is.
fn read_state(db: &sled::Db) -> anyhow::Result<State> {
    let Some((key, value)) = db.scan_prefix(EVENT_PREFIX).next_back().transpose()? else {
        return Ok(State::default());
    };
    let record: EventRecord<'_> = layout::decode(&value).context("the newest event record")?;
    let EventRecord { plants, digest, indexed_through, kept_from, events } = record;
    let last_sequence = (event_sequence(&key)? + events.len() as u64).saturating_sub(1);
    Ok(State { last_sequence, plants, digest, kept_from, indexed_through })
}

/// Reads all events that are kept: what the tag index does not have on disk goes to it. sled drops a
/// damaged log entry without an error; here it shows, for the numbers have no gap.
fn read_events(db: &sled::Db, state: &State, tag_index: &TagIndex) -> anyhow::Result<()> {
    let mut last_sequence = state.kept_from.saturating_sub(1);
    for entry in db.scan_prefix(EVENT_PREFIX) {
        let (key, value) = entry?;
        let first_sequence = event_sequence(&key)?;
        let record: EventRecord<'_> = layout::decode(&value)
            .with_context(|| format!("the event record from number {first_sequence} on"))?;
        let end = first_sequence + record.events.len() as u64;
        if end <= state.kept_from {
            // Remains of old events.
            continue;
        }
        ensure!(
            first_sequence <= last_sequence + 1,
            "the events between number {last_sequence} and {first_sequence} are lost"
        );
        let events = (first_sequence..).zip(record.events);
        let later = events.filter(|(sequence, _)| *sequence > state.indexed_through);
        tag_index.apply(later.map(|(_, event)| event));
        last_sequence = end - 1;
    }
    Ok(())
}

/// What sled has lost or brought back from an older state, even though the journal was applied again,
/// shows here: the plants are not as many as were counted, they are others than they were, or the tag
/// index does not know them as they are.
fn check_plants(db: &sled::Db, state: &State, tag_index: &TagIndex) -> anyhow::Result<()> {
    let mut plants: u64 = 0;
    let (mut digest, mut tags_digest) = (Digest::default(), Digest::default());
    for entry in db.scan_prefix(PLANT_PREFIX) {
        let (key, value) = entry.context("cannot read the plants")?;
        plants += 1;
        digest += Digest::of(&key, &value);
        let id = plant_id(&key)?;
        let record: PlantRecord<'_> =
            layout::decode(&value).with_context(|| format!("the record of plant {id}"))?;
        if let Some(tag) = record.tag {
            tags_digest += tag_digest(tag, id);
        }
    }
    ensure!(
        plants == state.plants,
        "there are {plants} plants, but there were {} at the end",
        state.plants
    );
    ensure!(digest == state.digest, "some plants are not as they were at the end");
    ensure!(
        tags_digest == tag_index.digest(db)?,
        "the index of the tags does not agree with the plants"
    );
    Ok(())
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
