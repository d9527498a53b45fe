//! Reads the file of a [backup](super::backup), proves it, and makes a database of it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::backup::{END_SEAL, End, LENGTH_BYTES};
use super::cache::BlockCache;
use super::errors::{advise_on_backup, advise_on_disk, open_error};
use super::findings::Findings;
use super::inspection::Verification;
use super::manifest::Manifest;
use super::merge::Tables;
use super::position::Position;
use super::room::MIB;
use super::table::{Content, FilePart, Table};
use crate::plant_record::whole;
use crate::{OpenError, StoreFailure};

/// The cache of blocks while a backup is verified or restored, in bytes.
pub(super) const CACHE_BYTES: u64 = 16 * MIB;

/// No head is longer: it would name half a million tables.
const HEAD_MAX_BYTES: u64 = 16 * MIB;

/// A backup that is whole: it has its head, its end, and everything in between. What is in its tables is proved by
/// [`Self::verify`].
pub struct BackupFile {
    pub(super) file: Arc<File>,
    pub(super) manifest: Manifest,
    /// Where each table begins in the file, in the order of the manifest.
    pub(super) offsets: Vec<u64>,
    /// The path, for errors.
    name: String,
}

impl BackupFile {
    /// Opens a backup, and checks its head and its end.
    ///
    /// # Errors
    ///
    /// [`OpenError::Damaged`] when the file is cut, damaged, or no backup. [`OpenError::Unusable`] when it cannot be
    /// read, or another version made it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let open = || {
            // Opening a pipe would wait for its writer.
            if fs::metadata(path)?.is_file() {
                File::open(path)
            } else {
                Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"))
            }
        };
        let file = open().with_context(|| format!("cannot read {name}"));
        let file = file.map_err(advise_on_disk).map_err(open_error)?;
        let opened = Self::try_open(file, name.clone());
        opened
            .with_context(|| format!("{name} is no whole backup"))
            .map_err(advise_on_backup)
            .map_err(advise_on_disk)
            .map_err(open_error)
    }

    fn try_open(file: File, name: String) -> anyhow::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut length = [0; LENGTH_BYTES];
        file.read_exact_at(&mut length, 0).context("it has no head")?;
        let head_bytes = u64::from_le_bytes(length);
        let head_end = head_bytes.checked_add(LENGTH_BYTES as u64);
        let head_end = head_end
            .filter(|end| *end <= bytes && head_bytes <= HEAD_MAX_BYTES)
            .context("its head is cut, or it does not begin as a backup does")?;
        let mut head = vec![0; usize::try_from(head_bytes)?];
        file.read_exact_at(&mut head, LENGTH_BYTES as u64)?;
        let manifest = Manifest::decode(&head).context("its head cannot be used")?;

        let (mut offsets, mut end_begin) = (Vec::with_capacity(manifest.tables.len()), head_end);
        for table in &manifest.tables {
            offsets.push(end_begin);
            end_begin = end_begin.checked_add(table.bytes).context("its tables are too long")?;
        }
        let end = END_SEAL.seal(&postcard::to_stdvec(&End::of(&manifest.totals, &head))?);
        let whole_bytes = end_begin.saturating_add(end.len() as u64);
        ensure!(bytes >= whole_bytes, "it is cut: it has {bytes} bytes instead of {whole_bytes}");
        ensure!(
            bytes == whole_bytes,
            "something follows its end: it has {bytes} bytes instead of {whole_bytes}"
        );
        let mut found = vec![0; end.len()];
        file.read_exact_at(&mut found, end_begin)?;
        let found: End = whole(END_SEAL.open(&found)?)?;
        ensure!(
            found == End::of(&manifest.totals, &head),
            "its end is that of another backup, with the position {}",
            found.last_sequence
        );
        Ok(Self { file: Arc::new(file), manifest, offsets, name })
    }

    /// The moment of the backup: its newest change.
    #[must_use]
    pub fn position(&self) -> Position {
        let Manifest { event_log, totals, .. } = &self.manifest;
        Position::newest(*event_log, totals)
    }

    /// The number of plants.
    #[must_use]
    pub const fn plants(&self) -> u64 {
        self.manifest.totals.plants
    }

    /// Compares everything in the backup with each other and with its checksums, without restoring it. Calls `progress` with
    /// the share that is done, from 0 to 1. Memory is bounded by the number of events in the backup, and by the number of
    /// tags once their counts are wrong.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(&self, progress: &dyn Fn(f64)) -> Result<Verification, StoreFailure> {
        self.compare(progress).map_err(StoreFailure::new)
    }

    fn compare(&self, progress: &dyn Fn(f64)) -> anyhow::Result<Verification> {
        let mut findings = Findings::list();
        match findings.value_of(self.tables())? {
            Some(tables) => {
                Verification::of(&tables, Some(&self.manifest.totals), findings, progress)
            }
            None => Ok(Verification::new(0, 0, findings)),
        }
    }

    /// The tables where they are in the file, newest first.
    pub(super) fn tables(&self) -> anyhow::Result<Tables> {
        let cache = BlockCache::new(CACHE_BYTES);
        let tables = self.manifest.tables.iter().zip(&self.offsets).map(|(metadata, begin)| {
            let (begin, bytes) = (*begin, metadata.bytes);
            let name = format!("{}, bytes {begin} to {}", self.name, begin + bytes);
            let content =
                Content::File(FilePart { file: Arc::clone(&self.file), begin, bytes, name });
            let table = Table::open(metadata.number, content, Some(metadata), Arc::clone(&cache))?;
            Ok(Arc::new(table))
        });
        tables.collect()
    }
}
