//! The keys of a table's entries.
//!
//! | key | value |
//! |---|---|
//! | `e`, sequence number | an [`EventOfPlant`](super::change::EventOfPlant) |
//! | `p`, ordered id | a [`PlantRecord`](crate::plant_record::PlantRecord) |
//! | `t`, tag, zero byte, ordered id | nothing: the plant has the tag |
//!
//! Numbers are big-endian, ids with the sign bit flipped, so that numbers and bytes sort alike. A zero byte ends a tag,
//! because the rules allow no control character in one.

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;

const EVENT_PREFIX: u8 = b'e';
const PLANT_PREFIX: u8 = b'p';
pub(super) const TAG_PREFIX: u8 = b't';
const TAG_END: u8 = 0;

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

pub(super) fn tag_key(tag: &str, id: PlantId) -> Vec<u8> {
    [&[TAG_PREFIX], tag.as_bytes(), &[TAG_END], &ordered(id)].concat()
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

/// The tag and the id in the key of an entry of the tag index; `None` when the key is of another kind.
pub(super) fn tag_of(key: &[u8]) -> anyhow::Result<Option<(&str, PlantId)>> {
    let Some(rest) = key.strip_prefix(&[TAG_PREFIX]) else { return Ok(None) };
    let split = rest.split_last_chunk::<8>();
    let split = split.and_then(|(tag, id)| Some((tag.strip_suffix(&[TAG_END])?, id)));
    let (tag, id) = split.context("the key of a tag has no end of the tag")?;
    let tag = std::str::from_utf8(tag).context("the key of a tag is no text")?;
    Ok(Some((tag, from_ordered(*id))))
}

/// The bytes of an id, which sort as ids do.
pub(super) fn ordered(id: PlantId) -> [u8; 8] {
    (id.get().cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

fn from_ordered(bytes: [u8; 8]) -> PlantId {
    PlantId::from((u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed())
}
