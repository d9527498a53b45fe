//! Opening the database, with what sled needs to be guarded against.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::SledConfig;
use super::checkpoint::checkpoint;
use super::database::{Database, Shared, State, write_group};
use super::digest::Digest;
use super::findings::Findings;
use super::guarded::{LastHandle, advise, advise_on_disk, guarded};
use super::journal::{self, Journal};
use super::layout::{
    self, EVENT_PREFIX, EventRecord, FORMAT, FORMAT_KEY, Group, JOURNAL_KEY, OPENED_KEY,
    PLANT_PREFIX, PlantRecord, event_sequence, plant_id,
};
use super::pool::tended;
use super::tag_index::{TagIndex, tag_digest};
use crate::fault;

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
    pub(super) last_handle: LastHandle,
    pub(super) lock: File,
}

/// A database with its journal applied.
pub(super) struct Found {
    pub(super) db: sled::Db,
    database_file: File,
    /// How far the database is, where that can be read.
    pub(super) state: Option<State>,
    pub(super) tag_index: TagIndex,
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
    bring_to_disk(config, find(config, lock, &mut Findings::Refuse)?)
}

/// Has sled bring to the disk what only the journal had, and checks that nothing is missing.
fn bring_to_disk(config: &SledConfig, found: Found) -> anyhow::Result<Opened> {
    let Found { db, database_file, state, tag_index, last_handle, lock } = found;
    let check = || {
        let state = state.context("it is not known how far the database is")?;
        check_plants(&db, &state, &tag_index)?;
        // What has gathered over several short runs is folded now, if it is much.
        tag_index.fold(&db, usize::MAX, state.last_sequence)?;
        fault::point("after-opening-fold");
        db.insert(OPENED_KEY, &state.last_sequence.to_be_bytes())?;
        checkpoint(&db, &database_file)?;
        tag_index.checkpointed(tag_index.folded_through());
        fault::point("before-opened");
        Ok((state, Journal::open(&config.directory)?))
    };
    match tended(&db, || guarded(check)).map_err(advise) {
        Ok((state, journal)) => {
            let shared = Shared::new(state, tag_index);
            let database = Database { db, shared, keep_events: config.keep_events };
            Ok(Opened { database, database_file, journal, last_handle, lock })
        }
        Err(error) => {
            drop(db);
            Err(last_handle.close_after(error))
        }
    }
}

/// Opens a database that is there to look at it, whatever is wrong with it.
pub(super) fn open_to_look(config: &SledConfig, findings: &mut Findings) -> anyhow::Result<Found> {
    let directory = &config.directory;
    ensure!(
        has_database(directory)?,
        "there is no database in {}; name the folder of one",
        directory.display()
    );
    let lock = lock(directory)?;
    find(config, lock, findings).map_err(advise_on_disk)
}

fn has_database(directory: &Path) -> anyhow::Result<bool> {
    directory.join(SLED_DIRECTORY).try_exists().context("the folder cannot be read")
}

/// Opens sled, and what is in it.
fn find(config: &SledConfig, lock: File, findings: &mut Findings) -> anyhow::Result<Found> {
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
    let read = || {
        // What sled has made, renamed and removed while it opened is on disk before anything builds on it.
        sync_directory(&sled_directory)?;
        read_kept(config, &db, findings)
    };
    match tended(&db, || guarded(read)) {
        Ok((state, tag_index)) => {
            Ok(Found { db, database_file, state, tag_index, last_handle, lock })
        }
        Err(error) => {
            drop(db);
            Err(last_handle.close_after(error))
        }
    }
}

