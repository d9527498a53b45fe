//! The manifest: names the tables that make up the database, and holds their totals. Other tables do not count.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::format::{Format, OtherFormat, whole};
use crate::sled::commit::change::Totals;
use crate::sled::commit::write_ahead_log::Salts;
use crate::sled::sealed::Seal;
use crate::sled::tables::TableMetadata;

const SEAL: Seal = Seal { magic: *b"plmanif2", name: "a manifest" };

const FORMAT: Format = Format { name: "the database", oldest: 2, newest: 3 };

/// The magic number of the manifest before tables were sled databases.
const MAGIC_BEFORE: &[u8] = b"plmanif1";

/// The error for a database of an older version, which had one format for all of its files.
pub(crate) fn other_format(found: &str) -> OtherFormat {
    OtherFormat {
        name: FORMAT.name,
        found: found.to_owned(),
        known: "databases of sled tables".to_owned(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The salts of the write-ahead log that belongs to this database.
    pub(crate) log_salts: Salts,
    /// The random name of the log of events, part of each cursor.
    pub(crate) event_log: u32,
    /// The totals after all changes in the tables.
    pub(crate) totals: Totals,
    pub(crate) next_table: u64,
    /// Newest first.
    pub(crate) tables: Vec<TableMetadata>,
}

impl Manifest {
    pub(crate) fn new(log_salts: Salts, event_log: u32) -> Self {
        let totals = Totals::default();
        Self { log_salts, event_log, totals, next_table: 1, tables: Vec::new() }
    }

    /// The bytes of the file.
    pub(crate) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        Ok(SEAL.seal(&self.content()?))
    }

    pub(crate) fn content(&self) -> anyhow::Result<Vec<u8>> {
        FORMAT.encode(&(self, self.totals.history_from), 0)
    }

    pub(crate) fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        ensure!(!bytes.starts_with(MAGIC_BEFORE), other_format("format 7 or less"));
        Self::of_content(SEAL.open(bytes)?)
    }

    pub(crate) fn of_content(content: &[u8]) -> anyhow::Result<Self> {
        let (mut manifest, history_from): (Self, u64) = match FORMAT.version_of(content)? {
            (2, content) => {
                let manifest: Self = whole(content)?;
                let history_from = manifest.totals.stored_from;
                (manifest, history_from)
            }
            (_, content) => whole(content)?,
        };
        manifest.totals.history_from = history_from;
        manifest.totals.check()?;
        Ok(manifest)
    }
}
