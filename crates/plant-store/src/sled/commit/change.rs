//! The changes of a group, as the write-ahead log stores them, and the running totals.

use std::num::Wrapping;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::event::{MAX_AT_MS, to_millis};
use crate::format::{Format, whole};
use crate::record::{EncodedPlant, PlantRecord};
use crate::sled::keys::{MAX_SEQUENCE, plant_key};
use crate::{Author, EventKind, IdempotencyDigest};

const GROUP: Format = Format { name: "a record of the write-ahead log", oldest: 1, newest: 2 };

/// Running totals: the sum of all changes up to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// The sequence number of that event; 0 before the first one.
    pub(crate) last_sequence: u64,
    /// The time of that event, in milliseconds since 1970.
    pub(crate) last_at_ms: u64,
    pub(crate) plants: u64,
    /// The sum of the digests of all plants.
    pub(crate) digest: Digest,
    /// All events from this number on are stored.
    pub(crate) stored_from: u64,
    /// Older events from this number on are stored too, for histories alone: a restore began the log of events anew.
    #[serde(skip)]
    pub(crate) history_from: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let digest = Digest::default();
        let (stored_from, history_from) = (1, 1);
        Self { last_sequence: 0, last_at_ms: 0, plants: 0, digest, stored_from, history_from }
    }
}

impl Totals {
    /// Fails if no store can reach these sequence numbers or this time.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Self { last_sequence, last_at_ms, stored_from, history_from, .. } = *self;
        check_time(last_at_ms)?;
        ensure!(
            last_sequence <= MAX_SEQUENCE
                && (1..=last_sequence + 1).contains(&stored_from)
                && (1..=stored_from).contains(&history_from),
            "its events are kept from numbers {history_from} and {stored_from} on, and the last is {last_sequence}"
        );
        Ok(())
    }

    /// The totals once the log of events begins with this event. Events from before a restore are kept until the first
    /// event after the restore is forgotten.
    pub(crate) fn forgetting_before(self, stored_from: u64) -> Self {
        let is_forgetful = stored_from > self.stored_from;
        let history_from = if is_forgetful { stored_from } else { self.history_from };
        Self { stored_from, history_from, ..self }
    }

    pub(crate) fn after(&self, group: &ChangeGroup) -> anyhow::Result<Self> {
        let Self { mut plants, mut digest, .. } = *self;
        for change in &group.changes {
            plants = match change.kind {
                EventKind::Created => plants.checked_add(1),
                EventKind::Updated => Some(plants),
                EventKind::Deleted => plants.checked_sub(1),
            }
            .context("the count of plants is wrong")?;
            digest += change.digest;
        }
        let last_sequence = self.last_sequence + group.changes.len() as u64;
        Ok(Self { last_sequence, last_at_ms: group.at_ms, plants, digest, ..*self })
    }
}

pub(crate) fn check_time(at_ms: u64) -> anyhow::Result<()> {
    ensure!(at_ms <= MAX_AT_MS, "{at_ms} milliseconds since 1970 are no time that a store writes");
    Ok(())
}

/// The sum of the hashes of entries, in any order. Digests of different entries are equal with a probability of 2^-64;
/// they are no protection against an attacker.
pub(crate) type Digest = Wrapping<u64>;

/// The digest of one entry: an id with the record of the plant, or with its tag.
pub(crate) fn digest(id: PlantId, value: &[u8]) -> Digest {
    hash(&plant_key(id), value)
}

/// Digests are on disk, so the hash must never change.
fn hash(key: &[u8], value: &[u8]) -> Digest {
    Wrapping(xxh3_64_with_seed(value, xxh3_64(key)))
}

/// The changes of one group, as the write-ahead log stores them: enough to replay the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeGroup {
    /// The sequence number of the first change. Those of the other changes follow without a gap.
    pub(crate) first_sequence: u64,
    pub(crate) plants_before: u64,
    pub(crate) digest_before: Digest,
    /// When the group was decided, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) changes: Vec<Change>,
    /// The results of the batches with an idempotency key.
    #[serde(skip)]
    pub(crate) batches: Vec<BatchResults>,
}

/// The results of a batch, for its retries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchResults {
    pub(crate) digest: [u8; IdempotencyDigest::BYTES],
    /// The sequence number of the last event of the batch, with which the results are forgotten.
    pub(crate) sequence: u64,
    /// The encoded [results](crate::StoredResult).
    pub(crate) results: Vec<u8>,
}

