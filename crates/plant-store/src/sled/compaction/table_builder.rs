//! Builds a table: writes its entries and the search index of its plants.

use std::path::PathBuf;

use crate::sled::search::builder::{IndexBuilder, IndexEntries};
use crate::sled::tables::seal::{Advances, Unsealed};
use crate::sled::tables::writer::TableWriter;
use crate::sled::tables::{EntrySink, Map};

pub(crate) struct TableBuilder {
    table: TableWriter,
    index: IndexBuilder,
    pub(crate) plant_entries: u64,
}

impl TableBuilder {
    /// Begins a table of at most this many plants in a new folder.
    pub(crate) fn create(
        folder: PathBuf,
        plants: usize,
        advances: Advances,
    ) -> anyhow::Result<Self> {
        let table = TableWriter::create(folder, plants, advances)?;
        Ok(Self { table, index: IndexBuilder::default(), plant_entries: 0 })
    }

    /// Writes the rest of the table. `sequences` are those of its first and its last change.
    pub(crate) fn finish(mut self, sequences: (u64, u64)) -> anyhow::Result<Unsealed> {
        let entries = self.index.take_chunk()?;
        self.write_index(entries)?;
        let outline = self.index.outline()?;
        self.write_index(vec![outline])?;
        self.table.finish(sequences, self.plant_entries)
    }

    fn write_index(&mut self, entries: IndexEntries) -> anyhow::Result<()> {
        for (key, value) in entries {
            self.table.add(Map::Search, &key, Some(&value))?;
        }
        Ok(())
    }
}

impl EntrySink for TableBuilder {
    fn add(&mut self, map: Map, key: &[u8], value: Option<&[u8]>) -> anyhow::Result<()> {
        let begins_block = self.table.add(map, key, value)?;
        if map != Map::Plants {
            return Ok(());
        }
        self.plant_entries += 1;
        if begins_block {
            let entries = self.index.begin_block()?;
            self.write_index(entries)?;
        }
        self.index.add(value);
        Ok(())
    }
}
