//! Writes a table.

use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use super::block::{BlockBuilder, checksum};
use super::bloom_filter::BloomFilter;
use super::health::StoreHealth;
use super::keys;
use super::new_file::create;
use super::search::builder::{Chunk, IndexBuilder};
use super::table::{BlockPlace, TableMetadata, Tail, block_head, footer};
use crate::fault;

const BUFFER_BYTES: usize = 256 * 1024;

/// How many bytes are written between two syncs. The syncs of the write-ahead log wait behind what one of these brings to
/// the disk: with 4 MiB, p99.9 of the log's syncs was 4.2 ms, and with 512 KiB 2.0 ms.
const SYNC_BYTES: usize = 512 * 1024;

/// A table that is being written, entry by entry.
#[derive(Debug)]
pub(super) struct TableWriter<W> {
    output: W,
    /// The bytes written so far.
    offset: u64,
    block: BlockBuilder,
    blocks: Vec<BlockPlace>,
    plant_entries: u64,
    filter: BloomFilter,
    index: IndexBuilder,
    index_block: BlockBuilder,
    index_blocks: Vec<BlockPlace>,
    /// The first granule of each chunk of the index.
    pub(super) chunks: Vec<u32>,
}

impl<W: Write> TableWriter<W> {
    /// A table of at most this many plants.
    pub(super) fn new(output: W, plants: usize) -> Self {
        Self {
            output,
            offset: 0,
            block: BlockBuilder::default(),
            blocks: Vec::new(),
            plant_entries: 0,
            filter: BloomFilter::with_room_for(plants),
            index: IndexBuilder::default(),
            index_block: BlockBuilder::default(),
            index_blocks: Vec::new(),
            chunks: Vec::new(),
        }
    }

    /// Adds an entry with a key greater than all before; a value of `None` removes the key.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        ensure!(key < keys::FIRST_POSTINGS_KEY, "the search index of a table is not copied");
        if self.block.is_complete() {
            self.end_block()?;
        }
        if let Some(id) = keys::plant_of(key)? {
            self.filter.add(id);
            self.plant_entries += 1;
            self.index.add(value);
        }
        self.block.add(key, value)
    }

    fn end_block(&mut self) -> anyhow::Result<()> {
        let first_granule = self.index.end_block();
        let block = mem::take(&mut self.block);
        let place = self.write_block(block, first_granule)?;
        self.blocks.push(place);
        match self.index.complete_chunk()? {
            Some(chunk) => self.write_chunk(chunk),
            None => Ok(()),
        }
    }

    fn write_chunk(&mut self, Chunk { begin, postings }: Chunk) -> anyhow::Result<()> {
        self.chunks.push(begin);
        for (term, granules) in postings {
            if self.index_block.is_complete() {
                self.end_index_block()?;
            }
            self.index_block.add(&keys::postings_key(begin, &term), Some(&granules))?;
        }
        Ok(())
    }

    fn end_index_block(&mut self) -> anyhow::Result<()> {
        let block = mem::take(&mut self.index_block);
        let place = self.write_block(block, 0)?;
        self.index_blocks.push(place);
        Ok(())
    }

    fn write_block(
        &mut self,
        block: BlockBuilder,
        first_granule: u32,
    ) -> anyhow::Result<BlockPlace> {
        let bytes = block.bytes();
        let (length, checksum) = (u32::try_from(bytes.len())?, checksum(bytes));
        let head = block_head(length, checksum);
        self.output.write_all(&head)?;
        self.output.write_all(bytes)?;
        let offset = self.offset + head.len() as u64;
        self.offset = offset + u64::from(length);
        let first_key = block.first_key.into();
        Ok(BlockPlace { first_key, offset, length, checksum, first_granule })
    }

    /// Ends the last blocks and the index. Returns all blocks by ascending keys.
    pub(super) fn end_blocks(&mut self) -> anyhow::Result<Vec<BlockPlace>> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        if let Some(chunk) = self.index.end_chunk()? {
            self.write_chunk(chunk)?;
        }
        if !self.index_block.is_empty() {
            self.end_index_block()?;
        }
        let mut blocks = mem::take(&mut self.blocks);
        blocks.append(&mut self.index_blocks);
        Ok(blocks)
    }

    /// Writes the end of the table, which has the changes of these sequence numbers.
    pub(super) fn finish(
        mut self,
        number: u64,
        (first_sequence, last_sequence): (u64, u64),
    ) -> anyhow::Result<(W, TableMetadata)> {
        let blocks = self.end_blocks()?;
        let Self { mut output, offset, plant_entries, filter, index, chunks, .. } = self;
        let filter = &filter.to_bytes();
        let granules = index.granules();
        let tail =
            Tail { first_sequence, last_sequence, plant_entries, blocks, chunks, granules, filter };
        let tail = postcard::to_stdvec(&tail)?;
        let footer = footer(&tail);
        output.write_all(&tail)?;
        output.write_all(&footer)?;
        let bytes = offset + (tail.len() + footer.len()) as u64;
        Ok((output, TableMetadata { number, bytes, tail_checksum: checksum(&tail) }))
    }
}

/// The file of a table that is being written. Syncs as it goes.
#[derive(Debug)]
pub(super) struct TableFile {
    file: BufWriter<Synced>,
    path: PathBuf,
}

#[derive(Debug)]
struct Synced {
    file: File,
    unsynced_bytes: usize,
    health: Arc<StoreHealth>,
}

impl TableFile {
    pub(super) fn create(path: PathBuf, health: Arc<StoreHealth>) -> anyhow::Result<Self> {
        let file = create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let synced = Synced { file, unsynced_bytes: 0, health };
        let file = BufWriter::with_capacity(BUFFER_BYTES, synced);
        Ok(Self { file, path })
    }

    /// Returns when all of the file is on disk, and the path.
    pub(super) fn finish(self) -> anyhow::Result<PathBuf> {
        // `IntoInnerError` would hide the `io::Error` by which an opening chooses its advice.
        let flushed = self.file.into_inner().map_err(IntoInnerError::into_error);
        let Synced { file, .. } =
            flushed.with_context(|| format!("cannot write {}", self.path.display()))?;
        fault::point("before-table-sync");
        file.sync_all().with_context(|| format!("cannot sync {}", self.path.display()))?;
        Ok(self.path)
    }
}

impl Write for TableFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written =
            self.file.write(&bytes[..bytes.len().min(SYNC_BYTES - self.unsynced_bytes)])?;
        self.unsynced_bytes += written;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced_bytes = 0;
            self.health.compaction_advances();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
