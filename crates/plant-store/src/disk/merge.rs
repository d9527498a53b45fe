//! Merges tables: of a key that several tables have, the newest entry counts.

use std::cmp::Ordering;
use std::sync::Arc;

use anyhow::Context as _;

use super::keys;
use super::table::{Table, TableCursor};
use super::tag_counts::decode_count;

/// The tables of a database, newest first.
pub(super) type Tables = Arc<[Arc<Table>]>;

/// A key, and its value; `None` removes the key.
pub(super) type Entry<'a> = (&'a [u8], Option<&'a [u8]>);

/// The entries of several tables by ascending key.
#[derive(Debug)]
pub(super) struct Merge {
    /// Newest first.
    cursors: Vec<TableCursor>,
    /// The cursors whose entries are consumed. The first of them had the newest.
    consumed: Vec<usize>,
}

impl Merge {
    /// The entries from a key on, for a reader.
    pub(super) fn new(tables: &[Arc<Table>], from: &[u8]) -> Self {
        Self::of(tables, from, true)
    }

    /// All entries, for a pass over whole tables. Blocks read by the pass do not replace others in the cache.
    pub(super) fn of_all(tables: &[Arc<Table>]) -> Self {
        Self::of(tables, &[], false)
    }

    fn of(tables: &[Arc<Table>], from: &[u8], is_cached: bool) -> Self {
        let cursor = |table: &Arc<Table>| TableCursor::new(Arc::clone(table), from, is_cached);
        let cursors: Vec<_> = tables.iter().map(cursor).collect();
        let consumed = (0..cursors.len()).collect();
        Self { cursors, consumed }
    }

    /// The next entry.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Entry<'_>>> {
        self.advance()?;
        Ok(self.entry())
    }

    /// The current entry. Of several tables with its key, the newest has the value.
    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        self.entries().next()
    }

    /// The current entry, if it is the count of a tag: the tag, and the sum over all tables.
    pub(super) fn tag_count(&self) -> anyhow::Result<Option<(&str, i64)>> {
        let Some((key, _)) = self.entry() else { return Ok(None) };
        let Some(tag) = keys::counted_tag(key)? else { return Ok(None) };
        let mut sum = 0_i64;
        for (_, value) in self.entries() {
            sum = sum.checked_add(decode_count(value)?).context("a count of a tag is too great")?;
        }
        Ok(Some((tag, sum)))
    }

    /// The entries with the current key, newest first.
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.consumed.iter().filter_map(|cursor| self.cursors[*cursor].entry())
    }

    /// Moves to the next key. After an error, the next call continues behind the damaged block.
    pub(super) fn advance(&mut self) -> anyhow::Result<()> {
        while let Some(cursor) = self.consumed.last() {
            self.cursors[*cursor].advance()?;
            self.consumed.pop();
        }
        let mut least: Option<&[u8]> = None;
        for (index, cursor) in self.cursors.iter().enumerate() {
            let Some((key, _)) = cursor.entry() else { continue };
            match least.map_or(Ordering::Less, |least| key.cmp(least)) {
                Ordering::Greater => {}
                Ordering::Equal => self.consumed.push(index),
                Ordering::Less => {
                    least = Some(key);
                    self.consumed.clear();
                    self.consumed.push(index);
                }
            }
        }
        Ok(())
    }
}
