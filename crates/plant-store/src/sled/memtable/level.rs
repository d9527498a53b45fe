//! A memtable as a level: how backups and inspections read the newest changes.

use std::sync::Arc;

use super::Memtable;
use crate::sled::tables::{Entries, Entry, EntrySink, Level, Map};

/// A key and its value. `None` is a tombstone, which removes the key.
type OwnedEntry = (Box<[u8]>, Option<Box<[u8]>>);

/// The entries of each map, in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct MemoryLevel([Vec<OwnedEntry>; Map::ALL.len()]);

impl MemoryLevel {
    pub(crate) fn of(memtable: &Memtable) -> anyhow::Result<Self> {
        let mut level = Self::default();
        memtable.write_to(&mut level, 1)?;
        Ok(level)
    }
}

impl EntrySink for MemoryLevel {
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        self.0[map as usize].push((key.into(), value.map(Box::from)));
        Ok(())
    }
}

impl Level for MemoryLevel {
    fn entries(self: Arc<Self>, map: Map, from: &[u8]) -> Box<dyn Entries> {
        let next = self.0[map as usize].partition_point(|(key, _)| **key < *from);
        Box::new(MemoryEntries { level: self, map, next, current: None })
    }
}

#[derive(Debug)]
struct MemoryEntries {
    level: Arc<MemoryLevel>,
    map: Map,
    next: usize,
    current: Option<usize>,
}

impl Entries for MemoryEntries {
    fn advance(&mut self) -> anyhow::Result<bool> {
        self.current = Some(self.next).filter(|next| *next < self.level.0[self.map as usize].len());
        self.next += 1;
        Ok(self.current.is_some())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (key, value) = &self.level.0[self.map as usize][self.current?];
        Some((key, value.as_deref()))
    }
}
