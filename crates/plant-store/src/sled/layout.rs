//! The keys and values in sled, and their bytes.
//!
//! All entries are in one sled tree, so that a kill leaves a prefix of the writes. The first byte of a key names its
//! kind:
//!
//! | key | value |
//! |---|---|
//! | `m` `format` | the [`FORMAT`] number of this layout, big-endian |
//! | `m` `journal` | the salts of the write-ahead log that belongs to this database |
//! | `m` `state` | the [`Manifest`] |
//! | `m` `synced` | the sequence number of the last event that was on disk in sled at the last checkpoint, big-endian |
//! | `p` ordered id | a block of plants: ids, and a [`PlantRecord`](crate::plant_record::PlantRecord) of each |
//! | `t` tag, zero byte, ordered id | a block of the ids that have the tag |
//! | `e` first sequence number | a record of consecutive events, a list of [`EventOfPlant`] |
//!
//! Ordered numbers are big-endian, ids with the sign bit flipped, so that numbers and bytes sort alike. A zero byte ends
//! a tag, because the rules allow no control character in one. Values are in the postcard format after a version byte.
//! [`blocks`](super::blocks) describes blocks.

use std::num::Wrapping;

use anyhow::{Context as _, bail, ensure};
use plant_domain::PlantId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::EventKind;
use crate::plant_record::{EncodedPlant, whole};

/// The number of this layout. A database with another number does not open.
pub(super) const FORMAT: u32 = 4;
pub(super) const FORMAT_KEY: &[u8] = b"mformat";
pub(super) const LOG_SALTS_KEY: &[u8] = b"mjournal";
pub(super) const MANIFEST_KEY: &[u8] = b"mstate";
pub(super) const SYNCED_KEY: &[u8] = b"msynced";

pub(super) const PLANT_PREFIX: &[u8] = b"p";
pub(super) const EVENT_PREFIX: &[u8] = b"e";
pub(super) const TAG_PREFIX: &[u8] = b"t";
const TAG_END: u8 = 0;

/// The first byte of every value of kind `p`, `t` and `e` and of the manifest.
pub(super) const VALUE_VERSION: u8 = 1;

/// The size limit of a value, in bytes. sled moves pages over a quarter of its segments (512 KiB) to files of their own,
/// which it never syncs, and up to 20 values share a page.
pub(super) const MAX_VALUE_BYTES: usize = 6 * 1024;

/// How many events a record holds; the newest record may have fewer. Sequence numbers begin at 1, so a number tells the
/// record, and writing a record again changes nothing.
pub(super) const EVENTS_IN_A_RECORD: u64 = 256;

/// The greatest valid sequence number. No store reaches it, and sums with it do not overflow.
const MAX_SEQUENCE: u64 = u64::MAX / 4;

/// What the database holds as of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) last_sequence: u64,
    pub(super) plants: u64,
    pub(super) digest: Digest,
    /// The first kept event. Records of older events may remain.
    pub(super) kept_from: u64,
}

impl Default for Manifest {
    fn default() -> Self {
        Self { last_sequence: 0, plants: 0, digest: Digest::default(), kept_from: 1 }
    }
}

impl Manifest {
    pub(super) fn before(&self, group: &ChangeGroup) -> Self {
        Self {
            last_sequence: group.first_sequence - 1,
            plants: group.plants_before,
            digest: group.digest_before,
            ..*self
        }
    }

    pub(super) fn after(&self, changes: &[Change]) -> anyhow::Result<Self> {
        let Self { mut plants, mut digest, .. } = *self;
        for change in changes {
            plants = match change.kind {
                EventKind::Created => plants.checked_add(1),
                EventKind::Updated => Some(plants),
                EventKind::Deleted => plants.checked_sub(1),
            }
            .context("the count of plants is wrong")?;
            digest += change.digest;
        }
        let last_sequence = self.last_sequence + changes.len() as u64;
        Ok(Self { last_sequence, plants, digest, ..*self })
    }
}

/// The sum of the hashes of entries, which does not depend on their order. Digests of different entries are equal with a
/// chance of one in 2^64; they do not guard against an attacker.
pub(super) type Digest = Wrapping<u64>;

