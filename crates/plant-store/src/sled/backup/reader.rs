//! Reads a [backup](super) from its first byte to its last, and verifies it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::frames::{END, FrameHead, HEAD};
use super::position::Position;
use super::restored_sequence::sequence_after;
use super::{End, Head, MAGIC};
use crate::format::whole;
use crate::sled::health::errors::{advise_on_backup, advise_on_disk, open_error};
use crate::sled::health::findings::Findings;
use crate::sled::health::verify::{Verification, Verifier};
use crate::sled::tables::{BlockCursor, EntrySink, EntrySource, Map};
use crate::{OpenError, StoreFailure};

/// The size of a read, in bytes.
const READ_BYTES: usize = 256 * 1024;

/// A backup in a file or a pipe. Opening it reads its head; [`Self::verify`] and [`Self::restore`] verify the rest.
pub struct BackupReader {
    pub(super) head: Head,
    /// The checksum of the frame of the head.
    head_checksum: u64,
    input: Input,
    /// The current block, and its map.
    map: Map,
    block: BlockCursor<Vec<u8>>,
    /// The offset of the first block.
    blocks_begin: u64,
    is_at_end: bool,
    /// Whether the backup breaks off before its end.
    is_cut: bool,
}

impl BackupReader {
    /// Opens the file of a backup, or a named pipe.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let open = || {
            let file = File::open(path)?;
            if file.metadata()?.is_dir() {
                return Err(io::Error::from(ErrorKind::IsADirectory));
            }
            Ok(file)
        };
        let file = open().with_context(|| format!("cannot read {name}"));
        Self::new(file.map_err(advise_on_disk).map_err(open_error)?, name)
    }

    /// Reads a backup from its first byte on. Errors call it `name`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Damaged`] when the head is cut or damaged, or the input is not a backup. [`OpenError::Unusable`]
    /// when the input cannot be read, or another version made it.
    pub fn new(input: impl Read + Send + 'static, name: String) -> Result<Self, OpenError> {
        let no_backup = format!("{name} is no whole backup");
        Self::read_head(Input::new(Box::new(input), name)).context(no_backup).map_err(backup_error)
    }

    fn read_head(mut input: Input) -> anyhow::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        input.read(&mut magic)?;
        ensure!(magic == MAGIC, "it does not begin as a backup does");
        let (frame, content) = input.read_frame().context("its head cannot be used")?;
        ensure!(frame.kind == HEAD, "it does not begin with a head");
        let head = Head::decode(&content)?;
        let numbers_are_left = || sequence_after(head.totals.last_sequence, 0);
        let checked = head.totals.check().and_then(|()| numbers_are_left());
        checked.context("its head cannot be used")?;
        let (map, block, blocks_begin) = (Map::Tags, BlockCursor::new(Vec::new()), input.at);
        let head_checksum = frame.checksum;
        let (is_at_end, is_cut) = (false, false);
        Ok(Self { head, head_checksum, input, map, block, blocks_begin, is_at_end, is_cut })
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

    /// Compares everything in the backup with each other and with its checksums, without restoring it. Calls `progress`
    /// with the completed share, from 0 to 1. Memory does not grow with the backup.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(mut self, progress: &dyn Fn(f64)) -> Result<Verification, StoreFailure> {
        let totals = self.head.totals;
        let mut verifier = Verifier::new(Some(totals), Findings::list(), totals.plants, progress);
        let read = verifier.read(&mut self);
        // A cut backup lacks so many plants that listing them would hide the cut.
        let compared =
            read.and_then(|()| if self.is_cut { Ok(()) } else { verifier.check_totals() });
        compared.map_err(StoreFailure::new)?;
        Ok(verifier.into_verification())
    }

    /// Reads the backup to its end, and compares it with its checksums.
    ///
    /// # Errors
    ///
    /// [`OpenError::Damaged`] when the backup is cut or damaged, and [`OpenError::Unusable`] when it cannot be read.
    pub fn read_to_end(mut self) -> Result<(), OpenError> {
        while self.next_block().map_err(backup_error)? {}
        Ok(())
    }

    /// Moves to the next entry. Returns false at the end. After an error, the next call continues after the damage.
    fn advance(&mut self) -> anyhow::Result<bool> {
        loop {
            match self.block.advance() {
                Ok(true) => return Ok(true),
                Ok(false) if self.next_block()? => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    self.block = BlockCursor::new(Vec::new());
                    return Err(error).with_context(|| self.input.place());
                }
            }
        }
    }

    /// Moves to the next block. Returns false at the end.
    fn next_block(&mut self) -> anyhow::Result<bool> {
        if self.is_at_end || self.is_cut {
            return Ok(false);
        }
        let read = self.input.read_frame();
        // After an impossible length, no other frame can be found.
        self.is_cut = read.as_ref().is_err_and(|error| error.is::<io::Error>());
        let (frame, content) =
            read.with_context(|| format!("cannot read {}", self.input.place()))?;
        if frame.kind == END {
            self.is_at_end = true;
            self.check_end(&content).with_context(|| self.input.place())?;
            return Ok(false);
        }
        self.begin_block(frame.kind, content).with_context(|| self.input.place())?;
        Ok(true)
    }

    fn begin_block(&mut self, kind: u8, content: Vec<u8>) -> anyhow::Result<()> {
        let map = *Map::COPIED.get(usize::from(kind)).context("it is of no known map")?;
        let mut first = BlockCursor::new(&content[..]);
        ensure!(first.advance()?, "it is empty");
        let last = &self.block;
        let is_next = last.is_before_first() || (self.map, last.key()) < (map, first.key());
        ensure!(is_next, "the entries are not in order");
        (self.map, self.block) = (map, BlockCursor::new(content));
        Ok(())
    }

    fn check_end(&mut self, content: &[u8]) -> anyhow::Result<()> {
        let block_bytes = self.input.frame_begin - self.blocks_begin;
        let end = End { block_bytes, head_checksum: self.head_checksum };
        ensure!(whole::<End>(content)? == end, "the end is that of another backup");
        ensure!(self.input.is_at_end()?, "something follows the end");
        Ok(())
    }
}

