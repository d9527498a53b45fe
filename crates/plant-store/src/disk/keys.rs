//! The keys of a table's entries.
//!
//! | key | value |
//! |---|---|
//! | `c`, tag | how many more plants have the tag than by older tables; the counts of all tables add up |
//! | `e`, sequence number | an [`EventOfPlant`](super::change::EventOfPlant) |
//! | `p`, ordered id | a [`PlantRecord`](crate::plant_record::PlantRecord) |
//! | `x`, granule, term | the postings of the term in a chunk of the [search index](super::search) of this table |
//!
//! Numbers are big-endian, ids with the sign bit flipped, so that numbers and bytes sort alike.

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

const COUNT_PREFIX: u8 = b'c';
const EVENT_PREFIX: u8 = b'e';
const PLANT_PREFIX: u8 = b'p';
const POSTINGS_PREFIX: u8 = b'x';

/// The least key of the search index. Everything else in a table sorts before.
pub(super) const FIRST_POSTINGS_KEY: &[u8] = &[POSTINGS_PREFIX];

/// The greatest sequence number that is valid on disk. No store reaches it, and arithmetic below it cannot overflow.
pub(super) const MAX_SEQUENCE: u64 = 1 << 62;

pub(super) fn event_key(sequence: u64) -> [u8; 9] {
    numbered(EVENT_PREFIX, sequence.to_be_bytes())
}

pub(super) fn plant_key(id: PlantId) -> [u8; 9] {
    numbered(PLANT_PREFIX, ordered(id))
}

fn numbered(prefix: u8, number: [u8; 8]) -> [u8; 9] {
    let mut key = [prefix; 9];
    key[1..].copy_from_slice(&number);
    key
}

pub(super) fn count_key(tag: &str) -> Vec<u8> {
    [&[COUNT_PREFIX], tag.as_bytes()].concat()
}

/// The key of a term in the chunk of the search index that begins with this granule.
pub(super) fn postings_key(granule: u32, term: &[u8]) -> Vec<u8> {
    [&[POSTINGS_PREFIX], &granule.to_be_bytes()[..], term].concat()
}

/// The sequence number in the key of an event; `None` when the key is of another kind.
pub(super) fn event_of(key: &[u8]) -> anyhow::Result<Option<u64>> {
    let Some(sequence) = key.strip_prefix(&[EVENT_PREFIX]) else { return Ok(None) };
    let sequence = sequence.try_into().context("the key of an event has a wrong length")?;
    let sequence = u64::from_be_bytes(sequence);
    ensure!(
        (1..=MAX_SEQUENCE).contains(&sequence),
        "an event has the impossible number {sequence}"
    );
    Ok(Some(sequence))
}

/// The id in the key of a plant; `None` when the key is of another kind.
pub(super) fn plant_of(key: &[u8]) -> anyhow::Result<Option<PlantId>> {
    let Some(id) = key.strip_prefix(&[PLANT_PREFIX]) else { return Ok(None) };
    let id = id.try_into().context("the key of a plant has a wrong length")?;
    Ok(Some(from_ordered(id)))
}

/// The tag in the key of a count; `None` when the key is of another kind.
pub(super) fn counted_tag(key: &[u8]) -> anyhow::Result<Option<&str>> {
    let Some(tag) = key.strip_prefix(&[COUNT_PREFIX]) else { return Ok(None) };
    std::str::from_utf8(tag).context("the key of a count is no text").map(Some)
}

/// The bytes of an id, which sort as ids do.
pub(super) fn ordered(id: PlantId) -> [u8; 8] {
    (id.get().cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

fn from_ordered(bytes: [u8; 8]) -> PlantId {
    PlantId::from((u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed())
}