/// Applies the journal, and reads what is kept in memory.
fn read_kept(
    config: &SledConfig,
    db: &sled::Db,
    findings: &mut Findings,
) -> anyhow::Result<(Option<State>, TagIndex)> {
    check_format(db)?;
    let tag_changes = fault::limit("tag-changes-in-memory", config.tag_changes_in_memory);
    guarded(|| {
        let mut contents = journal::read(&config.directory, findings)?;
        if db.get(JOURNAL_KEY)?.as_deref() != Some(&contents.salts) {
            findings.add("the journal is not that of this database; put its own back")?;
            contents.payloads.clear();
        }
        read(db, &contents.payloads, tag_changes, findings)
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
    fault::point("before-journal-made");
    let salts = journal::make(&config.directory)?;
    let db = open_sled(config, &unfinished).context("sled cannot make a database")?;
    fault::point("after-unfinished-opened");
    db.insert(FORMAT_KEY, &FORMAT.to_be_bytes())?;
    db.insert(JOURNAL_KEY, &salts)?;
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

/// Has the file system bring each write to the disk before it returns, as `chattr +S` does.
///
/// sled takes a write as kept after `sync_file_range`, which leaves it in the disk's volatile cache, and
/// then writes over what it replaces. After a power cut both may be gone.
fn make_writes_synchronous(file: &File, path: &Path) {
    let set = ioctl_getflags(file).and_then(|flags| {
        if flags.contains(IFlags::SYNC) {
            Ok(())
        } else {
            ioctl_setflags(file, flags | IFlags::SYNC)
        }
    });
    if let Err(cause) = set {
        log::warn!(
            "this file system cannot make writes to {} synchronous ({cause}); after a power cut the \
             database may be damaged, and have to be restored from a backup",
            path.display()
        );
    }
}

/// sled takes a part of its file that cannot be read for an empty one, and writes over it. So all of it
/// is read before sled gets it: what the disk does not give any more shows here, and is left alone.
fn check_readable(path: &Path) -> anyhow::Result<()> {
    let read = || io::copy(&mut File::open(path)?, &mut io::sink());
    read().map(drop).with_context(|| format!("cannot read {}", path.display()))
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
            Err(cause) => return Err(cause.into()),
        }
    }
}

fn check_format(db: &sled::Db) -> anyhow::Result<()> {
    let value = guarded(|| {
        let value = db.get(FORMAT_KEY).context("the format number cannot be read")?;
        value.context("the format number is missing: this is no plant store, or most of it is lost")
    });
    let format = value.and_then(|value| layout::decode_format(&value)).map_err(advise)?;
    ensure!(
        format == FORMAT,
        "the database has format {format}, and this version reads format {FORMAT}; \
         use the version that wrote it to export the plants, and this one to import them"
    );
    Ok(())
}

/// How far the database is, with what the journal has, and the tag index of it.
pub(super) fn read(
    db: &sled::Db,
    journal_payloads: &[Vec<u8>],
    tag_changes_in_memory: usize,
    findings: &mut Findings,
) -> anyhow::Result<(Option<State>, TagIndex)> {
    replay_journal(db, journal_payloads, findings)?;
    fault::point("after-replay");
    let state = read_state(db, findings)?;
    let indexed_through = state.map_or(0, |state| state.indexed_through);
    let tag_index = TagIndex::new(tag_changes_in_memory, indexed_through);
    if let Some(state) = &state {
        let mut findings = findings.of_first_look();
        let read = guarded(|| read_events(db, state, &tag_index, &mut findings));
        findings.value_of(read)?;
    }
    Ok((state, tag_index))
}

/// Applies again what the journal has; see there.
fn replay_journal(
    db: &sled::Db,
    payloads: &[Vec<u8>],
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let mut groups = Vec::with_capacity(payloads.len());
    for payload in payloads {
        groups.extend(findings.value_of(Group::decode(payload))?);
    }
    groups.sort_unstable_by_key(|group| group.first_sequence);
    let newest = groups.chunk_by(|one, next| one.last_sequence() + 1 == next.first_sequence).last();
    let newest = newest.unwrap_or_default();

    // What cannot be read of it is a finding of the one who reads it for good.
    let Some(in_sled) = read_state(db, &mut Findings::list())? else { return Ok(()) };
    let last_sequence = newest.last().map_or(0, Group::last_sequence);
    if last_sequence < in_sled.last_sequence {
        // A kill came before the first record since the last start was written, or while it was, over the
        // newest ones. What those held was brought to the disk in sled by that start.
        if db.get(OPENED_KEY)?.as_deref() == Some(&in_sled.last_sequence.to_be_bytes()) {
            return Ok(());
        }
        return findings.add(format_args!(
            "the changes between number {last_sequence} and {} are missing in the journal",
            in_sled.last_sequence
        ));
    }
    let [first, ..] = newest else { return Ok(()) };
    if first.first_sequence > in_sled.last_sequence + 1 {
        return findings.add(format_args!(
            "the changes between number {} and {} are lost from the journal",
            in_sled.last_sequence, first.first_sequence
        ));
    }
    let mut state = in_sled.before(first);
    let mut apply = |group: &Group<'_>| {
        state = state.after(&group.changes)?;
        write_group(db, group, &state)
    };
    for group in newest {
        let applied = guarded(|| apply(group));
        let number = || format!("the journal from number {} on", group.first_sequence);
        if findings.value_of(applied.with_context(number))?.is_none() {
            break;
        }
        fault::point("after-replayed-group");
    }
    Ok(())
}