impl EntrySource for BackupReader {
    fn take(&mut self, entries: usize, sink: &mut impl EntrySink) -> anyhow::Result<bool> {
        for _ in 0..entries {
            if !self.advance()? {
                return Ok(false);
            }
            let Some(value) = self.block.value() else {
                bail!("{} removes a key", self.input.place())
            };
            sink.add(self.map, self.block.key(), Some(value))?;
        }
        Ok(true)
    }
}

fn backup_error(error: anyhow::Error) -> OpenError {
    open_error(advise_on_disk(advise_on_backup(error)))
}

/// The input of a backup, and the place in it.
struct Input {
    input: BufReader<Box<dyn Read + Send>>,
    /// The name of the input in errors.
    name: String,
    /// The offsets of the last frame that was read, and of the next byte.
    frame_begin: u64,
    at: u64,
}

impl Input {
    fn new(input: Box<dyn Read + Send>, name: String) -> Self {
        Self { input: BufReader::with_capacity(READ_BYTES, input), name, frame_begin: 0, at: 0 }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(bytes).map_err(|cause| match cause.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(cause.kind(), "it is cut"),
            _ => cause,
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Reads a frame, and checks its checksum.
    fn read_frame(&mut self) -> anyhow::Result<(FrameHead, Vec<u8>)> {
        self.frame_begin = self.at;
        let mut head = [0; FrameHead::BYTES];
        self.read(&mut head)?;
        let head = FrameHead::decode(head);
        let is_damaged = || io::Error::new(ErrorKind::InvalidData, "its length is damaged");
        let content_bytes = head.content_bytes().ok_or_else(is_damaged)?;
        let mut content = vec![0; content_bytes];
        self.read(&mut content)?;
        ensure!(FrameHead::of(head.kind, &content)? == head, "its checksum is wrong");
        Ok((head, content))
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.input.fill_buf()?.is_empty())
    }

    /// The name and the offsets of the last frame, for errors.
    fn place(&self) -> String {
        format!("{}, bytes {} to {}", self.name, self.frame_begin, self.at)
    }
}

#[cfg(test)]
mod tests;
