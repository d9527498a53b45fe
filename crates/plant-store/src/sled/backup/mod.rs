//! Backups: the entries of a database in one moment, as one stream of bytes that proves itself.
//!
//! | part | content |
//! |---|---|
//! | head | its length (8 bytes, little-endian), then a [`Head`], sealed by a checksum |
//! | runs | each level of the database, newest first: its tags, its events and its plants, each as [frames](frame) with a block of entries |
//! | end | an [`End`], sealed by a checksum |
//!
//! Another engine can read it: of a key in several runs the newest entry counts, an entry without a value removes the key, and
//! counts of tags add up. Search indexes are left out, because a restore builds them.
//!
//! A backup needs no disk space and no compaction, and its length is known before the first byte. The tables of a backup stay
//! readable while compaction replaces them.

pub(crate) mod archive;
pub(crate) mod file;
pub(crate) mod position;
pub(crate) mod restore;
pub(crate) mod restore_error;
mod run;

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::xxh3_64;

use crate::StoreFailure;
use crate::format::Format;
use crate::sled::commit::change::{Digest, Totals};
use crate::sled::memtable::run::MemoryRun;
use crate::sled::sealed::Seal;
use crate::sled::tables::{Contents, Map, Table};
use crate::sled::tree::Snapshot;

/// The length of a backup's head is in this many bytes, before the head.
pub(crate) const LENGTH_BYTES: usize = size_of::<u64>();

pub(crate) const HEAD_SEAL: Seal = Seal { magic: *b"plbackup", name: "the head of a backup" };

pub(crate) const END_SEAL: Seal = Seal { magic: *b"plbkend1", name: "the end of a backup" };

pub(crate) const FORMAT: Format = Format { name: "the backup", oldest: 1, newest: 1 };

/// How many bytes of a table are read at a time.
const PART_BYTES: usize = 256 * 1024;

/// The length and the checksum of a block, before the block.
pub(crate) const FRAME_HEAD_BYTES: usize = 12;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The random name of the log of events.
    pub(crate) event_log: u32,
    /// What all changes add up to.
    pub(crate) totals: Totals,
    /// Newest first.
    pub(crate) runs: Vec<[Contents; Map::COPIED.len()]>,
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
    /// Ties the end to its head.
    pub(crate) head_checksum: u64,
}

impl End {
    /// The end of the backup with this head.
    pub(crate) fn of(totals: &Totals, head: &[u8]) -> Self {
        let Totals { plants, last_sequence, digest, .. } = *totals;
        Self { plants, last_sequence, digest, head_checksum: xxh3_64(head) }
    }
}

/// Adds a block behind its length and its checksum.
fn frame(frames: &mut Vec<u8>, block: &[u8]) -> anyhow::Result<()> {
    frames.extend_from_slice(&u32::try_from(block.len())?.to_le_bytes());
    frames.extend_from_slice(&xxh3_64(block).to_le_bytes());
    frames.extend_from_slice(block);
    Ok(())
}

/// How many bytes the frames of a map take.
pub(crate) fn bytes_of(contents: &Contents) -> u64 {
    contents.bytes.saturating_add(contents.blocks.saturating_mul(FRAME_HEAD_BYTES as u64))
}

/// A backup with this head and these frames. The head gets its checksum, and the backup its end.
#[cfg(feature = "__internal")]
pub(crate) fn sealed(head: &[u8], frames: &[u8]) -> anyhow::Result<Vec<u8>> {
    let decoded: Head = FORMAT.decode(head)?;
    let head = HEAD_SEAL.seal(head);
    let end = END_SEAL.seal(&postcard::to_stdvec(&End::of(&decoded.totals, &head))?);
    Ok([&(head.len() as u64).to_le_bytes(), &head[..], frames, &end].concat())
}

