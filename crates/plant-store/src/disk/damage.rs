//! Changes to a database that no repository has open, behind the back of all checksums: for tests of what a verification
//! finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use plant_domain::PlantId;

use super::cache::BlockCache;
use super::files::Files;
use super::keys;
use super::manifest::Manifest;
use super::merge::Merge;
use super::open::open_tables;
use super::table_writer::TableWriter;

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
        entries.extend(value.map(|value| (key.to_vec(), value.to_vec())));
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

/// Changes the records of the plants of the database in this folder, and not the index of their tags.
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

/// The key of a plant in the index of its tag.
#[must_use]
pub fn tag_key(tag: &str, id: i64) -> Vec<u8> {
    keys::tag_key(tag, PlantId::from(id))
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
