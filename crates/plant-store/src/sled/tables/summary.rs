//! What the manifest and a table record about the table.

use std::num::Wrapping;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::database::{Database, Map};
use crate::format::whole;

/// The manifest's entry for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableMetadata {
    pub(crate) number: u64,
    /// The size of all its files, in bytes.
    pub(crate) bytes: u64,
    /// The [`checksum_of_files`](super::seal).
    pub(crate) checksum: u64,
}

/// The content of a table, stored in the table. The checksum of the files covers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// The sequence numbers of the first and the last change in the table.
    pub(crate) sequences: (u64, u64),
    /// The number of plant entries, tombstones included.
    pub(crate) plant_entries: u64,
    /// The blocks of each map.
    pub(crate) contents: [Contents; Map::ALL.len()],
    /// The checksum of what an open table keeps in memory.
    pub(super) kept_checksum: u64,
}

/// The blocks of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) blocks: u64,
    /// The size of the blocks without their first keys.
    pub(crate) bytes: u64,
    /// The sum of the hashes of the blocks with their first keys.
    checksum: Wrapping<u64>,
}

impl Contents {
    pub(crate) fn add(&mut self, first_key: &[u8], block: &[u8]) {
        self.blocks += 1;
        self.bytes += block.len() as u64;
        self.checksum += xxh3_64_with_seed(block, xxh3_64(first_key));
    }
}

/// Compares all content of a database with a summary.
pub(super) fn check_contents(
    database: &Database,
    summary: &Summary,
    advances: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let read_back: Summary = whole(&database.summary()?).context("its summary is damaged")?;
    ensure!(read_back == *summary, "its summary is not the one that was written");
    ensure!(
        xxh3_64(&database.kept()?) == summary.kept_checksum,
        "its Bloom filter or its first plants are not those that were written"
    );
    for (map, expected) in Map::ALL.into_iter().zip(&summary.contents) {
        let (mut found, mut blocks) = (Contents::default(), database.blocks_from(map, &[])?);
        while let Some((first_key, block)) = blocks.next()? {
            found.add(&first_key, &block);
            advances()?;
        }
        ensure!(found == *expected, "its {} are not those that were written", map.name());
    }
    Ok(())
}
