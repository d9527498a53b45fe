//! The keys and values in the database, and how they become bytes.
//!
//! Everything stands in one tree, so that a kill leaves the writes up to one of them, in order. The
//! first byte of a key says what its value is:
//!
//! | key | value |
//! |---|---|
//! | `m` `format` | the [`FORMAT`] number of all this, big-endian |
//! | `m` `journal` | the salts of the journal that belongs to it |
//! | `m` `opened` | the sequence number of the last event when it was last opened to write, big-endian |
//! | `p` ordered id | a [`PlantRecord`] |
//! | `e` first sequence number | an [`EventRecord`]: some events of a group |
//! | `t` tag `0` ordered id | a block of the tag index: the ids from this one on |
//!
//! An *ordered id* is the id with its sign bit flipped, big-endian, so that the order of the bytes is
//! the order of the ids. A zero byte ends a tag, for the rules allow no control character in one.
//! Values are in the postcard format behind a version byte.

use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use plant_domain::{Plant, PlantId, UncheckedPlant};
use serde::{Deserialize, Serialize};
use sled::IVec;

use super::digest::Digest;
use crate::{EventKind, IdempotencyDigest, Revision, StoredPlant};

/// The number of this layout. A database with another number is not opened.
pub(super) const FORMAT: u32 = 3;
pub(super) const FORMAT_KEY: &[u8] = b"mformat";
pub(super) const JOURNAL_KEY: &[u8] = b"mjournal";
pub(super) const OPENED_KEY: &[u8] = b"mopened";

pub(super) const PLANT_PREFIX: &[u8] = b"p";
pub(super) const EVENT_PREFIX: &[u8] = b"e";
pub(super) const TAG_PREFIX: &[u8] = b"t";
const TAG_END: u8 = 0;

/// The first byte of every value but the format number. It tells later layouts of single values
/// apart, where a new [`FORMAT`] would be too much.
const VALUE_VERSION: u8 = 1;

/// No value is larger than this, in bytes. sled keeps pages of more than a quarter of its segments
/// (512 KiB) in files of their own, which it never syncs, and up to 20 values share a page.
const MAX_VALUE_BYTES: usize = 6 * 1024;

/// An event record takes no more events when they have this size, in bytes. What stands before them
/// is smaller than the rest.
const EVENT_RECORD_BYTES: usize = MAX_VALUE_BYTES - 128;

/// The greatest sequence number. No store gets there; behind it there is room to count on.
const MAX_SEQUENCE: u64 = u64::MAX / 4;

/// What is kept of a plant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PlantRecord<'a> {
    pub(super) revision: u64,
    /// The digest of the create that made the plant, when it came with an idempotency key.
    pub(super) idempotency: Option<[u8; IdempotencyDigest::BYTES]>,
    pub(super) name: &'a str,
    pub(super) tag: Option<&'a str>,
}

/// Events of one group. The newest record also is the store's state: that spares a key for each
/// group.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EventRecord<'a> {
    /// How many plants there are after these events.
    pub(super) plants: u64,
    /// The digest of all plants after these events.
    pub(super) digest: Digest,
    /// The tag index's blocks on disk hold all events up to this sequence number. The later ones are
    /// read from here when the database is opened.
    pub(super) indexed_through: u64,
    /// The events from this sequence number on are kept. There may be remains of older ones.
    pub(super) kept_from: u64,
    /// The events; the first one's sequence number is in the key, and they follow without a gap.
    #[serde(borrow)]
    pub(super) events: Vec<Event<'a>>,
}

/// What one group changes, as the journal keeps it: enough to do it again.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Group<'a> {
    /// The sequence number of the first change's event; the others follow without a gap.
    pub(super) first_sequence: u64,
    /// How many plants there are before the group.
    pub(super) plants_before: u64,
    /// The digest of all plants before the group.
    pub(super) digest_before: Digest,
    #[serde(borrow)]
    pub(super) changes: Vec<Change<'a>>,
}

