//! The readers of bytes from the disk, as the fuzz targets in `fuzz/` call them. Functions also return the decoded
//! value's bytes, encoded again, for comparison.

use std::fmt::Debug;
use std::sync::Arc;

use anyhow::Context as _;
use plant_domain::PlantId;

use super::blocks::{self, Block};
use super::bloom_filter::BloomFilter;
use super::findings::Findings;
use super::layout::{self, ChangeGroup, Manifest};
use super::ordered_map::paced::PacedDb;
use super::ordered_map::{Config, Db};
use super::reader::SledReader;
use super::recovery::{self, Replay};
use super::scan::PlantScan;
use super::tree::MergeTree;
use super::verify;
use super::write_ahead_log;
use crate::plant_record::PlantRecord;
use crate::{EventPage, Page, PageRequest, Revision, StoredPlant};

/// The record of a plant, and the plant, if the record follows the rules.
pub fn plant_record(
    bytes: &[u8],
) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug, Option<StoredPlant>)> {
    let record = PlantRecord::decode(bytes)?;
    let encoded = record.encode().expect("what was read can be written");
    let stored = record.to_stored_plant(PlantId::from(7)).ok();
    if let Some(StoredPlant { plant, revision, .. }) = &stored {
        let of_record = (record.name, record.tag, record.revision);
        assert_eq!((plant.name(), plant.tag(), revision.get()), of_record);
    }
    Ok((encoded.bytes().to_vec(), record, stored))
}

/// The record of events from number 1 on.
pub fn event_record(value: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let events = layout::decode_events(1, value)?;
    let encoded = layout::encode(&events).expect("what was read is small enough to be written");
    Ok((encoded, events))
}

/// Ids and their values.
pub type Entries = Vec<(PlantId, Vec<u8>)>;

/// A block: the least id that belongs in it, and its entries.
pub fn block(key: &[u8], value: &[u8]) -> anyhow::Result<(PlantId, Entries)> {
    let block = Block::new(prefix_of(key)?, (key.into(), value.into()))?;
    let entries = block.entries().map(|entry| entry.map(|(id, value)| (id, value.to_vec())));
    Ok((block.first, entries.collect::<anyhow::Result<_>>()?))
}

/// Blocks of these entries, as keys and values, under the key's prefix.
pub fn cut_blocks(
    key: &[u8],
    entries: &[(PlantId, Vec<u8>)],
) -> anyhow::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let prefix = prefix_of(key)?;
    let first = Block::new(prefix, (key.into(), [][..].into()))?.first;
    let entries: Vec<_> = entries.iter().map(|(id, value)| (*id, &value[..])).collect();
    blocks::cut(prefix, first, &entries, false)
}

/// The key of a block without the id at its end.
fn prefix_of(key: &[u8]) -> anyhow::Result<&[u8]> {
    let (prefix, _) = key.split_last_chunk::<8>().context("the key is too short")?;
    Ok(prefix)
}

/// The prefix of the key of a tag's block, and the prefix of the tag that was read from it.
pub fn tag_prefixes(key: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    Ok((prefix_of(key)?.to_vec(), layout::tag_blocks_prefix(layout::tag_of_key(key)?)))
}

/// A group of the write-ahead log. Fails also when the group is too large for a segment.
pub fn log_group(payload: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let group = ChangeGroup::decode(payload)?;
    if let Ok(manifest) = Manifest::default().before(&group).after(&group.changes) {
        assert_eq!(manifest.last_sequence, group.last_sequence());
    }
    Ok((write_ahead_log::payload_of(&group)?, group))
}

/// A segment of this salt with a record in the middle of other bytes.
pub fn log_segment(
    payload: &[u8],
    salt: [u8; 8],
    other: &[u8],
    at: usize,
) -> anyhow::Result<Vec<u8>> {
    let (before, behind) = other.split_at(at);
    let record = write_ahead_log::record(salt, payload)?;
    Ok([&salt, before, &record, behind].concat())
}

/// The payloads of the whole records in a segment.
pub fn whole_records(segment: &[u8]) -> Vec<&[u8]> {
    write_ahead_log::whole_records(segment)
}

/// An empty temporary sled database, removed when it is closed.
pub fn new_sled() -> anyhow::Result<Db> {
    Ok(Config::new().temporary(true).flush_every_ms(None).open()?)
}

/// A database of any entries, after recovery.
pub struct AnyDatabase {
    reader: SledReader,
    manifest: Manifest,
    /// Whether no check finds anything wrong.
    pub is_sound: bool,
}

impl AnyDatabase {
    /// Recovers the database from these entries of sled and groups of the write-ahead log; `None` when it is refused.
    pub fn recover(db: Db, groups: &[Vec<u8>]) -> Option<Self> {
        let db = PacedDb::new(db);
        let read = recovery::read(&db, groups, Replay::Unsynced, &mut Findings::Refuse);
        let manifest = read.ok()??;
        let mut findings = Findings::list();
        let is_sound = recovery::check(&db, &manifest).is_ok()
            && verify::verify(&db, Some(&manifest), &mut findings).is_ok()
            && findings.into_list().0.is_empty();
        // `check` returns no ids when something is wrong.
        let mut ids = BloomFilter::with_room_for(0);
        PlantScan::new(&db).flatten().for_each(|(id, _)| ids.add(id));
        let tree = Arc::new(MergeTree::new(Db::clone(&db), manifest, ids));
        Some(Self { reader: SledReader { tree, keep_events: 8 }, manifest, is_sound })
    }

    /// The number of plants, and of the last event.
    pub fn numbers(&self) -> (u64, u64) {
        (self.manifest.plants, self.manifest.last_sequence)
    }

    /// Like [`crate::PlantRepository::get`].
    pub fn plant(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        self.reader.plant(id)
    }

    /// Like [`crate::PlantRepository::list`].
    pub fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        self.reader.page(request)
    }

    /// Like [`crate::PlantRepository::events`].
    pub fn events(&self, after: Revision, limit: usize) -> anyhow::Result<EventPage> {
        self.reader.events(after, limit)
    }
}
