//! The keys of the entries in the maps of a table.
//!
//! | map | key | value |
//! |---|---|---|
//! | tags | the tag | how many more plants have the tag than in older tables; the sum over all tables is the count |
//! | events | the sequence number | an [`EventRecord`](super::events::record::EventRecord) |
//! | | 128 and a sequence number | the [`Version`](crate::record::Version) of a plant that the event with this number made, and a later one replaced |
//! | | 129, the ordered id, and the sequence number of a deletion with all bits flipped | none |
//! | | 130, the digest of a batch, and the number of its last event with all bits flipped | its [results](super::commit::change::BatchResults) |
//! | plants | the ordered id | a [`PlantRecord`](crate::record::PlantRecord) |
//! | search | see [`search`](super::search) | |
//!
//! Numbers are big-endian, and ids have the sign bit flipped, so that bytes sort like numbers.

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

use crate::IdempotencyDigest;

/// The greatest valid sequence number on disk. No store reaches it, and arithmetic up to it cannot overflow.
pub(crate) const MAX_SEQUENCE: u64 = 1 << 62;

pub(crate) const fn event_key(sequence: u64) -> [u8; 8] {
    sequence.to_be_bytes()
}

pub(crate) fn plant_key(id: PlantId) -> [u8; 8] {
    (id.get().cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// The first bytes of keys that belong to an event. No sequence number begins with one of them.
const VERSION: u8 = 128;
const DELETION: u8 = 129;
const BATCH: u8 = 130;

/// The key of a replaced version of a plant.
pub(crate) fn version_key(sequence: u64) -> [u8; 9] {
    let mut key = [VERSION; 9];
    key[1..].copy_from_slice(&sequence.to_be_bytes());
    key
}

/// The key of a deletion. The newest deletion of a plant comes first.
pub(crate) fn deletion_key(id: PlantId, sequence: u64) -> [u8; 17] {
    let mut key = [DELETION; 17];
    key[1..9].copy_from_slice(&plant_key(id));
    key[9..].copy_from_slice(&(!sequence).to_be_bytes());
    key
}

/// The key of the results of a batch. The newest come first.
pub(crate) fn batch_key(digest: &[u8; IdempotencyDigest::BYTES], sequence: u64) -> [u8; 25] {
    let mut key = [BATCH; 25];
    key[1..17].copy_from_slice(digest);
    key[17..].copy_from_slice(&(!sequence).to_be_bytes());
    key
}

/// A key of the map of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKey {
    Event(u64),
    Version(u64),
    Deletion(PlantId, u64),
    Batch([u8; IdempotencyDigest::BYTES], u64),
}

impl EventKey {
    pub(crate) fn of(key: &[u8]) -> anyhow::Result<Self> {
        let sequence = |key: &[u8]| {
            let sequence = key.try_into().context("the key of an event has a wrong length")?;
            anyhow::Ok(u64::from_be_bytes(sequence))
        };
        let key = match key {
            [VERSION, rest @ ..] => Self::Version(sequence(rest)?),
            [DELETION, rest @ ..] if let Some((id, rest)) = rest.split_first_chunk() => {
                Self::Deletion(plant_of_key(*id), !sequence(rest)?)
            }
            [BATCH, rest @ ..] if let Some((digest, rest)) = rest.split_first_chunk() => {
                Self::Batch(*digest, !sequence(rest)?)
            }
            _ => Self::Event(sequence(key)?),
        };
        let sequence = key.sequence();
        ensure!(
            (1..=MAX_SEQUENCE).contains(&sequence),
            "an event has the impossible number {sequence}"
        );
        Ok(key)
    }

    /// The event that the entry belongs to, and with which the entry is forgotten.
    pub(crate) const fn sequence(self) -> u64 {
        match self {
            Self::Event(sequence)
            | Self::Version(sequence)
            | Self::Deletion(_, sequence)
            | Self::Batch(_, sequence) => sequence,
        }
    }
}

/// The id in the key of a plant.
pub(crate) fn plant_of(key: &[u8]) -> anyhow::Result<PlantId> {
    Ok(plant_of_key(key.try_into().context("the key of a plant has a wrong length")?))
}

/// The id in the key of a plant that has the right length.
pub(crate) fn plant_of_key(key: [u8; 8]) -> PlantId {
    PlantId::from((u64::from_be_bytes(key) ^ (1 << 63)).cast_signed())
}

/// The tag in the key of a count.
pub(crate) fn tag_of(key: &[u8]) -> anyhow::Result<&str> {
    std::str::from_utf8(key).context("the key of a count is no text")
}
