//! Inspects a database that no server has open, without changing it.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{iter, thread};

use anyhow::{Context as _, anyhow, ensure};
use plant_domain::NewPlant;
use tempfile::TempDir;

use super::errors::{advise, advise_on_disk, is_about_access, open_error};
use super::findings::Findings;
use super::verify::{Verification, Verifier};
use crate::record::PlantRecord;
use crate::sled::checkpoints;
use crate::sled::commit::change::Totals;
use crate::sled::commit::recovery::replay;
use crate::sled::commit::write_ahead_log;
use crate::sled::compaction::merge::{Merge, MergedEntries, levels_of};
use crate::sled::config::SledConfig;
use crate::sled::files::Files;
use crate::sled::keys;
use crate::sled::memtable::level::MemoryLevel;
use crate::sled::open::lock_to_look;
use crate::sled::tables::{Level, Map, Table, TableMetadata};
use crate::{OpenError, StoreFailure};

/// How long sled may take to open damaged files, because it may hang.
const OPEN_PATIENCE: Duration = Duration::from_secs(60);

/// A database that is open for inspection, even if [`SledRepository`](crate::SledRepository) refuses it as damaged. The
/// inspection changes nothing: if sled could change a table, sled gets a copy in the folder for temporary files.
pub struct SledInspection {
    found: Found,
    findings: Findings,
}

/// What is left of a database.
#[derive(Default)]
struct Found {
    /// Newest first.
    tables: Vec<Arc<Table>>,
    /// The changes that only the write-ahead log has, then the tables, newest first.
    levels: Vec<Arc<dyn Level>>,
    /// The expected totals, if the manifest can be read.
    totals: Option<Totals>,
    /// Temporary copies of tables.
    copies: Vec<TempDir>,
    /// Keeps other processes out, if there is a lock file.
    _lock: Option<File>,
}

impl SledInspection {
    /// Opens the database. Only the folder and the cache size of the configuration are used.
    ///
    /// # Errors
    ///
    /// When there is no database, another process has it open, or another version made it. [`OpenError::Damaged`] when
    /// too much of the database is damaged.
    pub fn open(config: &SledConfig) -> Result<Self, OpenError> {
        let mut findings = Findings::list();
        let found = find(config, &mut findings)
            .with_context(|| format!("cannot open the database in {}", config.directory.display()))
            .map_err(open_error)?;
        Ok(Self { found, findings })
    }

    /// Compares plants, search index, counts, digest and events with each other. Reads everything; memory does not grow
    /// with the database. Calls `progress` with the completed share, from 0 to 1.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(&self, progress: &dyn Fn(f64)) -> Result<Verification, StoreFailure> {
        self.try_verify(progress).map_err(StoreFailure::new)
    }

    fn try_verify(&self, progress: &dyn Fn(f64)) -> anyhow::Result<Verification> {
        let Found { tables, levels, totals, .. } = &self.found;
        let entries: u64 = tables.iter().map(|table| table.summary.plant_entries).sum();
        let entries = entries + totals.map_or(entries, |totals| totals.plants);
        let mut verifier = Verifier::new(*totals, self.findings.clone(), entries, progress);
        let history_from = totals.map_or(1, |totals| totals.history_from);
        verifier.read(&mut MergedEntries::new(levels.clone(), true, history_from))?;
        verifier.check_totals()?;
        for table in tables {
            verifier.verify_table(table)?;
        }
        Ok(verifier.into_verification())
    }

    /// Every readable plant by ascending id, with an error in the place of an unreadable page.
    pub fn plants(&self) -> impl Iterator<Item = Result<NewPlant, StoreFailure>> {
        let mut entries = Merge::of_levels(&self.found.levels, Map::Plants, &[]);
        iter::from_fn(move || next_plant(&mut entries).map_err(StoreFailure::new).transpose())
    }

    /// The expected number of plants, if the manifest can be read.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.found.totals.map(|totals| totals.plants)
    }
}

fn next_plant(entries: &mut Merge) -> anyhow::Result<Option<NewPlant>> {
    while let Some((key, record)) = entries.next()? {
        let id = keys::plant_of(key)?;
        let Some(record) = record else { continue };
        let record = PlantRecord::decode(record)
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        return Ok(Some(record.to_stored_plant(id)?.into_new_plant()));
    }
    Ok(None)
}

