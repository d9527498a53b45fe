//! Blocks: consecutive entries of one map of a table, the values that sled holds.
//!
//! A block has entries in ascending key order. An entry is an [`EntryHead`], encoded by postcard, then the key without
//! the prefix that it shares with the key before, then the value. Backups have the same blocks.

use std::cmp::Ordering;
use std::mem;
use std::ops::{Deref, Range};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

/// A block is complete at this size, in bytes. sled reads whole pages, which have 8 to 16 blocks: larger blocks make
/// reads slower, and smaller ones make writes slower.
const BLOCK_BYTES: usize = 1024;

/// Lengths in bytes.
#[derive(Serialize, Deserialize)]
struct EntryHead {
    /// The length of the prefix shared with the key before.
    shared: usize,
    /// The length of the rest of the key.
    suffix: usize,
    /// The length of the value; `None` is a tombstone, which removes the key from older tables.
    value: Option<usize>,
}

/// A block that is being written.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    bytes: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    /// Adds an entry, whose key must be greater than all before.
    pub(crate) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        if self.is_empty() {
            self.first_key.extend_from_slice(key);
        } else {
            ensure!(*self.last_key < *key, "a key is not greater than the key before");
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

    /// Ends the block. Returns its first key and its bytes.
    pub(crate) fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        let Self { first_key, bytes, .. } = mem::take(self);
        (first_key, bytes)
    }
}

/// Reads the entries of a block one by one.
#[derive(Debug)]
pub(crate) struct BlockCursor<B> {
    bytes: B,
    /// Where the next entry begins.
    next: usize,
    key: Vec<u8>,
    value: Option<Range<usize>>,
}

impl<B: Deref<Target = [u8]>> BlockCursor<B> {
    /// A cursor before the first entry.
    pub(crate) const fn new(bytes: B) -> Self {
        Self { bytes, next: 0, key: Vec::new(), value: None }
    }

    /// Whether no entry has been read.
    pub(crate) const fn is_before_first(&self) -> bool {
        self.next == 0
    }

    /// Moves to the next entry. Returns false after the last one.
    pub(crate) fn advance(&mut self) -> anyhow::Result<bool> {
        let rest = &self.bytes[self.next..];
        if rest.is_empty() {
            return Ok(false);
        }
        let (EntryHead { shared, suffix, value }, rest) = postcard::take_from_bytes(rest)?;
        ensure!(shared <= self.key.len(), "an entry shares more bytes than the key before has");
        let (suffix, rest) = rest.split_at_checked(suffix).context("a key is cut")?;
        ensure!(self.next == 0 || *suffix > self.key[shared..], "the keys are not in order");
        let value_bytes = value.unwrap_or_default();
        let (_, rest) = rest.split_at_checked(value_bytes).context("a value is cut")?;
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.next = self.bytes.len() - rest.len();
        self.value = value.map(|_| self.next - value_bytes..self.next);
        Ok(true)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The current entry's value; `None` is a tombstone.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.value.clone().map(|value| &self.bytes[value])
    }

    /// Moves to a key. Returns false if the block does not have it.
    pub(crate) fn find(&mut self, key: &[u8]) -> anyhow::Result<bool> {
        while self.advance().context("a block is damaged")? {
            match self.key().cmp(key) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(true),
                Ordering::Greater => break,
            }
        }
        Ok(false)
    }
}