/// A backup of a repository in one moment, as the bytes of a file. While it exists, the repository makes no other one.
///
/// [`BackupFile`](crate::BackupFile) reads it.
pub struct Backup {
    length: u64,
    parts: VecDeque<Part>,
    /// Allows one backup at a time, because each may keep replaced tables on the disk.
    _permit: OwnedSemaphorePermit,
}

enum Part {
    Bytes(Vec<u8>),
    Blocks(TablePart),
}

/// The rest of a map of a table.
struct TablePart {
    table: Arc<Table>,
    map: Map,
    /// The first key of the last block that was read.
    last_block: Option<Vec<u8>>,
}

impl Backup {
    /// The backup of a tree in one moment.
    pub(crate) fn of(
        snapshot: Snapshot,
        event_log: u32,
        permit: OwnedSemaphorePermit,
    ) -> anyhow::Result<Self> {
        let Snapshot { totals, immutable, active, tables } = snapshot;
        let (mut runs, mut parts) = (Vec::new(), VecDeque::new());
        for memtable in [Some(&active), immutable.as_deref()].into_iter().flatten() {
            let run = MemoryRun::of(memtable, totals.stored_from)?;
            runs.push(Map::COPIED.map(|map| run.contents(map)));
            for block in Map::COPIED.into_iter().flat_map(|map| run.blocks(map)) {
                match parts.back_mut() {
                    Some(Part::Bytes(bytes)) if bytes.len() < PART_BYTES => frame(bytes, block)?,
                    _ => {
                        let mut bytes = Vec::with_capacity(PART_BYTES + block.len());
                        frame(&mut bytes, block)?;
                        parts.push_back(Part::Bytes(bytes));
                    }
                }
            }
        }
        drop((immutable, active));
        for table in &*tables {
            runs.push(Map::COPIED.map(|map| table.contents(map)));
            parts.extend(Map::COPIED.map(|map| {
                Part::Blocks(TablePart { table: Arc::clone(table), map, last_block: None })
            }));
        }
        let of_runs: u64 = runs.iter().flatten().map(bytes_of).sum();
        let head = HEAD_SEAL.seal(&FORMAT.encode(&Head { event_log, totals, runs }, 0)?);
        let end = END_SEAL.seal(&postcard::to_stdvec(&End::of(&totals, &head))?);
        let head = [&(head.len() as u64).to_le_bytes(), &head[..]].concat();
        let length = head.len() as u64 + of_runs + end.len() as u64;
        parts.push_front(Part::Bytes(head));
        parts.push_back(Part::Bytes(end));
        Ok(Self { length, parts, _permit: permit })
    }

    /// The length of the whole backup, in bytes.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes, and the rest of the backup; `None` at the end. Reads on tokio's pool of blocking threads.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>, StoreFailure> {
        while let Some(part) = self.parts.pop_front() {
            let part = match part {
                Part::Bytes(bytes) => return Ok(Some((bytes, self))),
                Part::Blocks(part) => part,
            };
            let read = spawn_blocking(move || part.read()).await.map_err(StoreFailure::new)?;
            let (bytes, rest) = read.map_err(StoreFailure::new)?;
            if let Some(rest) = rest {
                self.parts.push_front(rest);
            }
            if !bytes.is_empty() {
                return Ok(Some((bytes, self)));
            }
        }
        Ok(None)
    }
}

impl TablePart {
    /// The frames of the next blocks, and the rest; `None` at the end.
    fn read(mut self) -> anyhow::Result<(Vec<u8>, Option<Part>)> {
        let mut frames = Vec::with_capacity(PART_BYTES);
        let mut blocks = self.table.blocks_after(self.map, self.last_block.as_deref())?;
        let mut last = None;
        while frames.len() < PART_BYTES {
            let Some((first_key, block)) = blocks.next()? else { return Ok((frames, None)) };
            frame(&mut frames, &block)?;
            last = Some(first_key);
        }
        drop(blocks);
        self.last_block = last.map(|first_key| first_key.to_vec());
        Ok((frames, Some(Part::Blocks(self))))
    }
}
