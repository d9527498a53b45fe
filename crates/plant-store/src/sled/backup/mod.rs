//! Backups: snapshots of a database. Each is one stream of bytes, with checksums over all of it.
//!
//! | part | content |
//! |---|---|
//! | beginning | the eight bytes `plbackup` |
//! | head | a [frame](frames) with a [`Head`] |
//! | blocks | tags, then events, then plants: [blocks](crate::sled::tables) of entries by ascending key, a frame each |
//! | end | a frame with an [`End`] |
//!
//! Every key appears once. The search index is left out, because a restore builds it. A backup writes nothing and
//! blocks nothing: levels are merged while they are read. Tables that compaction replaces stay readable, and stay on
//! the disk, until the backup ends.

pub(crate) mod archive;
mod frames;
pub(crate) mod position;
pub(crate) mod reader;
pub(crate) mod restore;
pub(crate) mod restore_error;
mod restored_sequence;

use std::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use self::frames::{BlockFrames, END, FrameHead, HEAD, frame};
use crate::StoreFailure;
use crate::format::{Format, whole};
use crate::sled::commit::change::Totals;
use crate::sled::compaction::merge::{MergedEntries, levels_of};
use crate::sled::memtable::level::MemoryLevel;
use crate::sled::tables::{EntrySource as _, Level};
use crate::sled::tree::Snapshot;

/// The magic number of a backup.
const MAGIC: [u8; 8] = *b"plbackup";

const FORMAT: Format = Format { name: "the backup", oldest: 1, newest: 2 };

/// The least size of a part of a backup, in bytes.
const PART_BYTES: usize = 256 * 1024;

/// How many entries are merged between checks of a part's size.
const ENTRIES_AT_A_TIME: usize = 1024;

/// Identifies the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The random name of the log of events.
    pub(crate) event_log: u32,
    pub(crate) totals: Totals,
}

impl Head {
    fn encode(&self) -> anyhow::Result<Vec<u8>> {
        FORMAT.encode(&(self, self.totals.history_from), 0)
    }

    fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        let (head, history_from): (Self, u64) = match FORMAT.version_of(bytes)? {
            (1, content) => {
                let head: Self = whole(content)?;
                let history_from = head.totals.stored_from;
                (head, history_from)
            }
            (_, content) => whole(content)?,
        };
        let totals = Totals { history_from, ..head.totals };
        Ok(Self { totals, ..head })
    }
}

/// Proves that nothing is missing: a backup without its end is cut.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// The size of all frames of blocks, in bytes.
    block_bytes: u64,
    /// The checksum of the head's frame.
    head_checksum: u64,
}

/// The magic number and the frame of a head, and the checksum of that frame.
fn beginning(head: &[u8]) -> anyhow::Result<(Vec<u8>, u64)> {
    let checksum = FrameHead::of(HEAD, head)?.checksum;
    Ok(([&MAGIC[..], &frame(HEAD, head)?].concat(), checksum))
}

fn end(block_bytes: u64, head_checksum: u64) -> anyhow::Result<Vec<u8>> {
    frame(END, &postcard::to_stdvec(&End { block_bytes, head_checksum })?)
}

/// A backup with this head and these blocks, each with the number of its map. Checksums and end are valid.
#[cfg(any(test, feature = "__internal"))]
pub(crate) fn sealed(head: &[u8], blocks: &[(u8, &[u8])]) -> anyhow::Result<Vec<u8>> {
    let (beginning, head_checksum) = beginning(head)?;
    let mut of_blocks = Vec::new();
    for (map, block) in blocks {
        of_blocks.extend(frame(*map, block)?);
    }
    let end = end(of_blocks.len() as u64, head_checksum)?;
    Ok([beginning, of_blocks, end].concat())
}

/// A snapshot of a repository, as the bytes of a file. While it exists, the repository makes no other backup.
///
/// [`BackupReader`](crate::BackupReader) reads it.
pub struct Backup {
    /// `None` at the end.
    rest: Option<Rest>,
    /// Allows one backup at a time, because each may keep replaced tables on disk.
    _permit: OwnedSemaphorePermit,
}

/// The unread rest of a backup.
struct Rest {
    /// Empty once read.
    beginning: Vec<u8>,
    head_checksum: u64,
    entries: MergedEntries,
    frames: BlockFrames,
    /// The size of the blocks so far.
    block_bytes: u64,
}

impl Backup {
    pub(crate) fn of(
        snapshot: Snapshot,
        event_log: u32,
        permit: OwnedSemaphorePermit,
    ) -> anyhow::Result<Self> {
        let Snapshot { totals, immutable, active, tables } = snapshot;
        let mut levels: Vec<Arc<dyn Level>> = Vec::new();
        for memtable in [Some(&active), immutable.as_deref()].into_iter().flatten() {
            levels.push(Arc::new(MemoryLevel::of(memtable)?));
        }
        levels.extend(levels_of(&tables));
        let entries = MergedEntries::new(levels, true, totals.history_from);
        let head = Head { event_log, totals }.encode()?;
        let (beginning, head_checksum) = beginning(&head)?;
        let frames = BlockFrames::default();
        let rest = Rest { beginning, head_checksum, entries, frames, block_bytes: 0 };
        Ok(Self { rest: Some(rest), _permit: permit })
    }

    /// The next part, and the rest of the backup; `None` at the end. Reads on tokio's blocking threads.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>, StoreFailure> {
        let Some(rest) = self.rest.take() else { return Ok(None) };
        let read = spawn_blocking(move || rest.read()).await.map_err(StoreFailure::new)?;
        let (bytes, rest) = read.map_err(StoreFailure::new)?;
        self.rest = rest;
        Ok(Some((bytes, self)))
    }
}

impl Rest {
    /// The next part, and the rest; `None` at the end.
    fn read(mut self) -> anyhow::Result<(Vec<u8>, Option<Self>)> {
        let mut is_last = false;
        while !is_last && self.frames.bytes.len() < PART_BYTES {
            is_last = !self.entries.take(ENTRIES_AT_A_TIME, &mut self.frames)?;
        }
        if is_last {
            self.frames.end_block()?;
        }
        let (beginning, blocks) =
            (mem::take(&mut self.beginning), mem::take(&mut self.frames.bytes));
        self.block_bytes += blocks.len() as u64;
        if !is_last {
            return Ok(([beginning, blocks].concat(), Some(self)));
        }
        let end = end(self.block_bytes, self.head_checksum)?;
        Ok(([beginning, blocks, end].concat(), None))
    }
}
