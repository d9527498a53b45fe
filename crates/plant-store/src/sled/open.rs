//! Opening the database, with what sled needs to be guarded against.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use plant_domain::PlantId;

use super::SledConfig;
use super::database::{Database, State};
use super::journal::{self, Journal};
use super::layout::{
    self, EVENT_PREFIX, EventRecord, FORMAT, FORMAT_KEY, Group, PLANT_PREFIX, event_sequence,
};
use super::tag_index::TagIndex;

/// For how long another process may still hold a lock that it is about to let go of.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

const DAMAGED: &str =
    "the database is damaged; restore a backup into a new folder, and keep this one";

/// sled's own folder, in the folder of the database.
const SLED_DIRECTORY: &str = "sled";
/// Where sled's folder is made, before it is whole and gets its name.
const UNFINISHED_DIRECTORY: &str = "sled.unfinished";
/// The file in sled's folder that everything is written to.
const SLED_FILE: &str = "db";

/// A database in good order, with nothing in its journal that is not on disk in sled.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) journal: Journal,
    pub(super) lock: File,
}

pub(super) fn open(config: &SledConfig) -> anyhow::Result<Opened> {
    let directory = &config.directory;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .context("the folder cannot be made; check that its parent exists and is yours")?;
    let lock = lock(directory)?;

    let sled_directory = directory.join(SLED_DIRECTORY);
    if !sled_directory.try_exists().context("the folder cannot be read")? {
        make_database(config, &sled_directory)?;
    }
    move_unfinished_snapshots_aside(&sled_directory)?;

    let db = open_sled(config, &sled_directory)?;
    check_format(&db)?;
    let (state, tag_index) = read_events(&db).context(DAMAGED)?;
    let file = File::open(sled_directory.join(SLED_FILE))?;
    let mut database = Database { db, file, state, tag_index };
    replay_journal(&mut database, directory).context(DAMAGED)?;
    count_plants(&database).context(DAMAGED)?;
    database.checkpoint()?;
    // What sled has repaired while it opened is on disk before anything builds on it.
    sync_directory(&sled_directory)?;
    Ok(Opened { database, journal: Journal::open(directory)?, lock })
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

/// Makes an empty journal, and an empty database under another name, which it gets its own when
/// everything is whole and on disk. A kill in
/// between leaves nothing that sled would later stumble over.
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
        // sled panics on some damaged files.
        let opened = panic::catch_unwind(AssertUnwindSafe(|| sled_config.open()));
        match opened {
            Ok(Ok(db)) => return Ok(db),
            // sled lets go of its lock a little after a database was closed.
            Ok(Err(sled::Error::Io(cause)))
                if cause.to_string().contains("could not acquire lock")
                    && started.elapsed() < LOCK_PATIENCE =>
            {
                thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Ok(Err(sled::Error::Corruption { .. })) | Err(_) => {
                bail!("{DAMAGED}: sled cannot read {}", sled_directory.display())
            }
            Ok(Err(cause)) => return Err(cause).context("sled cannot open it"),
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

/// Reads the log of events. sled drops a damaged log entry without an error; here it shows, as a gap
/// in the sequence numbers.
fn read_events(db: &sled::Db) -> anyhow::Result<(State, TagIndex)> {
    let Some(newest) = db.scan_prefix(EVENT_PREFIX).next_back().transpose()? else {
        return Ok((State::default(), TagIndex::new(0)));
    };
    let newest: EventRecord<'_> = layout::decode(&newest.1).context("the newest event record")?;
    let (plants, indexed_through) = (newest.plants, newest.indexed_through);

    let mut tag_index = TagIndex::new(indexed_through);
    let mut last_sequence = None;
    for entry in db.scan_prefix(EVENT_PREFIX) {
        let (key, value) = entry?;
        let first_sequence = event_sequence(&key)?;
        let record: EventRecord<'_> = layout::decode(&value)
            .with_context(|| format!("the event record from number {first_sequence} on"))?;
        if let Some(last_sequence) = last_sequence {
            ensure!(
                last_sequence + 1 == first_sequence,
                "the events between number {last_sequence} and {first_sequence} are lost"
            );
        }
        for (sequence, event) in (first_sequence..).zip(&record.events) {
            if sequence > indexed_through
                && let Some(tag) = event.tag
            {
                tag_index.add(tag, PlantId::from(event.id));
            }
            last_sequence = Some(sequence);
        }
    }
    let last_sequence = last_sequence.context("the newest event record is empty")?;

    Ok((State { last_sequence, plants }, tag_index))
}

/// Applies what the journal has and sled has not: a kill came between the two.
fn replay_journal(database: &mut Database, directory: &Path) -> anyhow::Result<()> {
    let payloads = journal::read_payloads(directory)?;
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in &payloads {
        let group: Group<'_> = postcard::from_bytes(payload).context("a journal record")?;
        if group.first_sequence > database.state.last_sequence {
            groups.push(group);
        }
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    for group in groups {
        let last_sequence = database.state.last_sequence;
        ensure!(
            group.first_sequence == last_sequence + 1,
            "the changes between number {last_sequence} and {} are lost from the journal",
            group.first_sequence
        );
        database.apply(&group)?;
    }
    Ok(())
}

/// A plant that sled has lost shows as a wrong count.
fn count_plants(database: &Database) -> anyhow::Result<()> {
    let mut counted: u64 = 0;
    for key in database.db.scan_prefix(PLANT_PREFIX).keys() {
        key?;
        counted += 1;
    }
    let plants = database.state.plants;
    ensure!(counted == plants, "there are {counted} plants, but there were {plants} at the end");
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
