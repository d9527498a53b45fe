//! The manifest: which tables make up the database, and what they add up to. A table that the manifest does not name does
//! not count.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::block::checksum;
use super::change::Totals;
use super::errors::OtherFormat;
use super::keys::MAX_SEQUENCE;
use super::table::TableMetadata;
use super::write_ahead_log::Salts;
use crate::plant_record::whole;

/// The file begins with these bytes, then the checksum of the rest.
const MAGIC: [u8; 8] = *b"plmanif1";

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
        let content = self.content()?;
        Ok([&MAGIC, &checksum(&content).to_le_bytes(), &content[..]].concat())
    }

    pub(super) fn content(&self) -> anyhow::Result<Vec<u8>> {
        Ok(postcard::to_stdvec(&(FORMAT, self))?)
    }

    pub(super) fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        let content = bytes.strip_prefix(&MAGIC).and_then(<[u8]>::split_first_chunk);
        let (expected, content) = content.context("it does not begin as a manifest does")?;
        ensure!(checksum(content).to_le_bytes() == *expected, "its checksum is wrong");
        Self::of_content(content)
    }

    pub(super) fn of_content(content: &[u8]) -> anyhow::Result<Self> {
        let (format, rest): (u32, _) = postcard::take_from_bytes(content)?;
        ensure!(format == FORMAT, OtherFormat { found: format!("format {format}"), known: FORMAT });
        let manifest: Self = whole(rest)?;
        let Totals { last_sequence, stored_from, .. } = manifest.totals;
        ensure!(
            last_sequence <= MAX_SEQUENCE && (1..=last_sequence + 1).contains(&stored_from),
            "its events are kept from number {stored_from} on, and the last is {last_sequence}"
        );
        Ok(manifest)
    }
}
