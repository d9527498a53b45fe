//! Opening the database.

use std::cmp::Reverse;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::ops::RangeFrom;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::fs::OFlags;

use super::cache::BlockCache;
use super::change::{ChangeGroup, Totals};
use super::compaction::write_table;
use super::config::DiskConfig;
use super::errors::{advise, advise_on_disk};
use super::files::Files;
use super::findings::Findings;
use super::health::StoreHealth;
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::merge::Tables;
use super::recovery::{newest_run, replay};
use super::room::MIB;
use super::table::{Content, Table, TableMetadata};
use super::table_writer::TableWriter;
use super::tree::with_newest;
use super::write_ahead_log::{self, WriteAheadLog};
use crate::fault;

/// How long an open waits for a lock that another process is about to release.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

const LOCK: &str = "lock";

/// A checked database: its tables have everything in the write-ahead log.
pub(super) struct Opened {
    pub(super) files: Files,
    pub(super) manifest: Manifest,
    pub(super) tables: Tables,
    pub(super) cache: Arc<BlockCache>,
    pub(super) write_ahead_log: WriteAheadLog,
    /// The newest groups in the write-ahead log without a gap, oldest first, if there is an archive.
    pub(super) to_archive: Vec<ChangeGroup>,
    pub(super) lock: File,
}

/// Opens the database, or makes a new one.
pub(super) fn open(config: &DiskConfig, health: Arc<StoreHealth>) -> anyhow::Result<Opened> {
    make_or_open(config, health).map_err(advise_on_disk)
}

fn make_or_open(config: &DiskConfig, health: Arc<StoreHealth>) -> anyhow::Result<Opened> {
    let directory = &config.directory;
    make_directory(directory)?;
    let lock = lock(&directory.join(LOCK))?;
    let files = Files::in_directory(directory, health);
    if !files.has_database()? {
        make_database(directory, &files)?;
    }
    recover(config, files, lock).map_err(advise)
}

/// Checks the database, and writes what only the write-ahead log has as a table.
fn recover(config: &DiskConfig, files: Files, lock: File) -> anyhow::Result<Opened> {
    let mut findings = Findings::Refuse;
    let mut manifest = files.read_manifest()?;
    files.sync_manifest_name()?;
    let cache = BlockCache::new(config.cache_mib.saturating_mul(MIB));
    let mut tables = open_tables(&files, &manifest, &cache)?;
    check_all(&tables)?;
    let log = write_ahead_log::read(&config.directory, Some(manifest.log_salts), &mut findings)?;
    let write_ahead_log = WriteAheadLog::open(&config.directory, &log)?;
    let groups = log.into_groups();
    let to_archive = config.archive.as_ref().map_or_else(Vec::new, |_| newest_run(&groups));
    let (memtables, totals) = replay(Some(manifest.totals), groups, &mut findings)?;
    fault::point("after-replay");
    // Only now: beside a manifest that is not the newest one, these tables may have the only copy of a plant.
    remove_other_tables(&files, &manifest)?;
    // There is one at most, because a gap in the log is refused.
    for memtable in &memtables {
        let table = write_table(&files, &mut manifest, memtable, totals, &cache)?;
        tables = with_newest(&tables, table);
    }
    fault::point("before-opened");
    Ok(Opened { files, manifest, tables, cache, write_ahead_log, to_archive, lock })
}

/// Opens the tables that the manifest names.
pub(super) fn open_tables(
    files: &Files,
    manifest: &Manifest,
    cache: &Arc<BlockCache>,
) -> anyhow::Result<Tables> {
    let open = |named: &TableMetadata| {
        let content = Content::of_file(&files.table_path(named.number))?;
        Ok(Arc::new(Table::open(named.number, content, Some(named), Arc::clone(cache))?))
    };
    manifest.tables.iter().map(open).collect()
}

/// Removes what a kill has left: tables that were not finished, and inputs of a merge that was.
fn remove_other_tables(files: &Files, manifest: &Manifest) -> anyhow::Result<()> {
    for number in files.table_numbers()? {
        if manifest.tables.iter().all(|named| named.number != number) {
            fault::point("before-other-table-removed");
            files.remove_table(number)?;
        }
    }
    Ok(())
}

/// Reads all tables, so that damage shows now, and not when a plant is asked for.
pub(super) fn check_all(tables: &[Arc<Table>]) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let check_some = || {
        while let Some(table) = tables.get(next.fetch_add(1, Ordering::Relaxed)) {
            table.check()?;
        }
        anyhow::Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, check_some);
        let checking: Vec<_> = (0..threads).map(spawn).collect();
        checking.into_iter().try_for_each(|thread| {
            thread?.join().unwrap_or_else(|_| Err(anyhow!("a check of the tables panicked")))
        })
    })
}

/// What there is of a database, even of a damaged one.
pub(super) struct Found {
    /// Newest first. The changes that only the write-ahead log has are the first table, in memory.
    pub(super) tables: Tables,
    /// What everything should add up to, if the manifest can be read.
    pub(super) totals: Option<Totals>,
    /// Keeps other processes out, if the file of the lock is there.
    _lock: Option<File>,
}

/// Opens an existing database, even if it is damaged, and changes nothing.
pub(super) fn open_to_look(config: &DiskConfig, findings: &mut Findings) -> anyhow::Result<Found> {
    let directory = &config.directory;
    let files = Files::in_directory(directory, Arc::default());
    let find = || {
        let has_tables = || anyhow::Ok(!files.table_numbers()?.is_empty());
        let has_log = write_ahead_log::is_in(directory);
        ensure!(
            directory.try_exists()? && (files.has_database()? || has_log || has_tables()?),
            "there is no database in {}; name the folder of one",
            directory.display()
        );
        lock_to_look(directory)
    };
    let found = find().and_then(|lock| look(config, &files, lock, findings).map_err(advise));
    found.map_err(advise_on_disk)
}

