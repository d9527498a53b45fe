//! The decoders of bytes from the disk, for the fuzz targets in `fuzz/`. Most also encode the decoded value again, for
//! comparison.

use std::fmt::Debug;
use std::io::Cursor;

use plant_domain::PlantId;

use super::backup::archive::{self, PieceName};
use super::backup::reader::BackupReader;
use super::commit::change::ChangeGroup;
use super::commit::write_ahead_log;
use super::manifest::Manifest;
use super::tables::{BlockBuilder, BlockCursor};
use crate::StoredPlant;
use crate::record::PlantRecord;

/// The record of a plant, and the plant, if the record follows the rules.
pub fn plant_record(
    bytes: &[u8],
) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug, Option<StoredPlant>)> {
    let record = PlantRecord::decode(bytes)?;
    let encoded = record.encode().expect("what was read can be written");
    let stored = record.to_stored_plant(PlantId::from(7)).ok();
    if let Some(StoredPlant { plant, revision, .. }) = &stored {
        assert_eq!((plant.members(), revision.get()), (record.members(), record.revision));
    }
    Ok((encoded.bytes().to_vec(), record, stored))
}

/// Keys and their values. `None` is a tombstone.
pub type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The entries of a block.
pub fn block(bytes: &[u8]) -> anyhow::Result<Entries> {
    let mut cursor = BlockCursor::new(bytes);
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
    Ok(block.take().1)
}

/// How many plants a backup with this head and these blocks has; each block comes with the number of its map. The
/// backup gets valid checksums and an end.
pub fn backup(head: &[u8], blocks: &[(u8, &[u8])]) -> anyhow::Result<u64> {
    let backup = Cursor::new(super::backup::sealed(head, blocks)?);
    let backup = BackupReader::new(backup, "the backup".to_owned())?;
    Ok(backup.verify(&|_| ())?.plants)
}

/// Decodes a manifest with this content, behind a valid checksum.
pub fn manifest(content: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let manifest = Manifest::of_content(content)?;
    Ok((manifest.content()?, manifest))
}

/// The number of groups in a piece of an archive with this content. The piece gets a valid checksum, and a name with
/// these sequence numbers.
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

/// A group of the write-ahead log. Fails if the group is too large for a segment.
pub fn log_group(payload: &[u8]) -> anyhow::Result<(Vec<u8>, impl PartialEq + Debug + use<>)> {
    let group = ChangeGroup::decode(payload)?;
    Ok((write_ahead_log::payload_of(&group)?, group))
}

/// A segment with this salt and with a record in the middle of other bytes.
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
