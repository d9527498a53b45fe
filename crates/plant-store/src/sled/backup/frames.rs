//! The frames of a backup: a header, then the content.

use anyhow::ensure;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::sled::tables::{BlockBuilder, EntrySink, Map};

/// The kind of the first frame, which holds a [`Head`](super::Head).
pub(super) const HEAD: u8 = 254;

/// The kind of the last frame, which holds an [`End`](super::End).
pub(super) const END: u8 = 255;

/// A longer frame is damaged: a block ends with the entry that reaches 1 KiB, and no entry has 60 KiB.
const CONTENT_MAX_BYTES: u32 = 64 * 1024;

/// The header of a frame: its kind (1 byte), and the length (4 bytes) and checksum (8 bytes) of its content,
/// little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// The number of a block's map, or [`HEAD`], or [`END`].
    pub(super) kind: u8,
    length: u32,
    pub(super) checksum: u64,
}

impl FrameHead {
    pub(super) const BYTES: usize = 13;

    pub(super) fn of(kind: u8, content: &[u8]) -> anyhow::Result<Self> {
        let length = u32::try_from(content.len())?;
        ensure!(length <= CONTENT_MAX_BYTES, "a frame of {length} bytes is too long");
        Ok(Self { kind, length, checksum: xxh3_64_with_seed(content, u64::from(kind)) })
    }

    fn encode(&self) -> Vec<u8> {
        [&[self.kind][..], &self.length.to_le_bytes(), &self.checksum.to_le_bytes()].concat()
    }

    pub(super) fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let [kind, a, b, c, d, checksum @ ..] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        Self { kind, length, checksum: u64::from_le_bytes(checksum) }
    }

    /// The length of the content; `None` if the header is damaged.
    pub(super) fn content_bytes(&self) -> Option<usize> {
        usize::try_from(self.length).ok().filter(|_| self.length <= CONTENT_MAX_BYTES)
    }
}

pub(super) fn frame(kind: u8, content: &[u8]) -> anyhow::Result<Vec<u8>> {
    Ok([&FrameHead::of(kind, content)?.encode(), content].concat())
}

/// Writes the frames of blocks.
#[derive(Debug, Default)]
pub(super) struct BlockFrames {
    pub(super) bytes: Vec<u8>,
    block: BlockBuilder,
    map: Map,
}

impl BlockFrames {
    /// Completes the current frame.
    pub(super) fn end_block(&mut self) -> anyhow::Result<()> {
        if !self.block.is_empty() {
            let (_, block) = self.block.take();
            self.bytes.extend_from_slice(&frame(self.map as u8, &block)?);
        }
        Ok(())
    }
}

impl EntrySink for BlockFrames {
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        if map != self.map || self.block.is_complete() {
            self.end_block()?;
            self.map = map;
        }
        self.block.add(key, value)
    }
}