impl<'a> Group<'a> {
    pub(super) fn decode(payload: &'a [u8]) -> anyhow::Result<Self> {
        let (group, rest): (Self, _) =
            postcard::take_from_bytes(payload).context("a journal record")?;
        ensure!(rest.is_empty(), "a journal record has bytes behind its end");
        let first_sequence = group.first_sequence;
        ensure!(
            (1..=MAX_SEQUENCE).contains(&first_sequence),
            "a journal record begins with the impossible number {first_sequence}"
        );
        Ok(group)
    }

    /// The sequence number of the last change's event.
    pub(super) fn last_sequence(&self) -> u64 {
        (self.first_sequence + self.changes.len() as u64).saturating_sub(1)
    }

    /// The changes in runs, each of which has its events in one record.
    pub(super) fn event_runs(&self) -> impl Iterator<Item = &[Change<'a>]> {
        let bytes_of = |change: &Change<'_>| change.event().max_bytes();
        let mut bytes = self.changes.first().map_or(0, bytes_of);
        self.changes.chunk_by(move |_, next| {
            bytes += bytes_of(next);
            let fits = bytes <= EVENT_RECORD_BYTES;
            if !fits {
                bytes = bytes_of(next);
            }
            fits
        })
    }
}

/// One change to one plant, and what the plant is after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change<'a> {
    pub(super) kind: EventKind,
    pub(super) id: i64,
    /// The tag that the plant had before and has no more.
    pub(super) left_tag: Option<&'a str>,
    /// What the change adds to the digest of all plants: the plant after it, less the plant before.
    /// It is kept, for when a group is applied again, the plant before may be gone.
    pub(super) digest: Digest,
    /// The plant after the change; none when it is gone.
    #[serde(borrow)]
    pub(super) record: Option<PlantRecord<'a>>,
}

impl<'a> Change<'a> {
    /// What leads from the plant as it was to the plant as it is, where these differ.
    ///
    /// # Errors
    ///
    /// When a record is too large.
    pub(super) fn new(
        id: PlantId,
        before: Option<&PlantRecord<'a>>,
        after: Option<PlantRecord<'a>>,
    ) -> anyhow::Result<Self> {
        let kind = match (before, after) {
            (None, _) => EventKind::Created,
            (Some(_), Some(_)) => EventKind::Updated,
            (Some(_), None) => EventKind::Deleted,
        };
        let tag = after.and_then(|after| after.tag);
        let left_tag = before.and_then(|before| before.tag).filter(|left| Some(*left) != tag);
        let digest_of = |record: Option<&PlantRecord<'a>>| match record {
            Some(record) => Ok(Digest::of(&plant_key(id), &encode(record)?)),
            None => anyhow::Ok(Digest::default()),
        };
        let digest = digest_of(after.as_ref())? - digest_of(before)?;
        Ok(Self { kind, id: id.get(), left_tag, digest, record: after })
    }

    /// What is kept of the change when it is done.
    pub(super) fn event(&self) -> Event<'a> {
        let tag = self.record.and_then(|record| record.tag);
        Event { kind: self.kind, id: self.id, left_tag: self.left_tag, tag }
    }
}

/// What is kept of a change when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Event<'a> {
    pub(super) kind: EventKind,
    pub(super) id: i64,
    /// The tag that the plant had before and has no more.
    pub(super) left_tag: Option<&'a str>,
    /// The tag that the plant has after the change.
    pub(super) tag: Option<&'a str>,
}

impl Event<'_> {
    /// An upper bound of the size that the event has within a record, in bytes.
    pub(super) fn max_bytes(&self) -> usize {
        const FIXED_BYTES: usize = 20;
        FIXED_BYTES + self.left_tag.map_or(0, str::len) + self.tag.map_or(0, str::len)
    }
}

impl PlantRecord<'_> {
    /// The plant that is kept. It goes through the create rules again: a record that breaks one was
    /// not written by us.
    pub(super) fn to_stored_plant(self, id: PlantId) -> anyhow::Result<StoredPlant> {
        let unchecked =
            UncheckedPlant { name: self.name.to_owned(), tag: self.tag.map(str::to_owned) };
        let plant = Plant::try_from(unchecked)
            .with_context(|| format!("the record of plant {id} breaks the rules"))?;
        Ok(StoredPlant { id, plant, revision: Revision::from(self.revision) })
    }
}

