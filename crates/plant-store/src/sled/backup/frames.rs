//! The frames of a backup: a head, and then a block of entries.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::sled::tables::{
    BlockBuilder, BlockCursor, BlockEntries, BlockSource, Entries, EntrySink, Level, Map,
};

/// How much of a backup is read at a time, in bytes.
const READ_BYTES: usize = 256 * 1024;

/// A longer block is damage: a block ends with the entry that reaches 1 KiB, and no entry has 60 KiB.
const BLOCK_MAX_BYTES: u32 = 64 * 1024;

/// What is before each block: the number of its map (1 byte), its length (4 bytes, little-endian) and its checksum (8
/// bytes, little-endian).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    map: u8,
    length: u32,
    checksum: u64,
}

impl FrameHead {
    const BYTES: usize = 13;

    pub(super) fn of(map: u8, block: &[u8]) -> anyhow::Result<Self> {
        let length = u32::try_from(block.len())?;
        ensure!(length <= BLOCK_MAX_BYTES, "a block of {length} bytes is too long");
        Ok(Self { map, length, checksum: xxh3_64_with_seed(block, u64::from(map)) })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [&[self.map][..], &self.length.to_le_bytes(), &self.checksum.to_le_bytes()].concat()
    }

    fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let [map, a, b, c, d, checksum @ ..] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        Self { map, length, checksum: u64::from_le_bytes(checksum) }
    }
}

/// Writes frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) bytes: Vec<u8>,
    block: BlockBuilder,
    /// The map that the block is of.
    map: Map,
}

impl Frames {
    /// Ends the last frame.
    pub(super) fn end_block(&mut self) -> anyhow::Result<()> {
        if !self.block.is_empty() {
            let (_, block) = self.block.take();
            self.bytes.extend_from_slice(&FrameHead::of(self.map as u8, &block)?.encode());
            self.bytes.extend_from_slice(&block);
        }
        Ok(())
    }
}

impl EntrySink for Frames {
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        if map != self.map || self.block.is_complete() {
            self.end_block()?;
            self.map = map;
        }
        self.block.add(key, value)
    }
}

/// The frames in the file of a backup.
#[derive(Debug)]
pub(super) struct FileFrames {
    pub(super) file: File,
    /// The path of the file, for errors.
    pub(super) name: Arc<str>,
    /// Where the first frame begins in the file, and where the last one ends.
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Level for FileFrames {
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries> {
        let part = FilePart { frames: Arc::clone(&self), at: self.begin };
        let input = BufReader::with_capacity(READ_BYTES, part);
        let blocks = BlocksOfFile {
            at: self.begin,
            frames: self,
            map,
            input,
            last_map: Map::Tags,
            last_key: None,
        };
        Box::new(BlockEntries::new(blocks, from))
    }
}

/// The blocks of a map.
#[derive(Debug)]
struct BlocksOfFile {
    frames: Arc<FileFrames>,
    map: Map,
    input: BufReader<FilePart>,
    /// Where the next frame begins in the file.
    at: u64,
    /// The map of the frame before.
    last_map: Map,
    /// The first key of the block before.
    last_key: Option<Vec<u8>>,
}

impl BlockSource for BlocksOfFile {
    type Bytes = Vec<u8>;

    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        while self.at < self.frames.end {
            let begin = self.at;
            let read = self.read_frame();
            if read.as_ref().is_err_and(|error| error.downcast_ref::<io::Error>().is_some()) {
                // Reading on would fail again.
                self.at = self.frames.end;
            }
            let place = || format!("{}, bytes {begin} to {}", self.frames.name, self.at);
            let (map, block) = read.with_context(|| format!("cannot read {}", place()))?;
            if map > self.map {
                break;
            }
            ensure!(map >= self.last_map, "the entries of {} are not in order", place());
            self.last_map = map;
            if map < self.map {
                continue;
            }
            let mut first = BlockCursor::new(&block[..]);
            let has_entry = first.advance().with_context(place)?;
            let last_key = self.last_key.replace(first.key().to_vec());
            let is_next = last_key.is_none_or(|last| *last < *first.key());
            ensure!(has_entry && is_next, "the entries of {} are not in order", place());
            return Ok(Some(block));
        }
        Ok(None)
    }
}

impl BlocksOfFile {
    /// Reads a frame: a block, and the map that the block is of.
    fn read_frame(&mut self) -> anyhow::Result<(Map, Vec<u8>)> {
        let mut head = [0; FrameHead::BYTES];
        self.input.read_exact(&mut head)?;
        let head = FrameHead::decode(head);
        let end = self.at + FrameHead::BYTES as u64 + u64::from(head.length);
        if end > self.frames.end || head.length > BLOCK_MAX_BYTES {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        self.at = end;
        let mut block = vec![0; usize::try_from(head.length)?];
        self.input.read_exact(&mut block)?;
        let map = *Map::COPIED.get(usize::from(head.map)).context("it is of no known map")?;
        ensure!(FrameHead::of(head.map, &block)? == head, "its checksum is wrong");
        Ok((map, block))
    }
}

/// The rest of a file.
#[derive(Debug)]
struct FilePart {
    frames: Arc<FileFrames>,
    at: u64,
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.frames.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
