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
use super::database::{Database, Shared, State};
use super::journal::{self, Journal};
use super::layout::{
    self, EVENT_PREFIX, EventRecord, FORMAT, FORMAT_KEY, Group, PLANT_PREFIX, event_sequence,
};
use super::tag_index::TagIndex;

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
    let EventLog { state, tag_index, gap } =
        read_events(&db, config.tag_changes_in_memory).map_err(advise)?;
    let database_file = File::open(sled_directory.join(SLED_FILE))?;
    let shared = Shared::new(state, tag_index);
    // Nothing is forgotten before the newest record says so.
    let mut database = Database { db, state, shared, keep_events: u64::MAX };
    replay_journal(&mut database, directory).map_err(advise)?;
    database.keep_events = config.keep_events;
    if gap.is_some() {
        // The journal may have filled it.
        check_events(&database.db).map_err(advise)?;
    }
    count_plants(&database).map_err(advise)?;
    let folded_through = database.shared.tag_index.folded_through();
    checkpoint(&database.db, &database_file)?;
    database.shared.tag_index.checkpointed(folded_through);
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

/// What the log of events says.
struct EventLog {
    state: State,
    tag_index: TagIndex,
    /// The numbers between which events are missing. sled drops a damaged log entry without an error;
    /// here it shows.
    gap: Option<(u64, u64)>,
}

fn read_events(db: &sled::Db, changes_in_memory: usize) -> anyhow::Result<EventLog> {
    let Some(newest) = db.scan_prefix(EVENT_PREFIX).next_back().transpose()? else {
        let tag_index = TagIndex::new(changes_in_memory, 0);
        return Ok(EventLog { state: State::default(), tag_index, gap: None });
    };
    let newest: EventRecord<'_> = layout::decode(&newest.1).context("the newest event record")?;
    let EventRecord { plants, indexed_through, kept_from, events: _ } = newest;

    let tag_index = TagIndex::new(changes_in_memory, indexed_through);
    let mut last_sequence = kept_from.saturating_sub(1);
    let mut gap = None;
    for entry in db.scan_prefix(EVENT_PREFIX) {
        let (key, value) = entry?;
        let first_sequence = event_sequence(&key)?;
        let record: EventRecord<'_> = layout::decode(&value)
            .with_context(|| format!("the event record from number {first_sequence} on"))?;
        let end = first_sequence + record.events.len() as u64;
        if end <= kept_from {
            // Remains of old events.
            continue;
        }
        if first_sequence > last_sequence + 1 {
            gap = Some((last_sequence, first_sequence));
        }
        let later = (first_sequence..).zip(record.events);
        tag_index.apply(later.filter(|(sequence, _)| *sequence > indexed_through).map(|e| e.1));
        last_sequence = end - 1;
    }
    Ok(EventLog { state: State { last_sequence, plants, kept_from }, tag_index, gap })
}

/// Events that are missing in sled even though the journal was applied again are lost.
fn check_events(db: &sled::Db) -> anyhow::Result<()> {
    match read_events(db, usize::MAX)?.gap {
        Some((last, next)) => bail!("the events between number {last} and {next} are lost"),
        None => Ok(()),
    }
}

/// A plant that is missing in sled even though the journal was applied again shows as a wrong count.
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

/// Applies again what the journal has; see there.
fn replay_journal(database: &mut Database, directory: &Path) -> anyhow::Result<()> {
    let payloads = journal::read_payloads(directory)?;
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in &payloads {
        groups.push(Group::decode(payload)?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let newest = groups.chunk_by(|one, next| one.last_sequence() + 1 == next.first_sequence).last();
    let Some(newest @ [first, ..]) = newest else { return Ok(()) };

    let in_sled = database.state.last_sequence;
    if newest.last().is_some_and(|last| last.last_sequence() < in_sled) {
        // A kill came while the first record since the last start was written, over the newest ones.
        // What those held was brought to the disk in sled by that start.
        return Ok(());
    }
    ensure!(
        first.first_sequence <= in_sled + 1,
        "the changes between number {in_sled} and {} are lost from the journal",
        first.first_sequence
    );
    database.state = State {
        last_sequence: first.first_sequence - 1,
        plants: first.plants_before,
        kept_from: database.state.kept_from,
    };
    for group in newest {
        database.apply(group)?;
    }
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
