//! The one writer of an archive for one log of events.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use anyhow::{Context as _, ensure};

use crate::sled::backup::archive::{PieceName, merge, pieces, read_piece, write_piece};
use crate::sled::commit::change::Totals;
use crate::sled::open::{lock, sync_names};

pub(crate) struct ArchiveWriter {
    directory: PathBuf,
    event_log: u32,
    newest: Option<PieceName>,
    /// Keeps out the servers of other copies of the data folder, which have the same log.
    lock: File,
}

impl ArchiveWriter {
    /// Opens the archive of a log, or makes a new one. `marks` are the totals before each of the newest groups in the
    /// write-ahead log, and after the last one. Fails if the archive's newest change leads to none of them, because the
    /// archive then has another history. Also returns the changes that neither the archive nor the write-ahead log has.
    pub(crate) fn open(
        directory: &Path,
        event_log: u32,
        marks: &[Totals],
    ) -> anyhow::Result<(Self, Option<(u64, u64)>)> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cause)
                    .with_context(|| format!("cannot make the folder {}", directory.display()));
            }
            _ => {}
        }
        let lock = lock(&directory.join(format!("{event_log:08x}.lock")))?;
        // A kill may have come between the rename of a piece and this sync.
        sync_names(directory)?;
        let newest = pieces(directory)?.into_iter().rfind(|piece| piece.event_log == event_log);
        let mut writer = Self { directory: directory.to_owned(), event_log, newest, lock };
        let [first_known, last_known] =
            [marks.first(), marks.last()].map(|mark| mark.map_or(0, |mark| mark.last_sequence));
        let Some(newest) = newest else {
            if first_known == last_known {
                // Marks the beginning. A restore of a backup without later changes needs a piece of its log.
                writer.write(first_known + 1, last_known, &[])?;
            }
            return Ok((writer, None));
        };
        let archived = newest.last_sequence;
        if archived < first_known {
            return Ok((writer, Some((archived + 1, first_known))));
        }
        let mark = marks.iter().find(|mark| mark.last_sequence == archived);
        let is_same_history = match (mark, read_piece(directory, newest)?.last()) {
            (Some(mark), Some(group)) => {
                let after = group.totals_before().after(group)?;
                (after.plants, after.digest) == (mark.plants, mark.digest)
            }
            // An empty piece marks where the archive begins.
            (Some(_), None) => true,
            (None, _) => false,
        };
        ensure!(
            is_same_history,
            "its newest change has the number {archived}, and the data folder has other changes: the folder is an older copy, \
             or was one; restore a backup instead, or begin another archive"
        );
        Ok((writer, None))
    }

    /// The number of the newest change in the archive; 0 before the first one.
    pub(crate) fn archived(&self) -> u64 {
        self.newest.map_or(0, |piece| piece.last_sequence)
    }

    /// Starts the thread that merges pieces. The thread ends when the returned sender is dropped.
    pub(crate) fn start_merges(&self) -> anyhow::Result<Sender<()>> {
        merge::start(self.directory.clone(), self.event_log, self.lock.try_clone()?)
    }

    /// Writes a piece with groups that the archive lacks. The numbers are those of the first and the last change.
    pub(crate) fn append(
        &mut self,
        first_sequence: u64,
        last_sequence: u64,
        payloads: &[Vec<u8>],
    ) -> anyhow::Result<()> {
        match self.newest.map(|piece| piece.path(&self.directory)) {
            Some(newest) => ensure!(
                newest.try_exists()?,
                "{} is gone, so this is not the archive: mount it, or start the server again to begin a new one",
                newest.display()
            ),
            None => log::info!(
                "the archive {} begins with the change {first_sequence}: a restore needs a backup of that moment or later",
                self.directory.display()
            ),
        }
        self.write(first_sequence, last_sequence, payloads)
    }

    fn write(
        &mut self,
        first_sequence: u64,
        last_sequence: u64,
        payloads: &[Vec<u8>],
    ) -> anyhow::Result<()> {
        let piece = PieceName { event_log: self.event_log, first_sequence, last_sequence };
        let payloads = payloads.iter().map(Vec::as_slice).collect();
        let new = format!("{:08x}.new", self.event_log);
        write_piece(&self.directory, piece, payloads, &new, None)?;
        self.newest = Some(piece);
        Ok(())
    }
}