/// Opens an existing database, even if it is damaged.
fn find(config: &SledConfig, findings: &mut Findings) -> anyhow::Result<Found> {
    let directory = &config.directory;
    let files = Files::in_directory(directory, config.cache_bytes(), Arc::default());
    let lock = || {
        let has_tables = || anyhow::Ok(!files.table_numbers()?.is_empty());
        let has_log = write_ahead_log::is_in(directory);
        ensure!(
            directory.try_exists()? && (files.has_database()? || has_log || has_tables()?),
            "there is no database in {}; name the folder of one",
            directory.display()
        );
        lock_to_look(directory)
    };
    let found = lock().and_then(|lock| look(directory, &files, lock, findings).map_err(advise));
    found.map_err(advise_on_disk)
}

fn look(
    directory: &Path,
    files: &Files,
    lock: Option<File>,
    findings: &mut Findings,
) -> anyhow::Result<Found> {
    let mut found = Found { _lock: lock, ..Found::default() };
    findings.value_of(checkpoints::read(directory))?;
    let manifest = findings.value_of(files.read_manifest())?;
    match &manifest {
        Some(manifest) => {
            for named in &manifest.tables {
                let is_whole = findings.value_of(files.check_table(named))?.is_some();
                let table = found.open_table(files, *named, is_whole);
                found.tables.extend(findings.value_of(table)?);
            }
        }
        None => {
            for number in files.table_numbers()? {
                let unnamed = TableMetadata { number, bytes: 0, checksum: 0 };
                let table = found.open_table(files, unnamed, false);
                found.tables.extend(findings.value_of(table)?);
            }
            // The inputs of a merge may be there beside its result, with the same entries.
            let age = |table: &Arc<Table>| (table.summary.sequences.1, table.metadata.number);
            found.tables.sort_unstable_by_key(|table| Reverse(age(table)));
        }
    }
    let salts = manifest.as_ref().map(|manifest| manifest.log_salts);
    let log = write_ahead_log::read(directory, salts, findings)?;
    let in_tables = manifest.as_ref().map(|manifest| manifest.totals);
    let (memtables, totals) = replay(in_tables, log.into_groups(), findings)?;
    found.totals = in_tables.map(|_| totals);
    for memtable in memtables.iter().rev() {
        found.levels.push(Arc::new(MemoryLevel::of(memtable)?));
    }
    found.levels.extend(levels_of(&found.tables));
    Ok(found)
}

impl Found {
    /// Opens a whole table in place, or else a copy of what is left of it.
    fn open_table(
        &mut self,
        files: &Files,
        metadata: TableMetadata,
        is_whole: bool,
    ) -> anyhow::Result<Arc<Table>> {
        if is_whole {
            match files.open_table(metadata) {
                // sled needs to write, even if only what is already there, so a copy is opened.
                Err(error) if is_about_access(&error) => {}
                opened => return opened.map(Arc::new),
            }
        }
        let folder = files.table_folder(metadata.number);
        let copy = tempfile::Builder::new().prefix("plantd-table-").tempdir();
        let copy = copy.context("cannot make a folder for a copy of a table")?;
        copy_folder(&folder, copy.path())
            .with_context(|| format!("cannot copy the table {}", folder.display()))?;
        let (path, name) = (copy.path().to_owned(), folder.clone());
        let (report, opened) = mpsc::sync_channel(1);
        // If the open hangs, only the end of the program ends the thread.
        thread::spawn(move || drop(report.send(Table::open_damaged(&path, name, metadata))));
        let opened = opened.recv_timeout(OPEN_PATIENCE).context("sled hangs");
        // An error of sled about its copy is not an error of the disk.
        let table = opened.flatten().map_err(|cause| {
            anyhow!("nothing of the table {} can be read: {cause:#}", folder.display())
        })?;
        self.copies.push(copy);
        Ok(Arc::new(table))
    }
}

/// Copies the regular files in a folder and its subfolders. Makes the new folder if it is missing.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if fs::metadata(entry.path())?.is_file() {
            std::io::copy(&mut File::open(entry.path())?, &mut File::create(target)?)?;
        }
    }
    Ok(())
}
