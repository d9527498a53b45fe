//! The manifest: which tables make up the database, and what they add up to. A table that the manifest does not name does
//! not count.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::change::Totals;
use super::errors::OtherFormat;
use super::keys::MAX_SEQUENCE;
use super::sealed::Seal;
use super::table::TableMetadata;
use super::write_ahead_log::Salts;
use crate::plant_record::whole;

const SEAL: Seal = Seal { magic: *b"plmanif1", name: "a manifest" };

/// The number of the layout of all files. A database with another number does not open.
pub(super) const FORMAT: u32 = 7;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The salts of the write-ahead log that belongs to this database.
    pub(super) log_salts: Salts,
    /// The random name of the log of events, for cursors.
    pub(super) event_log: u32,
    /// What the changes in the tables add up to.
    pub(super) totals: Totals,
    /// The number of the next table.
    pub(super) next_table: u64,
    /// Newest first.
    pub(super) tables: Vec<TableMetadata>,
}

impl Manifest {
    pub(super) fn new(log_salts: Salts, event_log: u32) -> Self {
        let totals = Totals::default();
        Self { log_salts, event_log, totals, next_table: 1, tables: Vec::new() }
    }

    /// The bytes of the file.
    pub(super) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        Ok(SEAL.seal(&self.content()?))
    }

    pub(super) fn content(&self) -> anyhow::Result<Vec<u8>> {
        Ok(postcard::to_stdvec(&(FORMAT, self))?)
    }

    pub(super) fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        Self::of_content(SEAL.open(bytes)?)
    }

    pub(super) fn of_content(content: &[u8]) -> anyhow::Result<Self> {
        let manifest: Self = of_this_format(content)?;
        let Totals { last_sequence, stored_from, .. } = manifest.totals;
        ensure!(
            last_sequence <= MAX_SEQUENCE && (1..=last_sequence + 1).contains(&stored_from),
            "its events are kept from number {stored_from} on, and the last is {last_sequence}"
        );
        Ok(manifest)
    }
}

/// Decodes what follows the number of the format.
pub(super) fn of_this_format<'a, T: Deserialize<'a>>(content: &'a [u8]) -> anyhow::Result<T> {
    let (format, rest): (u32, _) = postcard::take_from_bytes(content)?;
    ensure!(format == FORMAT, OtherFormat { found: format!("format {format}"), known: FORMAT });
    whole(rest)
}