pub(super) fn plant_key(id: PlantId) -> [u8; 9] {
    prefixed(PLANT_PREFIX, ordered(id))
}

pub(super) fn event_key(first_sequence: u64) -> [u8; 9] {
    prefixed(EVENT_PREFIX, first_sequence.to_be_bytes())
}

/// The keys of the plants from an id on.
pub(super) fn plant_keys(first: PlantId) -> Range<Vec<u8>> {
    plant_key(first).to_vec()..vec![PLANT_PREFIX[0] + 1]
}

/// The keys of all event records.
pub(super) fn event_keys() -> Range<Vec<u8>> {
    EVENT_PREFIX.to_vec()..vec![EVENT_PREFIX[0] + 1]
}

pub(super) fn plant_id(key: &[u8]) -> anyhow::Result<PlantId> {
    let bytes = key.strip_prefix(PLANT_PREFIX).context("not the key of a plant")?;
    Ok(from_ordered(bytes.try_into().context("a plant's key has a wrong length")?))
}

pub(super) fn event_sequence(key: &[u8]) -> anyhow::Result<u64> {
    let bytes = key.strip_prefix(EVENT_PREFIX).context("not the key of an event record")?;
    let bytes = bytes.try_into().context("an event record's key has a wrong length")?;
    let first_sequence = u64::from_be_bytes(bytes);
    ensure!(
        (1..=MAX_SEQUENCE).contains(&first_sequence),
        "an event record begins with the impossible number {first_sequence}"
    );
    Ok(first_sequence)
}

/// The keys that a tag's blocks can have.
pub(super) fn tag_block_keys(tag: &str) -> Range<Vec<u8>> {
    tag_key(tag, TAG_END)..tag_key(tag, TAG_END + 1)
}

/// The tag whose block has this key.
pub(super) fn tag_of_block(key: &[u8]) -> anyhow::Result<&str> {
    let tag = key
        .strip_prefix(TAG_PREFIX)
        .and_then(|rest| rest.split_last_chunk::<{ size_of::<i64>() + 1 }>())
        .map(|(tag, _)| tag)
        .context("the key of a tag block is too short")?;
    std::str::from_utf8(tag).context("the key of a tag block is no text")
}

pub(super) fn tag_block_key(tag: &str, first: PlantId) -> Vec<u8> {
    let mut key = tag_key(tag, TAG_END);
    key.extend_from_slice(&ordered(first));
    key
}

/// The id in the last eight bytes of the key of a tag block.
pub(super) fn tag_block_first_id(key: &[u8]) -> anyhow::Result<PlantId> {
    let bytes = key.last_chunk().context("the key of a tag block is too short")?;
    Ok(from_ordered(*bytes))
}

/// The ids of a tag block, ascending, as the distances from each to the next; the first one is in
/// the key.
pub(super) fn encode_tag_block(ids: &[PlantId]) -> anyhow::Result<Vec<u8>> {
    let distances: Vec<u64> =
        ids.windows(2).map(|pair| pair[1].get().abs_diff(pair[0].get())).collect();
    encode(&distances)
}

pub(super) fn decode_tag_block(key: &[u8], value: &[u8]) -> anyhow::Result<Vec<PlantId>> {
    let first = tag_block_first_id(key)?;
    let distances: Vec<u64> = decode(value)?;
    let mut ids = Vec::with_capacity(distances.len() + 1);
    let mut id = first.get();
    ids.push(first);
    for distance in distances {
        id = id.checked_add_unsigned(distance).context("a tag block leaves the range of ids")?;
        ids.push(PlantId::from(id));
    }
    Ok(ids)
}

pub(super) fn encode(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let bytes = postcard::to_extend(value, vec![VALUE_VERSION])?;
    ensure!(bytes.len() <= MAX_VALUE_BYTES, "a value of {} bytes is too large", bytes.len());
    Ok(bytes)
}