impl ChangeGroup {
    /// An empty group of this moment that follows these totals.
    pub(crate) fn after(totals: &Totals, capacity: usize) -> Self {
        Self {
            first_sequence: totals.last_sequence + 1,
            plants_before: totals.plants,
            digest_before: totals.digest,
            at_ms: to_millis(SystemTime::now()),
            changes: Vec::with_capacity(capacity),
            batches: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        /// The usual size of a change, in bytes.
        const CHANGE_BYTES: usize = 96;
        let origins: Vec<_> = self.changes.iter().map(|change| &change.origin).collect();
        GROUP.encode(&(self, origins, &self.batches), CHANGE_BYTES * (1 + self.changes.len()))
    }

    pub(crate) fn decode(payload: &[u8]) -> anyhow::Result<Self> {
        let group =
            Self::of_payload(payload).context("a record of the write-ahead log is damaged")?;
        ensure!(
            (1..=MAX_SEQUENCE).contains(&group.first_sequence),
            "a record of the write-ahead log begins with the impossible number {}",
            group.first_sequence
        );
        check_time(group.at_ms).context("a record of the write-ahead log is damaged")?;
        Ok(group)
    }

    fn of_payload(payload: &[u8]) -> anyhow::Result<Self> {
        let content = match GROUP.version_of(payload)? {
            (1, content) => return whole(content),
            (_, content) => content,
        };
        let (mut group, origins, batches): (Self, Vec<Origin>, _) = whole(content)?;
        ensure!(origins.len() == group.changes.len(), "the origins of its changes are missing");
        for (change, origin) in group.changes.iter_mut().zip(origins) {
            change.origin = origin;
        }
        group.batches = batches;
        Ok(group)
    }

    /// The totals before this group, as far as the group knows them: all events count as stored, and the time of the
    /// last one is 0.
    pub(crate) fn totals_before(&self) -> Totals {
        Totals {
            last_sequence: self.first_sequence - 1,
            last_at_ms: 0,
            plants: self.plants_before,
            digest: self.digest_before,
            ..Totals::default()
        }
    }

    /// Whether this is the next group after these totals.
    pub(crate) fn follows(&self, totals: &Totals) -> bool {
        let Totals { last_sequence, plants, digest, .. } = *totals;
        (self.first_sequence, self.plants_before, self.digest_before)
            == (last_sequence + 1, plants, digest)
    }

    pub(crate) fn last_sequence(&self) -> u64 {
        (self.first_sequence + self.changes.len() as u64).saturating_sub(1)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) kind: EventKind,
    pub(crate) id: i64,
    pub(crate) tag_before: Option<Box<str>>,
    /// The digest of the plant after the change, less the digest of the plant before.
    pub(crate) digest: Digest,
    /// The plant after the change; `None` when it was deleted.
    pub(crate) record: Option<EncodedPlant>,
    #[serde(skip)]
    pub(crate) origin: Origin,
}

/// Where a change comes from. Version 1 of a group does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The author of the change.
    pub(crate) by: Option<Author>,
    /// The plant before the change.
    pub(crate) before: Option<EncodedPlant>,
}

impl Change {
    /// A change of a plant. `tag_before` is the tag before.
    pub(crate) fn new(
        kind: EventKind,
        id: PlantId,
        origin: Origin,
        tag_before: Option<Box<str>>,
        after: Option<EncodedPlant>,
    ) -> Self {
        let digest_of = |record: Option<&EncodedPlant>| {
            record.map_or_else(Digest::default, |record| digest(id, record.bytes()))
        };
        let digest = digest_of(after.as_ref()) - digest_of(origin.before.as_ref());
        Self { kind, id: id.get(), tag_before, digest, record: after, origin }
    }

    /// The plant after the change; `None` when it was deleted.
    pub(crate) fn plant(&self) -> anyhow::Result<Option<PlantRecord<'_>>> {
        self.record.as_ref().map(EncodedPlant::decode).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_an_entry_is_the_same_in_every_version() {
        // XXH3 hashes each range of lengths in its own way.
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
    fn a_sequence_number_that_no_store_can_reach_is_an_error() {
        for (first_sequence, is_right) in [
            (0, false),
            (1, true),
            (MAX_SEQUENCE, true),
            (MAX_SEQUENCE + 1, false),
            (u64::MAX, false),
        ] {
            let group = ChangeGroup { first_sequence, ..ChangeGroup::after(&Totals::default(), 0) };
            let payload = group.encode().expect("small");
            assert_eq!(ChangeGroup::decode(&payload).is_ok(), is_right, "{first_sequence}");
        }
    }
}
