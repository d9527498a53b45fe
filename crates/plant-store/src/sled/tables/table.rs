//! Reads a sealed table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use xxhash_rust::xxh3::xxh3_64;

use super::block::BlockCursor;
use super::bloom_filter::BloomFilter;
use super::database::{Blocks, Database, FILL_CACHE_BYTES, Map, SharedBytes, of_disk};
use super::seal;
use super::summary::{Contents, Summary, TableMetadata, check_contents};
use crate::format::whole;

/// A table that is open for reading.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) metadata: TableMetadata,
    pub(crate) summary: Summary,
    folder: PathBuf,
    filter: BloomFilter,
    /// The first keys of the plant blocks, with which a search finds a block by its number.
    pub(crate) first_plants: Vec<PlantKey>,
    pub(super) database: Database,
    /// Whether reads of single blocks touch their pages, because the table has many: see [`Database::open`].
    touches: bool,
}

pub(crate) type PlantKey = [u8; 8];

/// A table with more blocks has more pages than sled should keep in memory.
const BLOCKS_WITHOUT_TOUCH: u64 = 8 * 1024;

impl Table {
    /// Opens a sealed table with a cache of about `cache_bytes`. A server checks its files before, because sled may
    /// hang on damaged ones.
    pub(crate) fn open(
        folder: &Path,
        metadata: TableMetadata,
        cache_bytes: u64,
    ) -> anyhow::Result<Self> {
        let open = || {
            let database = Database::open(folder, cache_bytes)?;
            let summary: Summary = whole(&database.summary()?).context("its summary is damaged")?;
            let kept = database.kept()?;
            let is_right = xxh3_64(&kept) == summary.kept_checksum;
            ensure!(is_right, "its Bloom filter or its first plants are damaged");
            let plant_blocks = usize::try_from(summary.contents[Map::Plants as usize].blocks)?;
            let filter_bytes = kept.len().checked_sub(plant_blocks * size_of::<PlantKey>());
            let filter_bytes = filter_bytes.context("it lacks first plants")?;
            let (filter, first_plants) = kept.split_at(filter_bytes);
            let filter = BloomFilter::from_bytes(filter)?;
            let first_plants = first_plants.as_chunks().0.to_vec();
            let blocks: u64 = summary.contents.iter().map(|contents| contents.blocks).sum();
            let (folder, touches) = (folder.to_owned(), blocks > BLOCKS_WITHOUT_TOUCH);
            anyhow::Ok(Self { metadata, summary, folder, filter, first_plants, database, touches })
        };
        let opened = seal::open_unchanged(folder, open).map_err(of_disk);
        opened.with_context(|| format!("cannot open the table {}", folder.display()))
    }

    /// Opens what sled can read of a table that may be damaged, for its [entries](super::Level) only. sled may panic or
    /// hang, and changes the files, so pass a copy. Errors name the table `name`.
    pub(crate) fn open_damaged(
        folder: &Path,
        name: PathBuf,
        metadata: TableMetadata,
    ) -> anyhow::Result<Self> {
        let database = Database::open(folder, FILL_CACHE_BYTES).or_else(|_| {
            // Without these files, sled finds the pages by reading its whole log.
            seal::remove_indexes(folder)?;
            Database::open(folder, FILL_CACHE_BYTES)
        })?;
        let summary = database.summary().and_then(|summary| whole(&summary)).unwrap_or_default();
        let filter = BloomFilter::with_room_for(0);
        let first_plants = Vec::new();
        Ok(Self { metadata, summary, folder: name, filter, first_plants, database, touches: false })
    }

    /// The size and the checksum of the blocks of a map.
    pub(crate) const fn contents(&self, map: Map) -> Contents {
        self.summary.contents[map as usize]
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.summary.contents.iter().map(|contents| contents.bytes).sum()
    }

