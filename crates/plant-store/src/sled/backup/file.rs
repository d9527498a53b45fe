//! Reads the file of a [backup](super), and proves it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::frames::FileFrames;
use super::position::Position;
use super::{END_SEAL, End, FORMAT, HEAD_SEAL, Head, LENGTH_BYTES};
use crate::format::whole;
use crate::sled::health::errors::{advise_on_backup, advise_on_disk, open_error};
use crate::sled::health::findings::Findings;
use crate::sled::health::inspection::Verification;
use crate::sled::regular_file;
use crate::sled::tables::Level;
use crate::{OpenError, StoreFailure};

/// No head and no end is longer.
const ENDS_MAX_BYTES: u64 = 1024;

/// A backup that is whole: it has its head, its end, and everything in between. What is in between is proved by
/// [`Self::verify`].
pub struct BackupFile {
    pub(super) head: Head,
    frames: Arc<FileFrames>,
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
        let file = regular_file::open(path).with_context(|| format!("cannot read {name}"));
        let file = file.map_err(advise_on_disk).map_err(open_error)?;
        Self::try_open(file, &name)
            .with_context(|| format!("{name} is no whole backup"))
            .map_err(advise_on_backup)
            .map_err(advise_on_disk)
            .map_err(open_error)
    }

    fn try_open(file: File, name: &str) -> anyhow::Result<Self> {
        const LENGTH: u64 = LENGTH_BYTES as u64;
        let bytes = file.metadata()?.len();
        let read = |at: u64, length: u64| {
            let mut read = vec![0; usize::try_from(length)?];
            file.read_exact_at(&mut read, at)?;
            anyhow::Ok(read)
        };
        let length_at = |at: u64| {
            let length = read(at, LENGTH)?;
            anyhow::Ok(u64::from_le_bytes(length[..].try_into()?))
        };
        let head_bytes = length_at(0).context("it has no head")?;
        ensure!(
            head_bytes <= ENDS_MAX_BYTES && head_bytes + 2 * LENGTH <= bytes,
            "its head is cut, or it does not begin as a backup does"
        );
        let sealed_head = read(LENGTH, head_bytes)?;
        let head = HEAD_SEAL.open(&sealed_head).and_then(|head| FORMAT.decode(head));
        let head: Head = head.context("its head cannot be used")?;
        head.totals.check().context("its head cannot be used")?;

        let begin = LENGTH + head_bytes;
        let end_bytes = length_at(bytes - LENGTH)?;
        let end = bytes.checked_sub(LENGTH.saturating_add(end_bytes)).filter(|end| *end >= begin);
        let end = end.filter(|_| end_bytes <= ENDS_MAX_BYTES);
        let end = end.context("it is cut, or something follows its end")?;
        let found = read(end, end_bytes)?;
        let found: End = END_SEAL
            .open(&found)
            .and_then(whole)
            .context("it is cut, or something follows its end")?;
        ensure!(
            found == End::of(&head.totals, &sealed_head, end - begin),
            "its end is that of another backup, with the position {}",
            found.last_sequence
        );
        let frames = Arc::new(FileFrames { file, name: name.into(), begin, end });
        Ok(Self { head, frames })
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

    /// The size of all frames, in bytes.
    pub(super) fn frame_bytes(&self) -> u64 {
        self.frames.end - self.frames.begin
    }

    /// The one level of the backup.
    pub(super) fn levels(&self) -> Vec<Arc<dyn Level>> {
        vec![Arc::clone(&self.frames) as Arc<dyn Level>]
    }
}
