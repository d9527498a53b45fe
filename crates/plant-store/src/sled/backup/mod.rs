//! Backups: the entries of a database in one moment, as one stream of bytes that proves itself.
//!
//! | part | content |
//! |---|---|
//! | head | its length (8 bytes, little-endian), then a [`Head`], sealed by a checksum |
//! | frames | the tags, then the events, then the plants: [blocks](crate::sled::tables) of entries by ascending key, each in a [frame](frames) |
//! | end | an [`End`], sealed by a checksum, then its length (8 bytes, little-endian) |
//!
//! Every key is there once. The search index is left out, because a restore builds it. A backup writes nothing and waits for
//! nothing: levels are merged while they are read. Tables that compaction replaces stay readable, and keep their room, until
//! the backup ends.

pub(crate) mod archive;
pub(crate) mod file;
mod frames;
pub(crate) mod position;
pub(crate) mod restore;
pub(crate) mod restore_error;

use std::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::xxh3_64;

use self::frames::Frames;
use crate::StoreFailure;
use crate::format::Format;
use crate::sled::commit::change::{Digest, Totals};
use crate::sled::compaction::merge::{MergedEntries, levels_of};
use crate::sled::memtable::level::MemoryLevel;
use crate::sled::sealed::Seal;
use crate::sled::tables::Level;
use crate::sled::tree::Snapshot;

/// The lengths of the head and of the end are in this many bytes.
pub(crate) const LENGTH_BYTES: usize = size_of::<u64>();

pub(crate) const HEAD_SEAL: Seal = Seal { magic: *b"plbackup", name: "the head of a backup" };

pub(crate) const END_SEAL: Seal = Seal { magic: *b"plbkend1", name: "the end of a backup" };

pub(crate) const FORMAT: Format = Format { name: "the backup", oldest: 1, newest: 1 };

/// How many bytes a part of a backup has, at least.
const PART_BYTES: usize = 256 * 1024;

/// How many entries are merged between two looks at the size of a part.
const ENTRIES_AT_A_TIME: usize = 1024;

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The random name of the log of events.
    pub(crate) event_log: u32,
    /// What all changes add up to.
    pub(crate) totals: Totals,
}

/// What a backup adds up to. A backup without its end is cut.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// How many plants there are.
    pub(crate) plants: u64,
    /// The sequence number of the last event.
    pub(crate) last_sequence: u64,
    /// The sum of the digests of all plants.
    pub(crate) digest: Digest,
    /// How many bytes all frames have.
    pub(crate) frame_bytes: u64,
    /// Ties the end to its head.
    pub(crate) head_checksum: u64,
}

impl End {
    /// The end of the backup with this sealed head.
    pub(crate) fn of(totals: &Totals, head: &[u8], frame_bytes: u64) -> Self {
        let Totals { plants, last_sequence, digest, .. } = *totals;
        Self { plants, last_sequence, digest, frame_bytes, head_checksum: xxh3_64(head) }
    }

    fn sealed(&self) -> anyhow::Result<Vec<u8>> {
        let end = END_SEAL.seal(&postcard::to_stdvec(self)?);
        Ok([&end[..], &(end.len() as u64).to_le_bytes()].concat())
    }
}

/// A head behind its length.
fn with_length(sealed_head: &[u8]) -> Vec<u8> {
    [&(sealed_head.len() as u64).to_le_bytes(), sealed_head].concat()
}

/// A backup with this head and these blocks of maps, with right checksums and an end.
#[cfg(feature = "__internal")]
pub(crate) fn sealed(head: &[u8], blocks: &[(u8, &[u8])]) -> anyhow::Result<Vec<u8>> {
    let Head { totals, .. } = FORMAT.decode(head)?;
    let head = HEAD_SEAL.seal(head);
    let mut of_blocks = Vec::new();
    for (map, block) in blocks {
        of_blocks.extend([&frames::FrameHead::of(*map, block)?.encode(), *block].concat());
    }
    let end = End::of(&totals, &head, of_blocks.len() as u64).sealed()?;
    Ok([with_length(&head), of_blocks, end].concat())
}

/// A backup of a repository in one moment, as the bytes of a file. While it exists, the repository makes no other one.
///
/// [`BackupFile`](crate::BackupFile) reads it.
pub struct Backup {
    /// `None` at the end.
    rest: Option<Rest>,
    /// Allows one backup at a time, because each may keep replaced tables on the disk.
    _permit: OwnedSemaphorePermit,
}

/// What of a backup is not read yet.
struct Rest {
    totals: Totals,
    sealed_head: Vec<u8>,
    entries: MergedEntries,
    frames: Frames,
    /// How many bytes the frames before have.
    frame_bytes: u64,
}

impl Backup {
    /// The backup of a tree in one moment.
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
        let entries = MergedEntries::new(levels, true, totals.stored_from);
        let sealed_head = HEAD_SEAL.seal(&FORMAT.encode(&Head { event_log, totals }, 0)?);
        let frames = Frames::default();
        let rest = Rest { totals, sealed_head, entries, frames, frame_bytes: 0 };
        Ok(Self { rest: Some(rest), _permit: permit })
    }

    /// The next bytes, and the rest of the backup; `None` at the end. Reads on tokio's pool of blocking threads.
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
    /// The next bytes, and the rest; `None` at the end.
    fn read(mut self) -> anyhow::Result<(Vec<u8>, Option<Self>)> {
        let mut is_last = false;
        while !is_last && self.frames.bytes.len() < PART_BYTES {
            is_last = !self.entries.take(ENTRIES_AT_A_TIME, &mut self.frames)?;
        }
        if is_last {
            self.frames.end_block()?;
        }
        let frames = mem::take(&mut self.frames.bytes);
        let is_first = self.frame_bytes == 0;
        self.frame_bytes += frames.len() as u64;
        let head = if is_first { with_length(&self.sealed_head) } else { Vec::new() };
        if !is_last {
            return Ok(([head, frames].concat(), Some(self)));
        }
        let end = End::of(&self.totals, &self.sealed_head, self.frame_bytes).sealed()?;
        Ok(([head, frames, end].concat(), None))
    }
}