    /// Whether the changes of the table include one with this sequence number.
    pub(crate) fn has_event(&self, sequence: u64) -> bool {
        let (first, last) = self.summary.sequences;
        (first..=last).contains(&sequence)
    }

    /// The value of a plant's key: `None` if the table does not have the key, `Some(None)` for a tombstone.
    pub(crate) fn plant(&self, key: &[u8]) -> anyhow::Result<Option<Option<Arc<[u8]>>>> {
        if !self.filter.may_contain(key) {
            return Ok(None);
        }
        self.get(Map::Plants, key)
    }

    /// The value of a key: `None` if the table does not have the key, `Some(None)` for a tombstone.
    pub(crate) fn get(&self, map: Map, key: &[u8]) -> anyhow::Result<Option<Option<Arc<[u8]>>>> {
        let Some(mut block) = self.block_of(map, key)? else { return Ok(None) };
        Ok(block.find(key)?.then(|| block.value().map(Arc::from)))
    }

    /// The first id of the block about `entries` entries before an id, or of the first block. `None` if the table has no
    /// entry before the id.
    pub(crate) fn back_from(&self, key: &PlantKey, entries: usize) -> Option<PlantKey> {
        let before = self.first_plants.partition_point(|first| first < key);
        let plants = usize::try_from(self.summary.plant_entries).unwrap_or(usize::MAX);
        let of_a_block = plants.div_ceil(self.first_plants.len().max(1)).max(1);
        let blocks = entries.div_ceil(of_a_block).clamp(1, before.max(1));
        self.first_plants.get(before.checked_sub(blocks)?).copied()
    }

    /// A cursor at the start of the block that has a key, if the map has it.
    pub(crate) fn block_of(
        &self,
        map: Map,
        key: &[u8],
    ) -> anyhow::Result<Option<BlockCursor<SharedBytes>>> {
        let found = self.database.block_of(map, key, self.touches);
        let found = found.map_err(|error| self.unreadable(error, map, key))?;
        Ok(found.map(|(_, block)| BlockCursor::new(block)))
    }

    pub(crate) fn blocks(&self, map: Map) -> anyhow::Result<Blocks> {
        self.database.blocks_from(map, &[])
    }

    /// Compares all blocks and the filter with the summary. Calls `advances` after each block.
    pub(crate) fn check(&self, advances: &dyn Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        check_contents(&self.database, &self.summary, advances)
            .with_context(|| format!("the table {} is damaged", self.folder.display()))
    }

    pub(super) fn unreadable(&self, error: anyhow::Error, map: Map, key: &[u8]) -> anyhow::Error {
        let (map, folder) = (map.name(), self.folder.display());
        error.context(format!("cannot read the {map} of {folder} from key {key:x?} on"))
    }

    /// The blocks after an unreadable one that begins at `key` or before. Finds the first block on a readable page with
    /// ever longer steps, then with a binary search between the last two.
    pub(super) fn readable_after(&self, map: Map, key: &[u8]) -> anyhow::Result<Blocks> {
        let is_readable = |number: u64| {
            let blocks = self.database.blocks_from(map, &number.to_be_bytes());
            blocks.and_then(|mut blocks| blocks.next()).is_ok()
        };
        let (mut low, mut step) = (prefix(key), 1_u64);
        let mut high = loop {
            match low.checked_add(step) {
                Some(probe) if is_readable(probe) => break probe,
                Some(probe) => (low, step) = (probe, step.saturating_mul(2)),
                // No greater key exists.
                None if step == 1 => return Ok(Blocks::default()),
                None => step = 1,
            }
        };
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_readable(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        self.database.blocks_from(map, &high.to_be_bytes())
    }
}

/// The first bytes of a key as a number. Numbers sort like keys, but several keys may share one.
fn prefix(key: &[u8]) -> u64 {
    let mut prefix = [0; size_of::<u64>()];
    let length = prefix.len().min(key.len());
    prefix[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(prefix)
}
