//! Backups: a database in one moment, as one stream of bytes that proves itself.
//!
//! | part | content |
//! |---|---|
//! | head | its length (8 bytes, little-endian), then a [`Manifest`], sealed by a checksum |
//! | tables | the files of the tables that the manifest names, newest first; the manifest has the checksum of each tail, and the tail those of its blocks |
//! | end | an [`End`], sealed by a checksum |
//!
//! The changes that no table has are written as tables in memory. So a backup needs no disk space and no compaction, and
//! its length is known before the first byte. The tables of a backup stay readable while compaction replaces them.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use super::block::checksum;
use super::cache::BlockCache;
use super::change::{Digest, Totals};
use super::manifest::Manifest;
use super::open::in_memory;
use super::sealed::Seal;
use super::table::{Table, TableMetadata};
use super::tree::{Snapshot, with_newest};
use super::write_ahead_log::Salts;
use crate::StoreFailure;

/// The length of a backup's head is in this many bytes, before the head.
pub(super) const LENGTH_BYTES: usize = size_of::<u64>();

pub(super) const END_SEAL: Seal = Seal { magic: *b"plbkend1", name: "the end of a backup" };

/// How many bytes of a table are read at a time.
const PART_BYTES: u64 = 256 * 1024;

/// What a backup adds up to. A backup without its end is cut.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    /// How many plants there are.
    pub(super) plants: u64,
    /// The sequence number of the last event.
    pub(super) last_sequence: u64,
    /// The sum of the digests of all plants.
    pub(super) digest: Digest,
    /// Ties the end to its head.
    pub(super) head_checksum: u64,
}

impl End {
    /// The end of the backup with this head.
    pub(super) fn of(totals: &Totals, head: &[u8]) -> Self {
        let Totals { plants, last_sequence, digest, .. } = *totals;
        Self { plants, last_sequence, digest, head_checksum: checksum(head) }
    }
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
    Bytes(Arc<[u8]>),
    /// The rest of a table from this offset on.
    Table(Arc<Table>, u64),
}

impl Backup {
    /// The backup of a tree in one moment.
    pub(super) fn of(
        snapshot: Snapshot,
        event_log: u32,
        permit: OwnedSemaphorePermit,
    ) -> anyhow::Result<Self> {
        let Snapshot { totals, immutable, active, mut tables } = snapshot;
        let not_cached = BlockCache::new(0);
        for memtable in immutable.as_deref().into_iter().chain([&active]) {
            if !memtable.events.is_empty() {
                let table = in_memory(0, memtable, totals, &not_cached)?;
                tables = with_newest(&tables, table);
            }
        }
        drop((immutable, active));
        let numbers = (1..=tables.len() as u64).rev();
        let metadata = tables.iter().zip(numbers);
        let metadata = metadata.map(|(table, number)| TableMetadata { number, ..table.metadata });
        let manifest = Manifest {
            // The salts keep clients from forging records of the log, so no client may see them.
            log_salts: Salts::default(),
            event_log,
            totals,
            next_table: tables.len() as u64 + 1,
            tables: metadata.collect(),
        };
        let head = manifest.encode()?;
        let end = END_SEAL.seal(&postcard::to_stdvec(&End::of(&totals, &head))?);
        let head = [&(head.len() as u64).to_le_bytes(), &head[..]].concat();
        let of_tables: u64 = tables.iter().map(|table| table.metadata.bytes).sum();
        let length = head.len() as u64 + of_tables + end.len() as u64;
        let tables = tables.iter().map(|table| Part::Table(Arc::clone(table), 0));
        let parts =
            [Part::Bytes(head.into())].into_iter().chain(tables).chain([Part::Bytes(end.into())]);
        Ok(Self { length, parts: parts.collect(), _permit: permit })
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
    pub async fn next(mut self) -> Result<Option<(Arc<[u8]>, Self)>, StoreFailure> {
        let Some(part) = self.parts.pop_front() else { return Ok(None) };
        let (table, offset) = match part {
            Part::Bytes(bytes) => return Ok(Some((bytes, self))),
            Part::Table(table, offset) => (table, offset),
        };
        let length = (table.metadata.bytes - offset).min(PART_BYTES);
        if offset + length < table.metadata.bytes {
            self.parts.push_front(Part::Table(Arc::clone(&table), offset + length));
        }
        let read = move || anyhow::Ok(table.bytes_at(offset, usize::try_from(length)?)?);
        let read = spawn_blocking(read).await.map_err(StoreFailure::new)?;
        Ok(Some((read.map_err(StoreFailure::new)?, self)))
    }
}