pub(super) fn decode<'a, T: Deserialize<'a>>(value: &'a [u8]) -> anyhow::Result<T> {
    match value {
        [VALUE_VERSION, bytes @ ..] => {
            let (decoded, rest) = postcard::take_from_bytes(bytes)?;
            ensure!(rest.is_empty(), "a value has {} bytes behind its end", rest.len());
            Ok(decoded)
        }
        [version, ..] => bail!("a value has the unknown version {version}"),
        [] => bail!("a value is empty"),
    }
}

/// What the database holds under the format key.
pub(super) fn decode_format(value: &IVec) -> anyhow::Result<u32> {
    let bytes: [u8; 4] = value.as_ref().try_into().context("the format number is damaged")?;
    Ok(u32::from_be_bytes(bytes))
}

fn ordered(id: PlantId) -> [u8; 8] {
    (id.get().cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

fn from_ordered(bytes: [u8; 8]) -> PlantId {
    PlantId::from((u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed())
}

fn tag_key(tag: &str, end: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + tag.len() + 1 + size_of::<i64>());
    key.extend_from_slice(TAG_PREFIX);
    key.extend_from_slice(tag.as_bytes());
    key.push(end);
    key
}

fn prefixed(prefix: &[u8], bytes: [u8; 8]) -> [u8; 9] {
    let mut key = [0; 9];
    key[..1].copy_from_slice(prefix);
    key[1..].copy_from_slice(&bytes);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [i64; 7] = [i64::MIN, -256, -1, 0, 1, 256, i64::MAX];

    #[test]
    fn the_order_of_the_keys_is_the_order_of_the_ids() {
        let keys = EDGES.map(|id| plant_key(PlantId::from(id)));
        assert!(keys.is_sorted());
        for id in EDGES {
            let key = tag_block_key("Rosaceae", PlantId::from(id));
            assert_eq!(tag_block_first_id(&key).expect("well formed").get(), id);
        }
    }

    #[test]
    fn a_tag_block_keeps_its_ids_even_from_one_edge_of_int64_to_the_other() {
        let ids = EDGES.map(PlantId::from);
        let key = tag_block_key("Rosaceae", ids[0]);
        let value = encode_tag_block(&ids).expect("small");
        assert_eq!(decode_tag_block(&key, &value).expect("well formed"), ids);
    }

    #[test]
    fn a_record_of_another_version_or_with_a_cut_or_longer_value_is_an_error() {
        let record = PlantRecord { revision: 300, idempotency: None, name: "Rosa", tag: None };
        let value = encode(&record).expect("small");
        assert!(decode::<PlantRecord<'_>>(&value).is_ok());

        let other_version = [&[2], &value[1..]].concat();
        let longer = [&value[..], &[0]].concat();
        for damaged in [&other_version, &longer, &value[..value.len() - 1], &[]] {
            assert!(decode::<PlantRecord<'_>>(damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn a_sequence_number_that_no_store_gets_to_is_an_error() {
        for (first_sequence, is_right) in [
            (0, false),
            (1, true),
            (MAX_SEQUENCE, true),
            (MAX_SEQUENCE + 1, false),
            (u64::MAX, false),
        ] {
            let group = Group {
                first_sequence,
                plants_before: 0,
                digest_before: Digest::default(),
                changes: Vec::new(),
            };
            let payload = postcard::to_stdvec(&group).expect("small");
            assert_eq!(Group::decode(&payload).is_ok(), is_right, "{first_sequence}");
            let key = event_key(first_sequence);
            assert_eq!(event_sequence(&key).is_ok(), is_right, "{first_sequence}");
        }
    }

    #[test]
    fn a_record_that_breaks_the_rules_does_not_become_a_plant() {
        let record = PlantRecord { revision: 1, idempotency: None, name: "\n", tag: None };
        assert!(record.to_stored_plant(PlantId::from(7)).is_err());
    }

    #[test]
    fn a_value_that_sled_would_keep_in_a_file_of_its_own_is_refused() {
        assert!(encode(&vec![0_u8; MAX_VALUE_BYTES]).is_err());
    }
}