fn look(
    config: &DiskConfig,
    files: &Files,
    lock: Option<File>,
    findings: &mut Findings,
) -> anyhow::Result<Found> {
    let manifest = findings.value_of(files.read_manifest())?;
    let cache = BlockCache::new(config.cache_mib.saturating_mul(MIB));
    let mut open_one = |number, expected: Option<&TableMetadata>| {
        let content = || Content::of_file(&files.table_path(number));
        let open = || Table::open(number, content()?, expected, Arc::clone(&cache));
        let table = match findings.value_of(open())? {
            Some(table) => Some(table),
            None => findings
                .value_of(content())?
                .map(|content| Table::without_tail(number, content, Arc::clone(&cache))),
        };
        anyhow::Ok(table.map(Arc::new))
    };
    let (mut newer, mut tables) = (Vec::new(), Vec::new());
    match &manifest {
        Some(manifest) => {
            newer = newer_tables(files, manifest, &cache)?;
            for named in &manifest.tables {
                tables.extend(open_one(named.number, Some(named))?);
            }
        }
        None => {
            for number in files.table_numbers()? {
                tables.extend(open_one(number, None)?);
            }
            // Inputs of a merge may be there beside its result: the same entries are then found twice.
            tables.sort_unstable_by_key(newest_first);
        }
    }
    let salts = manifest.as_ref().map(|manifest| manifest.log_salts);
    let log = write_ahead_log::read(&config.directory, salts, findings)?;
    let in_tables = manifest.map(|manifest| manifest.totals);
    let (memtables, totals) = replay(in_tables, log.into_groups(), findings)?;
    // After a kill in a flush, the write-ahead log still has what the table has. Tags must not be counted twice.
    newer.retain(|table| {
        let (first, last) = table.sequences;
        let is_within = |(begin, end)| begin <= first && last <= end;
        !memtables.iter().any(|memtable| is_within(memtable.sequences()))
    });
    newer.append(&mut tables);
    let mut tables: Tables = newer.into();
    for (number, memtable) in IN_MEMORY.zip(&memtables) {
        tables = with_newest(&tables, in_memory(number, memtable, totals, &cache)?);
    }
    Ok(Found { tables, totals: in_tables.map(|_| totals), _lock: lock })
}

/// The whole tables with changes that are newer than the manifest, newest first. Beside an old manifest, they may have the
/// only copy of a plant.
fn newer_tables(
    files: &Files,
    manifest: &Manifest,
    cache: &Arc<BlockCache>,
) -> anyhow::Result<Vec<Arc<Table>>> {
    let mut newer = Vec::new();
    for number in files.table_numbers()? {
        let content = Content::of_file(&files.table_path(number));
        // A table that was being written when its process was killed is not whole.
        let opened = content.and_then(|it| Table::open(number, it, None, Arc::clone(cache)));
        if let Ok(table) = opened
            && table.sequences.0 > manifest.totals.last_sequence
        {
            newer.push(Arc::new(table));
        }
    }
    newer.sort_unstable_by_key(newest_first);
    Ok(newer)
}

/// The key by which tables are sorted without the manifest, which otherwise has their order.
fn newest_first(table: &Arc<Table>) -> Reverse<(u64, u64)> {
    Reverse((table.sequences.1, table.metadata.number))
}

/// The numbers of tables in memory, which no file has.
pub(super) const IN_MEMORY: RangeFrom<u64> = 1 << 63..;

/// A memtable as a table in memory.
pub(super) fn in_memory(
    number: u64,
    memtable: &Memtable,
    totals: Totals,
    cache: &Arc<BlockCache>,
) -> anyhow::Result<Table> {
    let mut table = TableWriter::new(Vec::new(), memtable.plants.len());
    memtable.write_to(&mut table, totals.stored_from)?;
    let (bytes, metadata) = table.finish(number, memtable.sequences())?;
    Table::open(number, Content::Memory(bytes), Some(&metadata), Arc::clone(cache))
}

pub(super) fn make_directory(directory: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(directory)
        .with_context(|| format!("cannot make the folder {}", directory.display()))
}

/// Makes the files of an empty database, the manifest last. A kill before leaves nothing that blocks the next open.
fn make_database(directory: &Path, files: &Files) -> anyhow::Result<()> {
    fault::point("before-log-made");
    files.make()?;
    let salts = write_ahead_log::make(directory)?;
    sync_names(directory)?;
    files.write_manifest(&Manifest::new(salts, new_event_log()?))
}

/// A random name of a log of events.
pub(super) fn new_event_log() -> anyhow::Result<u32> {
    getrandom::u32().context("the system gives no random bytes")
}

/// Syncs the names in a folder, and those of the folder and its ancestors: a killed start may have created any of them.
/// An ancestor that this user may not open existed before.
pub(super) fn sync_names(directory: &Path) -> anyhow::Result<()> {
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

/// Makes the file of a lock, if it is missing, and locks it.
pub(super) fn lock(path: &Path) -> anyhow::Result<File> {
    // In a folder of another user, a link could lead to any file.
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .custom_flags(no_link)
        .open(path)
        .with_context(|| format!("cannot write {}; check who owns it", path.display()))?;
    try_lock(path, file)
}

/// Locks the database, and changes nothing: its file system may be read-only, and what is left of it may have no lock.
fn lock_to_look(directory: &Path) -> anyhow::Result<Option<File>> {
    let path = directory.join(LOCK);
    match File::open(&path) {
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