/// The digest of one entry: an id with the record of the plant, or with its tag.
pub(super) fn digest(id: PlantId, value: &[u8]) -> Digest {
    hash(&ordered(id), value)
}

/// Digests are on disk, so the hash must never change.
fn hash(key: &[u8], value: &[u8]) -> Digest {
    Wrapping(xxh3_64_with_seed(value, xxh3_64(key)))
}

/// A change as an event record keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventOfPlant {
    pub(super) kind: EventKind,
    pub(super) id: i64,
}

/// The changes of one group as the write-ahead log keeps them: enough to apply the group again.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ChangeGroup {
    /// The sequence number of the first change's event. Those of the other changes follow without a gap.
    pub(super) first_sequence: u64,
    pub(super) plants_before: u64,
    pub(super) digest_before: Digest,
    pub(super) changes: Vec<Change>,
}

impl ChangeGroup {
    pub(super) fn decode(payload: &[u8]) -> anyhow::Result<Self> {
        let group: Self = whole(payload).context("a record of the write-ahead log is damaged")?;
        ensure!(
            (1..=MAX_SEQUENCE).contains(&group.first_sequence),
            "a record of the write-ahead log begins with the impossible number {}",
            group.first_sequence
        );
        Ok(group)
    }

    pub(super) fn last_sequence(&self) -> u64 {
        (self.first_sequence + self.changes.len() as u64).saturating_sub(1)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) kind: EventKind,
    pub(super) id: i64,
    /// The tag that the plant has lost.
    pub(super) left_tag: Option<Box<str>>,
    /// What the change adds to the digest of all plants: the plant after it, less the plant before. Kept because the
    /// plant before may be gone when the group is applied again.
    pub(super) digest: Digest,
    /// The plant after the change; `None` when it was deleted.
    pub(super) record: Option<EncodedPlant>,
}

impl Change {
    /// The change from one state of a plant to a different one.
    pub(super) fn new(
        id: PlantId,
        before: Option<&EncodedPlant>,
        after: Option<EncodedPlant>,
    ) -> anyhow::Result<Self> {
        let kind = match (before, &after) {
            (None, None) => bail!("a change of plant {id} that changes nothing"),
            (None, Some(_)) => EventKind::Created,
            (Some(_), Some(_)) => EventKind::Updated,
            (Some(_), None) => EventKind::Deleted,
        };
        let left_tag = match before {
            None => None,
            Some(before) => {
                let after = after.as_ref().map(EncodedPlant::decode).transpose()?;
                let tag = after.and_then(|after| after.tag);
                before.decode()?.tag.filter(|left| Some(*left) != tag).map(Box::from)
            }
        };
        let digest_of = |record: Option<&EncodedPlant>| {
            record.map_or_else(Digest::default, |record| digest(id, record.bytes()))
        };
        let digest = digest_of(after.as_ref()) - digest_of(before);
        Ok(Self { kind, id: id.get(), left_tag, digest, record: after })
    }

    pub(super) const fn event(&self) -> EventOfPlant {
        EventOfPlant { kind: self.kind, id: self.id }
    }
}

pub(super) fn event_key(sequence: u64) -> [u8; 9] {
    let mut key = [EVENT_PREFIX[0]; 9];
    key[1..].copy_from_slice(&first_of_record(sequence).to_be_bytes());
    key
}

/// The sequence number of the first event in the record that holds an event.
pub(super) const fn first_of_record(sequence: u64) -> u64 {
    sequence - (sequence - 1) % EVENTS_IN_A_RECORD
}

pub(super) fn event_sequence(key: &[u8]) -> anyhow::Result<u64> {
    let bytes = key.strip_prefix(EVENT_PREFIX).context("not the key of an event record")?;
    let bytes = bytes.try_into().context("an event record's key has a wrong length")?;
    let first_sequence = u64::from_be_bytes(bytes);
    ensure!(
        (1..=MAX_SEQUENCE).contains(&first_sequence)
            && first_of_record(first_sequence) == first_sequence,
        "an event record begins with the impossible number {first_sequence}"
    );
    Ok(first_sequence)
}

