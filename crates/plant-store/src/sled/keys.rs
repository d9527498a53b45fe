//! The keys of the entries in the maps of a table.
//!
//! | map | key | value |
//! |---|---|---|
//! | tags | the tag | how many more plants have the tag than in older tables; the sum over all tables is the count |
//! | events | the sequence number | an [`EventRecord`](super::commit::change::EventRecord) |
//! | plants | the ordered id | a [`PlantRecord`](crate::record::PlantRecord) |
//! | search | see [`search`](super::search) | |
//!
//! Numbers are big-endian, and ids have the sign bit flipped, so that bytes sort like numbers.

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

/// The greatest valid sequence number on disk. No store reaches it, and arithmetic up to it cannot overflow.
pub(crate) const MAX_SEQUENCE: u64 = 1 << 62;

pub(crate) const fn event_key(sequence: u64) -> [u8; 8] {
    sequence.to_be_bytes()
}

pub(crate) fn plant_key(id: PlantId) -> [u8; 8] {
    (id.get().cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// The sequence number in the key of an event.
pub(crate) fn event_of(key: &[u8]) -> anyhow::Result<u64> {
    let sequence = key.try_into().context("the key of an event has a wrong length")?;
    let sequence = u64::from_be_bytes(sequence);
    ensure!(
        (1..=MAX_SEQUENCE).contains(&sequence),
        "an event has the impossible number {sequence}"
    );
    Ok(sequence)
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
