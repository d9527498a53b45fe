//! Fills a table.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use xxhash_rust::xxh3::Xxh3Default;

use super::block::BlockBuilder;
use super::bloom_filter::BloomFilter;
use super::database::{Database, FILL_CACHE_BYTES, Map, of_disk};
use super::seal::{Advances, Unsealed};
use super::summary::{Contents, Summary};
use super::table::PlantKey;

/// The size of the pieces of what an open table keeps in memory, in words.
const PIECE_WORDS: usize = 512;

/// A table that is being filled, in a folder of its own.
pub(crate) struct TableWriter {
    folder: PathBuf,
    database: Database,
    blocks: [BlockBuilder; Map::ALL.len()],
    contents: [Contents; Map::ALL.len()],
    filter: BloomFilter,
    first_plants: Vec<PlantKey>,
    advances: Advances,
}

impl TableWriter {
    /// Begins a table of at most this many plants in a new folder.
    pub(crate) fn create(
        folder: PathBuf,
        plants: usize,
        advances: Advances,
    ) -> anyhow::Result<Self> {
        let create = || {
            fs::create_dir(&folder)?;
            Database::open(&folder, FILL_CACHE_BYTES)
        };
        let database = create().map_err(of_disk);
        let database = database.with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self {
            folder,
            database,
            blocks: <[BlockBuilder; Map::ALL.len()]>::default(),
            contents: <[Contents; Map::ALL.len()]>::default(),
            filter: BloomFilter::with_room_for(plants),
            first_plants: Vec::new(),
            advances,
        })
    }

    /// Adds an entry, whose key is greater than all before in its map. `None` is a tombstone. Returns whether the entry
    /// begins a block.
    pub(crate) fn add(
        &mut self,
        map: Map,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> anyhow::Result<bool> {
        if self.blocks[map as usize].is_complete() {
            self.end_block(map)?;
        }
        if map == Map::Plants {
            self.filter.add(key);
        }
        let block = &mut self.blocks[map as usize];
        let begins_block = block.is_empty();
        block.add(key, value)?;
        Ok(begins_block)
    }

    fn end_block(&mut self, map: Map) -> anyhow::Result<()> {
        let (first_key, block) = self.blocks[map as usize].take();
        if map == Map::Plants {
            let key = first_key[..].try_into();
            self.first_plants.push(key.context("the key of a plant has a wrong length")?);
        }
        self.contents[map as usize].add(&first_key, &block);
        let inserted = self.database.insert(map, &first_key, block).map_err(of_disk);
        inserted.with_context(|| format!("cannot write {}", self.folder.display()))?;
        (self.advances)()
    }

    /// Writes the rest of the table, and closes it. `sequences` are those of its first and its last change.
    pub(crate) fn finish(
        mut self,
        sequences: (u64, u64),
        plant_entries: u64,
    ) -> anyhow::Result<Unsealed> {
        for map in Map::ALL {
            if !self.blocks[map as usize].is_empty() {
                self.end_block(map)?;
            }
        }
        let Self { folder, database, contents, filter, first_plants, advances, .. } = self;
        let finish = || {
            let first_plants = first_plants.chunks(PIECE_WORDS).map(<[PlantKey]>::as_flattened);
            let pieces = filter.pieces(PIECE_WORDS).chain(first_plants.map(<[u8]>::to_vec));
            let mut checksum = Xxh3Default::new();
            for (number, piece) in (0..).zip(pieces) {
                checksum.update(&piece);
                database.write_kept(number, piece)?;
                advances()?;
            }
            let kept_checksum = checksum.digest();
            let summary = Summary { sequences, plant_entries, contents, kept_checksum };
            database.write_summary(&postcard::to_stdvec(&summary)?)?;
            database.end_segment()?;
            database.flush()?;
            database.close()?;
            anyhow::Ok(summary)
        };
        let summary = finish().map_err(of_disk);
        let summary = summary.with_context(|| format!("cannot write {}", folder.display()))?;
        Ok(Unsealed { folder, summary, advances })
    }
}
