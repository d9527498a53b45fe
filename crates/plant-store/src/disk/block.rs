//! Blocks: consecutive entries of a table, the unit of reads.
//!
//! A block is its entries by ascending key. An entry is an [`EntryHead`], as postcard writes it, the key without the part
//! that it shares with the key before, and the value.

use std::cmp::Ordering;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A block is complete at this size, in bytes. Larger blocks have a smaller index, and take longer to search.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Lengths in bytes.
#[derive(Serialize, Deserialize)]
struct EntryHead {
    /// How much of the key is that of the key before.
    shared: usize,
    /// The rest of the key.
    suffix: usize,
    /// `None` removes the key from older tables.
    value: Option<usize>,
}

/// The checksum of a block, and of everything else that a table or the manifest holds.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// A block that is being written.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    pub(super) first_key: Vec<u8>,
    last_key: Vec<u8>,
    bytes: Vec<u8>,
}

impl BlockBuilder {
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    /// Adds an entry with a key greater than all before.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        if self.is_empty() {
            self.first_key.extend_from_slice(key);
        }
        let shared = self.last_key.iter().zip(key).take_while(|(one, other)| one == other).count();
        let suffix = &key[shared..];
        let head = EntryHead { shared, suffix: suffix.len(), value: value.map(<[u8]>::len) };
        self.bytes = postcard::to_extend(&head, mem::take(&mut self.bytes))?;
        self.bytes.extend_from_slice(suffix);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        Ok(())
    }

    /// The bytes of the block so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the entries of a block in turn.
#[derive(Debug)]
pub(super) struct BlockCursor {
    bytes: Arc<[u8]>,
    /// Where the next entry begins.
    next: usize,
    key: Vec<u8>,
    value: Option<Range<usize>>,
}

impl BlockCursor {
    /// A cursor before the first entry.
    pub(super) const fn new(bytes: Arc<[u8]>) -> Self {
        Self { bytes, next: 0, key: Vec::new(), value: None }
    }

    /// Moves to the next entry. Returns false after the last one.
    pub(super) fn advance(&mut self) -> anyhow::Result<bool> {
        let rest = &self.bytes[self.next..];
        if rest.is_empty() {
            return Ok(false);
        }
        let (EntryHead { shared, suffix, value }, rest) = postcard::take_from_bytes(rest)?;
        ensure!(shared <= self.key.len(), "an entry shares more of a key than there is");
        let (suffix, rest) = rest.split_at_checked(suffix).context("a key is cut")?;
        let value_bytes = value.unwrap_or_default();
        let (_, rest) = rest.split_at_checked(value_bytes).context("a value is cut")?;
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.next = self.bytes.len() - rest.len();
        self.value = value.map(|_| self.next - value_bytes..self.next);
        Ok(true)
    }

    /// The current entry's key.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The current entry's value; `None` when it removes the key.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.value.clone().map(|value| &self.bytes[value])
    }
}

/// The value of a key in a block: `None` when the block has no such key, and `Some(None)` when it removes the key.
pub(super) fn find(bytes: &Arc<[u8]>, key: &[u8]) -> anyhow::Result<Option<Option<Arc<[u8]>>>> {
    let mut cursor = BlockCursor::new(Arc::clone(bytes));
    while cursor.advance().context("a block is damaged")? {
        match cursor.key().cmp(key) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(Some(cursor.value().map(Arc::from))),
            Ordering::Greater => break,
        }
    }
    Ok(None)
}
