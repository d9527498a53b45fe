//! Reads a run of a backup: one level of the database that was backed up.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use xxhash_rust::xxh3::xxh3_64;

use super::{FRAME_HEAD_BYTES, bytes_of};
use crate::sled::tables::{BlockCursor, BlockEntries, BlockSource, Contents, Entries, Level, Map};

/// How much of a backup is read at a time, in bytes.
const READ_BYTES: usize = 256 * 1024;

/// A run in the file of a backup.
#[derive(Debug)]
pub(super) struct BackupRun {
    pub(super) file: Arc<File>,
    /// The path of the file, for errors.
    pub(super) name: Arc<str>,
    /// Where the run begins in the file, in bytes.
    pub(super) begin: u64,
    pub(super) contents: [Contents; Map::COPIED.len()],
}

impl Level for BackupRun {
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries> {
        let (mut begin, mut expected) = (self.begin, Contents::default());
        for (one, contents) in Map::COPIED.into_iter().zip(self.contents) {
            if one == map {
                expected = contents;
                break;
            }
            begin += bytes_of(&contents);
        }
        let part =
            FilePart { file: Arc::clone(&self.file), at: begin, end: begin + bytes_of(&expected) };
        let blocks = BlocksOfFile {
            name: Arc::clone(&self.name),
            at: begin,
            end: part.end,
            input: BufReader::with_capacity(READ_BYTES, part),
            expected,
            found: Contents::default(),
            last_block: Vec::new(),
        };
        Box::new(BlockEntries::new(blocks, from))
    }
}

/// The blocks of a map of a run.
#[derive(Debug)]
struct BlocksOfFile {
    name: Arc<str>,
    input: BufReader<FilePart>,
    /// Where the next frame begins in the file, and where the last one ends.
    at: u64,
    end: u64,
    expected: Contents,
    found: Contents,
    /// The first key of the block before.
    last_block: Vec<u8>,
}

impl BlockSource for BlocksOfFile {
    type Bytes = Vec<u8>;

    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        if self.at == self.end {
            let is_whole = self.found == self.expected;
            // Only one call says so.
            self.found = self.expected;
            ensure!(is_whole, "{} has other blocks before byte {}", self.place(self.at), self.end);
            return Ok(None);
        }
        let begin = self.at;
        let block = self.read_frame();
        if block.as_ref().is_err_and(|error| error.downcast_ref::<io::Error>().is_some()) {
            // Reading on would fail again.
            self.at = self.end;
        }
        let block = block.with_context(|| format!("cannot read {}", self.place(begin)))?;
        let mut first = BlockCursor::new(&block[..]);
        let has_entry = first.advance().with_context(|| self.place(begin))?;
        ensure!(
            has_entry && (*self.last_block < *first.key() || self.found.blocks == 0),
            "the entries of {} are not in order",
            self.place(begin)
        );
        self.found.add(first.key(), &block);
        self.last_block = first.key().to_vec();
        Ok(Some(block))
    }
}

impl BlocksOfFile {
    fn read_frame(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut head = [0; FRAME_HEAD_BYTES];
        self.input.read_exact(&mut head)?;
        let (length, checksum) = head.split_at(4);
        let length = u32::from_le_bytes(length.try_into()?);
        let checksum = u64::from_le_bytes(checksum.try_into()?);
        let end = self.at + FRAME_HEAD_BYTES as u64 + u64::from(length);
        if end > self.end {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        self.at = end;
        let mut block = vec![0; usize::try_from(length)?];
        self.input.read_exact(&mut block)?;
        ensure!(xxh3_64(&block) == checksum, "its checksum is wrong");
        Ok(block)
    }

    /// Names the part of the file that begins with a frame.
    fn place(&self, begin: u64) -> String {
        format!("{}, bytes {begin} to {}", self.name, self.at.max(begin))
    }
}

/// A part of a file, read from its beginning.
#[derive(Debug)]
struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = buffer.len().min(rest);
        let read = self.file.read_at(&mut buffer[..length], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
