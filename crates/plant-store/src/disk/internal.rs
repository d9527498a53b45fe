//! The readers of bytes from the disk, as the fuzz targets in `fuzz/` call them. Functions also return the decoded
//! value's bytes, encoded again, for comparison.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use plant_domain::{PlantFilter, PlantId};

use super::archive::{self, PieceName};
use super::block::{BlockBuilder, BlockCursor};
use super::cache::BlockCache;
use super::change::{ChangeGroup, EventOfPlant, Totals};
use super::event_log::EventLog;
use super::findings::Findings;
use super::keys;
use super::manifest::Manifest;
use super::merge::{Merge, Tables};
use super::open::{IN_MEMORY, in_memory};
use super::reader::DiskReader;
use super::recovery;
use super::search::{Search, Step};
use super::table::{Content, Table, footer};
use super::table_writer::TableWriter;
use super::tree::{MergeTree, with_newest};
use super::verify;
use super::write_ahead_log;
use crate::plant_record::{PlantRecord, whole};
use crate::{EventCursor, EventPage, EventRetention, EventsAfter, Page, PageRequest, StoredPlant};

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

/// An event.
pub fn event(value: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let event = EventOfPlant::decode(value)?;
    Ok((postcard::to_stdvec(&event)?, event))
}

/// Keys, and their values; `None` removes a key.
pub type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The entries of a block.
pub fn block(bytes: &[u8]) -> anyhow::Result<Entries> {
    let mut cursor = BlockCursor::new(bytes.into());
    let mut entries = Entries::new();
    while cursor.advance()? {
        entries.push((cursor.key().to_vec(), cursor.value().map(<[u8]>::to_vec)));
    }
    Ok(entries)
}

/// A block of these entries.
pub fn block_of(entries: &Entries) -> anyhow::Result<Vec<u8>> {
    let mut block = BlockBuilder::default();
    for (key, value) in entries {
        block.add(key, value.as_deref())?;
    }
    Ok(block.bytes().to_vec())
}

/// Reads what a key names, if it is of a known kind.
pub fn key(key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    if let Some(sequence) = keys::event_of(key)? {
        return Ok(Some(keys::event_key(sequence).to_vec()));
    }
    if let Some(id) = keys::plant_of(key)? {
        return Ok(Some(keys::plant_key(id).to_vec()));
    }
    Ok(keys::counted_tag(key)?.map(keys::count_key))
}

/// How many entries a table of these blocks and this tail has. The table gets the right checksum of its tail.
pub fn table(blocks: &[u8], tail: &[u8]) -> anyhow::Result<usize> {
    let content = Content::Memory([blocks, tail, &footer(tail)].concat());
    let table = Arc::new(Table::open(1, content, None, BlockCache::new(0))?);
    drop(table.get(b"p"));
    drop(table.plant(PlantId::MIN));
    let filter = PlantFilter::new(Some("ros"), Some("R".to_owned()))?;
    let search = |mut search: Search<'_>| -> anyhow::Result<()> {
        while !matches!(search.next(&mut 0)?, Step::End) {}
        Ok(())
    };
    let tables: Tables = [Arc::clone(&table)].into();
    drop(search(Search::new(&filter, PlantId::MIN, &tables, &Vec::new())));
    let mut entries = Merge::of_all(&[table]);
    let mut read = 0;
    while entries.next()?.is_some() {
        read += 1;
    }
    Ok(read)
}

/// A manifest with this content, which gets the right checksum.
pub fn manifest(content: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let manifest = Manifest::of_content(content)?;
    Ok((manifest.content()?, manifest))
}

/// A piece of an archive with this content, which gets the right checksum, and with the changes that the name of its file
/// says. Returns how many groups it has.
pub fn archive_piece(
    content: &[u8],
    first_sequence: u64,
    last_sequence: u64,
) -> anyhow::Result<usize> {
    let name = PieceName { event_log: 7, first_sequence, last_sequence };
    let groups = archive::groups_in(name, content)?;
    let last = groups.last().map_or(first_sequence - 1, ChangeGroup::last_sequence);
    assert_eq!(last, last_sequence, "the groups end where the name says");
    Ok(groups.len())
}

/// A group of the write-ahead log. Fails also when the group is too large for a segment.
pub fn log_group(payload: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let group = ChangeGroup::decode(payload)?;
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

/// The entries of a table.
pub type TableEntries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A database of any entries, after recovery.
pub struct AnyDatabase {
    reader: DiskReader,
    events: EventLog,
    totals: Totals,
    /// Whether no check finds anything wrong.
    pub is_sound: bool,
}

impl AnyDatabase {
    /// Recovers the database from tables, newest first, that add up to `totals`, and groups of the write-ahead log;
    /// `None` when it is refused.
    pub fn recover(totals: &[u8], tables: &[TableEntries], groups: &[Vec<u8>]) -> Option<Self> {
        let in_tables: Totals = whole(totals).ok()?;
        let cache = BlockCache::new(0);
        let table_of = |number, entries: &TableEntries| {
            let mut table = TableWriter::new(Vec::new(), entries.len());
            for (key, value) in entries {
                table.add(key, value.as_deref()).ok()?;
            }
            let (bytes, entry) = table.finish(number, (1, 1)).expect("memory takes it");
            let content = Content::Memory(bytes);
            let table = Table::open(number, content, Some(&entry), Arc::clone(&cache));
            Some(Arc::new(table.expect("it was written")))
        };
        let tables = (1..).zip(tables).map(|(number, entries)| table_of(number, entries));
        let mut tables: Tables = tables.collect::<Option<_>>()?;
        let groups: anyhow::Result<_> =
            groups.iter().map(|payload| ChangeGroup::decode(payload)).collect();
        let replayed = recovery::replay(Some(in_tables), groups.ok()?, &mut Findings::Refuse);
        let (memtables, totals) = replayed.ok()?;
        for (number, memtable) in IN_MEMORY.zip(&memtables) {
            let newest = in_memory(number, memtable, totals, &cache).expect("it can be written");
            tables = with_newest(&tables, newest);
        }
        let mut findings = Findings::list();
        let is_sound = verify::verify(&tables, Some(&totals), &mut findings, &|_| ()).is_ok()
            && findings.into_list().0.is_empty();
        let tree = Arc::new(MergeTree::new(tables, totals));
        let retention = EventRetention::new(8, Duration::ZERO);
        let events = EventLog { tree: Arc::clone(&tree), id: 7, retention };
        Some(Self {
            reader: DiskReader { tree, plants_scanned_first: 1 },
            events,
            totals,
            is_sound,
        })
    }

    /// The number of plants, and of the last event.
    pub fn numbers(&self) -> (u64, u64) {
        (self.totals.plants, self.totals.last_sequence)
    }

    /// Like [`crate::PlantRepository::get`].
    pub fn plant(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        self.reader.plant(id)
    }

    /// Like [`crate::PlantRepository::count`].
    pub fn count(&self, tag: &str) -> anyhow::Result<u64> {
        self.reader.count_with_tag(tag)
    }

    /// Like [`crate::PlantRepository::list`].
    pub fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        self.reader.page(request)
    }

    /// The events after a sequence number, or, without one, the oldest that are kept; `None` when they are gone.
    pub fn events(&self, after: Option<u64>, limit: usize) -> anyhow::Result<Option<EventPage>> {
        match after {
            Some(after) => {
                let begin = EventCursor { revision: after.into(), log: 0 };
                self.events.page_from(after.saturating_add(1), begin, limit)
            }
            None => self.events.page(EventsAfter::Oldest, limit),
        }
    }
}
