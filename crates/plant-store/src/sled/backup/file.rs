//! Reads the file of a [backup](super), and proves it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::position::Position;
use super::run::BackupRun;
use super::{END_SEAL, End, FORMAT, HEAD_SEAL, Head, LENGTH_BYTES, bytes_of};
use crate::format::whole;
use crate::sled::health::errors::{advise_on_backup, advise_on_disk, open_error};
use crate::sled::health::findings::Findings;
use crate::sled::health::inspection::Verification;
use crate::sled::tables::{Contents, Level, Map};
use crate::{OpenError, StoreFailure};

/// No head is longer: it would have hundreds of thousands of runs.
const HEAD_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A backup that is whole: it has its head, its end, and everything in between. What is in between is proved by
/// [`Self::verify`].
pub struct BackupFile {
    pub(super) head: Head,
    /// Newest first.
    runs: Vec<Arc<BackupRun>>,
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
        Self::try_open(file, &name)
            .with_context(|| format!("{name} is no whole backup"))
            .map_err(advise_on_backup)
            .map_err(advise_on_disk)
            .map_err(open_error)
    }

    fn try_open(file: File, name: &str) -> anyhow::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut length = [0; LENGTH_BYTES];
        file.read_exact_at(&mut length, 0).context("it has no head")?;
        let head_bytes = u64::from_le_bytes(length);
        let head_end = head_bytes.checked_add(LENGTH_BYTES as u64);
        let head_end = head_end
            .filter(|end| *end <= bytes && head_bytes <= HEAD_MAX_BYTES)
            .context("its head is cut, or it does not begin as a backup does")?;
        let mut sealed = vec![0; usize::try_from(head_bytes)?];
        file.read_exact_at(&mut sealed, LENGTH_BYTES as u64)?;
        let head = HEAD_SEAL.open(&sealed).and_then(|head| FORMAT.decode(head));
        let head: Head = head.context("its head cannot be used")?;

        let (file, name) = (Arc::new(file), Arc::<str>::from(name));
        let (mut runs, mut begin) = (Vec::with_capacity(head.runs.len()), head_end);
        for contents in &head.runs {
            let (file, name) = (Arc::clone(&file), Arc::clone(&name));
            runs.push(Arc::new(BackupRun { file, name, begin, contents: *contents }));
            let length: u64 = contents.iter().map(bytes_of).fold(0, u64::saturating_add);
            begin = begin.checked_add(length).context("its runs are too long")?;
        }
        let end = END_SEAL.seal(&postcard::to_stdvec(&End::of(&head.totals, &sealed))?);
        let whole_bytes = begin.saturating_add(end.len() as u64);
        ensure!(bytes >= whole_bytes, "it is cut: it has {bytes} bytes instead of {whole_bytes}");
        ensure!(
            bytes == whole_bytes,
            "something follows its end: it has {bytes} bytes instead of {whole_bytes}"
        );
        let mut found = vec![0; end.len()];
        file.read_exact_at(&mut found, begin)?;
        let found: End = whole(END_SEAL.open(&found)?)?;
        ensure!(
            found == End::of(&head.totals, &sealed),
            "its end is that of another backup, with the position {}",
            found.last_sequence
        );
        Ok(Self { head, runs })
    }

    /// The moment of the backup: its newest change.
    #[must_use]
    pub fn position(&self) -> Position {
        Position::newest(self.head.event_log, &self.head.totals)
    }

    /// The number of plants.
    #[must_use]
    pub const fn plants(&self) -> u64 {
        self.head.totals.plants
    }

    /// Compares everything in the backup with each other and with its checksums, without restoring it. Calls `progress` with
    /// the share that is done, from 0 to 1. Memory is bounded by the number of events in the backup.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(&self, progress: &dyn Fn(f64)) -> Result<Verification, StoreFailure> {
        let (levels, totals) = (self.levels(), Some(&self.head.totals));
        let verification = Verification::of(&levels, &[], totals, Findings::list(), progress);
        verification.map_err(StoreFailure::new)
    }

    /// The size of the blocks of a map.
    pub(super) fn bytes_of(&self, map: Map) -> u64 {
        let of_map = |run: &[Contents; Map::COPIED.len()]| {
            Map::COPIED
                .iter()
                .zip(run)
                .filter(|(one, _)| **one == map)
                .map(|(_, it)| it.bytes)
                .sum::<u64>()
        };
        self.head.runs.iter().map(of_map).sum()
    }

    /// The runs, newest first.
    pub(super) fn levels(&self) -> Vec<Arc<dyn Level>> {
        self.runs.iter().map(|run| Arc::clone(run) as Arc<dyn Level>).collect()
    }
}
