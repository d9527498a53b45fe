//! Changes to a database that no repository has open, behind the back of all checksums: for tests of what a verification
//! finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use plant_domain::PlantId;

use super::block::checksum;
use super::cache::BlockCache;
use super::files::Files;
use super::keys;
use super::manifest::Manifest;
use super::merge::Merge;
use super::open::open_tables;
use super::table::{FOOTER_BYTES, Tail, block_head, footer};
use super::table_writer::TableWriter;
use crate::plant_record::whole;

/// All keys of a database, and their values.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The records of plants, by id.
pub type PlantRecords = BTreeMap<i64, Vec<u8>>;

/// Changes the entries of the database in this folder. It must have no changes in its write-ahead log alone.
pub fn edit(directory: &Path, change: impl FnOnce(&mut Entries)) {
    let files = Files::in_directory(directory, Arc::default());
    let mut manifest = files.read_manifest().expect("a manifest");
    let tables = open_tables(&files, &manifest, &BlockCache::new(0)).expect("whole tables");
    let mut entries = Entries::new();
    let mut merge = Merge::of_all(&tables);
    while let Some((key, value)) = merge.next().expect("reads") {
        if key >= keys::FIRST_POSTINGS_KEY {
            break;
        }
        let key = key.to_vec();
        entries.extend(value.map(|value| (key.clone(), value.to_vec())));
        if let Some((_, count)) = merge.tag_count().expect("reads") {
            entries.insert(key, count_value(count));
        }
    }
    change(&mut entries);

    let number = manifest.next_table;
    let file = files.create_table(number).expect("a file");
    let mut table = TableWriter::new(file, entries.len());
    for (key, value) in &entries {
        table.add(key, Some(value)).expect("writes");
    }
    let sequences = (1, manifest.totals.last_sequence);
    let (file, entry) = table.finish(number, sequences).expect("writes");
    file.finish().expect("syncs");
    manifest = Manifest { next_table: number + 1, tables: vec![entry], ..manifest };
    files.write_manifest(&manifest).expect("writes");
}

/// Changes the last block of the search index of the newest table, which the checksums then match again.
pub fn edit_postings(directory: &Path, change: impl FnOnce(&mut [u8])) {
    let files = Files::in_directory(directory, Arc::default());
    let mut manifest = files.read_manifest().expect("a manifest");
    let metadata = manifest.tables.first_mut().expect("a table");
    let path = files.table_path(metadata.number);
    let mut bytes = fs::read(&path).expect("reads");
    let tail_end = bytes.len() - FOOTER_BYTES;
    let (tail_bytes, _) = bytes[tail_end..].split_first_chunk().expect("a footer");
    let tail_bytes = usize::try_from(u64::from_le_bytes(*tail_bytes)).expect("small");
    let tail_begin = tail_end - tail_bytes;
    let old_tail = bytes.split_off(tail_begin);
    let mut tail: Tail<'_> = whole(&old_tail[..tail_bytes]).expect("a tail");
    let block = tail.blocks.last_mut().expect("a block");
    let (begin, length) = (usize::try_from(block.offset).expect("small"), block.length as usize);
    change(&mut bytes[begin..begin + length]);
    block.checksum = checksum(&bytes[begin..begin + length]);
    let head = block_head(block.length, block.checksum);
    bytes[begin - head.len()..begin].copy_from_slice(&head);
    let tail = postcard::to_stdvec(&tail).expect("encodes");
    bytes.extend([&tail[..], &footer(&tail)].concat());
    (metadata.bytes, metadata.tail_checksum) = (bytes.len() as u64, checksum(&tail));
    fs::write(path, bytes).expect("writes");
    files.write_manifest(&manifest).expect("writes");
}

/// Changes the records of the plants of the database in this folder, and not the counts of their tags.
pub fn edit_plants(directory: &Path, change: impl FnOnce(&mut PlantRecords)) {
    edit(directory, |entries| {
        let mut plants = plants_in(entries);
        change(&mut plants);
        entries.retain(|key, _| keys::plant_of(key).expect("a key").is_none());
        entries.extend(plants.into_iter().map(|(id, record)| (plant_key(id), record)));
    });
}

/// The records of the plants among these entries.
#[must_use]
pub fn plants_in(entries: &Entries) -> PlantRecords {
    let plant = |(key, record): (&Vec<u8>, &Vec<u8>)| {
        keys::plant_of(key).expect("a key").map(|id| (id.get(), record.clone()))
    };
    entries.iter().filter_map(plant).collect()
}

/// The key of a plant.
#[must_use]
pub fn plant_key(id: i64) -> Vec<u8> {
    keys::plant_key(PlantId::from(id)).to_vec()
}

/// The key of the count of a tag.
#[must_use]
pub fn count_key(tag: &str) -> Vec<u8> {
    keys::count_key(tag)
}

/// The value of the count of a tag.
#[must_use]
pub fn count_value(plants: i64) -> Vec<u8> {
    postcard::to_stdvec(&plants).expect("encodes")
}

/// The key of an event.
#[must_use]
pub fn event_key(sequence: u64) -> Vec<u8> {
    keys::event_key(sequence).to_vec()
}

/// Copies the database in this folder into a new folder, as a kill would leave it now. No change may be made meanwhile;
/// compaction may go on.
pub fn copy_as_killed(directory: &Path, to: &Path) {
    let manifest = directory.join("manifest");
    loop {
        let before = fs::read(&manifest).expect("a manifest");
        let is_copied = copy(directory, to).is_ok();
        // Otherwise compaction has replaced tables in between, and this is no copy of one moment.
        if is_copied && fs::read(&manifest).expect("a manifest") == before {
            return;
        }
        fs::remove_dir_all(to).expect("removes");
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
