//! Merges levels: for each key, the entry of the newest level wins.

use std::array;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::sled::keys::{self, EventKey};
use crate::sled::memtable::tag_counts::add_count;
use crate::sled::tables::{Entries, Entry, EntrySink, EntrySource, Level, Map, Table};

/// The tables of a database, newest first.
pub(crate) type Tables = Arc<[Arc<Table>]>;

pub(crate) fn levels_of(tables: &[Arc<Table>]) -> Vec<Arc<dyn Level>> {
    tables.iter().map(|table| Arc::clone(table) as Arc<dyn Level>).collect()
}

/// The entries of one map of several levels by ascending key.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Newest first.
    cursors: Vec<Box<dyn Entries>>,
    /// The cursors at the current key, newest first. The next call advances them.
    consumed: Vec<usize>,
}

impl Merge {
    /// The entries of tables from a key on.
    pub(crate) fn new(tables: &[Arc<Table>], map: Map, from: &[u8]) -> Self {
        Self::of(tables.iter().map(|table| Arc::clone(table).entries(map, from)))
    }

    /// The entries of any levels from a key on.
    pub(crate) fn of_levels(levels: &[Arc<dyn Level>], map: Map, from: &[u8]) -> Self {
        Self::of(levels.iter().map(|level| Arc::clone(level).entries(map, from)))
    }

    fn of(cursors: impl Iterator<Item = Box<dyn Entries>>) -> Self {
        let cursors: Vec<_> = cursors.collect();
        let consumed = (0..cursors.len()).collect();
        Self { cursors, consumed }
    }

    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Entry<'_>>> {
        self.advance()?;
        Ok(self.entry())
    }

    /// The current entry, from the newest level that has its key.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.entries().next()
    }

    /// The next tag, with the sum of its counts over all levels. Only for [`Map::Tags`].
    pub(crate) fn next_count(&mut self) -> anyhow::Result<Option<(&str, i64)>> {
        self.advance()?;
        let Some((tag, _)) = self.entry() else { return Ok(None) };
        let mut sum = 0_i64;
        for (_, value) in self.entries() {
            sum = add_count(sum, value)?;
        }
        Ok(Some((keys::tag_of(tag)?, sum)))
    }

    /// The entries with the current key, newest first.
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.consumed.iter().filter_map(|cursor| self.cursors[*cursor].entry())
    }

    /// Moves to the next key. After an error, the next call continues after the damage.
    fn advance(&mut self) -> anyhow::Result<()> {
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

/// The merged entries of levels, map by map.
pub(crate) struct MergedEntries {
    /// Newest first.
    levels: Vec<Arc<dyn Level>>,
    current: Option<(Map, Merge)>,
    maps: array::IntoIter<Map, { Map::COPIED.len() }>,
    /// Whether no level is older, so that tombstones can be dropped.
    is_oldest: bool,
    /// Events before this number are dropped.
    history_from: u64,
}

impl MergedEntries {
    pub(crate) fn new(levels: Vec<Arc<dyn Level>>, is_oldest: bool, history_from: u64) -> Self {
        Self { levels, current: None, maps: Map::COPIED.into_iter(), is_oldest, history_from }
    }
}

impl EntrySource for MergedEntries {
    fn take(&mut self, entries: usize, sink: &mut impl EntrySink) -> anyhow::Result<bool> {
        for _ in 0..entries {
            let Some((map, merge)) = &mut self.current else {
                let Some(map) = self.maps.next() else { return Ok(false) };
                self.current = Some((map, Merge::of_levels(&self.levels, map, &[])));
                continue;
            };
            if *map == Map::Tags {
                match merge.next_count()? {
                    Some((_, 0)) => {}
                    Some((tag, count)) => {
                        let count = postcard::to_stdvec(&count)?;
                        sink.add(*map, tag.as_bytes(), Some(&count))?;
                    }
                    None => self.current = None,
                }
                continue;
            }
            let Some((key, value)) = merge.next()? else {
                self.current = None;
                continue;
            };
            let is_forgotten =
                *map == Map::Events && EventKey::of(key)?.sequence() < self.history_from;
            let hides_nothing = value.is_none() && self.is_oldest;
            if !is_forgotten && !hides_nothing {
                sink.add(*map, key, value)?;
            }
        }
        Ok(true)
    }
}