pub(super) fn decode_events(
    first_sequence: u64,
    value: &[u8],
) -> anyhow::Result<Vec<EventOfPlant>> {
    let decoded = decode(value).and_then(|events: Vec<EventOfPlant>| {
        let count = events.len() as u64;
        ensure!((1..=EVENTS_IN_A_RECORD).contains(&count), "it has {count} events");
        Ok(events)
    });
    decoded.with_context(|| format!("the event record from number {first_sequence} on is damaged"))
}

pub(super) fn tag_blocks_prefix(tag: &str) -> Vec<u8> {
    [TAG_PREFIX, tag.as_bytes(), &[TAG_END]].concat()
}

/// The tag in the key of a block of ids.
pub(super) fn tag_of_key(key: &[u8]) -> anyhow::Result<&str> {
    let tag = key.strip_prefix(TAG_PREFIX).and_then(<[u8]>::split_last_chunk::<8>);
    let tag = tag.and_then(|(tag, _)| tag.strip_suffix(&[TAG_END]));
    let tag = tag.context("the key of a tag's block has no end of the tag")?;
    std::str::from_utf8(tag).context("the key of a tag's block is no text")
}

pub(super) fn encode(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let bytes = postcard::to_extend(value, vec![VALUE_VERSION])?;
    ensure!(bytes.len() <= MAX_VALUE_BYTES, "a value of {} bytes is too large", bytes.len());
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(value: &[u8]) -> anyhow::Result<T> {
    whole(unversioned(value)?)
}

pub(super) fn unversioned(value: &[u8]) -> anyhow::Result<&[u8]> {
    match value {
        [VALUE_VERSION, bytes @ ..] => Ok(bytes),
        [version, ..] => bail!("a value has the unknown version {version}"),
        [] => bail!("a value is empty"),
    }
}

/// The bytes of an id, which sort as ids do.
pub(super) fn ordered(id: PlantId) -> [u8; 8] {
    (id.get().cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

pub(super) fn from_ordered(bytes: [u8; 8]) -> PlantId {
    PlantId::from((u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_version_or_with_a_cut_or_longer_end_is_an_error() {
        let manifest = Manifest { last_sequence: 300, plants: 200, ..Manifest::default() };
        let value = encode(&manifest).expect("small");
        assert_eq!(decode::<Manifest>(&value).expect("it was encoded"), manifest);

        let other_version = [&[2], &value[1..]].concat();
        let longer = [&value[..], &[0]].concat();
        for damaged in [&other_version, &longer, &value[..value.len() - 1], &[]] {
            assert!(decode::<Manifest>(damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn the_digest_of_an_entry_is_the_same_in_every_version() {
        // XXH3 has a path for each range of lengths.
        for (length, digest) in [
            (0, 3_631_226_311_945_554_131),
            (3, 11_029_246_363_082_579_538),
            (100, 1_989_054_143_599_635_995),
            (1_000, 10_415_174_115_763_034_001),
        ] {
            assert_eq!(hash(b"key", &vec![7; length]), Wrapping(digest), "{length}");
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
            let group = ChangeGroup {
                first_sequence,
                plants_before: 0,
                digest_before: Digest::default(),
                changes: Vec::new(),
            };
            let payload = postcard::to_stdvec(&group).expect("small");
            assert_eq!(ChangeGroup::decode(&payload).is_ok(), is_right, "{first_sequence}");
        }
    }

    #[test]
    fn each_event_has_its_place_in_one_record() {
        for (sequence, first) in [(1, 1), (2, 1), (256, 1), (257, 257), (512, 257), (513, 513)] {
            assert_eq!(first_of_record(sequence), first, "{sequence}");
            assert_eq!(event_sequence(&event_key(sequence)).expect("its key"), first);
        }
        let mut no_first = event_key(257);
        no_first[8] += 1;
        assert!(event_sequence(&no_first).is_err());
    }

    #[test]
    fn a_value_over_the_size_limit_is_refused_and_a_full_event_record_is_within() {
        assert!(encode(&vec![0_u8; MAX_VALUE_BYTES]).is_err());
        let event = EventOfPlant { kind: EventKind::Deleted, id: i64::MIN };
        let events = vec![event; usize::try_from(EVENTS_IN_A_RECORD).expect("small")];
        assert!(encode(&events).is_ok());
    }
}