/// How far the newest event record that can be read says that the database is; none when there are
/// records and none can be read.
fn read_state(db: &sled::Db, findings: &mut Findings) -> anyhow::Result<Option<State>> {
    let mut records = db.scan_prefix(EVENT_PREFIX);
    let mut is_any = false;
    loop {
        let record = guarded(|| Ok(records.next_back().transpose()?));
        let record = record.context("the newest event record cannot be read");
        let Some(record) = findings.value_of(record)? else { return Ok(None) };
        let Some((key, value)) = record else { break };
        is_any = true;
        let state = state_in(&key, &value).context("the newest event record is damaged");
        if let Some(state) = findings.value_of(state)? {
            return Ok(Some(state));
        }
    }
    Ok((!is_any).then(State::default))
}

fn state_in(key: &[u8], value: &[u8]) -> anyhow::Result<State> {
    let EventRecord { plants, digest, indexed_through, kept_from, events } = layout::decode(value)?;
    let last_sequence = (event_sequence(key)? + events.len() as u64).saturating_sub(1);
    Ok(State { last_sequence, plants, digest, kept_from, indexed_through })
}

/// Reads all events that are kept: what the tag index does not have on disk goes to it. sled drops a
/// damaged log entry without an error; here it shows, for the numbers have no gap.
fn read_events(
    db: &sled::Db,
    state: &State,
    tag_index: &TagIndex,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let mut last_sequence = state.kept_from.saturating_sub(1);
    for entry in db.scan_prefix(EVENT_PREFIX) {
        let (key, value) = entry.context("the events cannot be read")?;
        let first_sequence = event_sequence(&key)?;
        let record = layout::decode::<EventRecord<'_>>(&value).with_context(|| {
            format!("the event record from number {first_sequence} on is damaged")
        });
        let Some(record) = findings.value_of(record)? else { continue };
        let end = first_sequence + record.events.len() as u64;
        if end <= state.kept_from {
            // Remains of old events.
            continue;
        }
        if first_sequence > last_sequence + 1 {
            findings.add(format_args!(
                "the events between number {last_sequence} and {first_sequence} are lost"
            ))?;
        }
        // The oldest record may begin with events that are not kept any more.
        if first_sequence <= last_sequence && last_sequence >= state.kept_from {
            findings
                .add(format_args!("the events from number {first_sequence} on are there twice"))?;
        }
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
pub(super) fn check_plants(
    db: &sled::Db,
    state: &State,
    tag_index: &TagIndex,
) -> anyhow::Result<()> {
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
