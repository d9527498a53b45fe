//! Changes to a database that no repository has open, behind the back of all checksums: for tests of what a verification
//! finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use plant_domain::PlantId;

use crate::sled::compaction::merge::Merge;
use crate::sled::files::Files;
use crate::sled::health::inspection;
use crate::sled::keys;
use crate::sled::manifest::Manifest;
use crate::sled::open::open_tables;
use crate::sled::tables::writer::TableWriter;
use crate::sled::tables::{EntrySink, Level as _, Map, Table};

/// Keys, and their values.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// All entries of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The counts of tags, by tag.
    pub tags: Entries,
    /// The events, by [`event_key`].
    pub events: Entries,
    /// The records of the plants, by [`plant_key`].
    pub plants: Entries,
}

/// Changes the entries of the database in this folder. It must have no changes in its write-ahead log alone.
pub fn edit(directory: &Path, change: impl FnOnce(&mut Content)) {
    let files = files(directory);
    let manifest = files.read_manifest().expect("a manifest");
    let tables = open_tables(&files, &manifest).expect("whole tables");
    let mut content = Content::default();
    let mut counts = Merge::new(&tables, Map::Tags, &[]);
    while let Some((tag, count)) = counts.next_count().expect("reads") {
        content.tags.insert(tag.into(), count_value(count));
    }
    for (map, entries) in [(Map::Events, &mut content.events), (Map::Plants, &mut content.plants)] {
        let mut merge = Merge::new(&tables, map, &[]);
        while let Some((key, value)) = merge.next().expect("reads") {
            entries.extend(value.map(|value| (key.to_vec(), value.to_vec())));
        }
    }
    drop(tables);
    change(&mut content);

    let number = manifest.next_table;
    let plants = content.plants.len();
    let mut table = files.create_table(number, plants, files.advances()).expect("a table");
    let Content { tags, events, plants } = &content;
    for (map, entries) in [(Map::Tags, tags), (Map::Events, events), (Map::Plants, plants)] {
        for (key, value) in entries {
            table.add(map, key, Some(value)).expect("writes");
        }
    }
    let table = table.finish((1, manifest.totals.last_sequence)).expect("writes");
    let metadata = files.seal(table, number).expect("seals");
    let manifest = Manifest { next_table: number + 1, tables: vec![metadata], ..manifest };
    files.write_manifest(&manifest).expect("writes");
}

/// Changes the last postings of the search index of the newest table.
pub fn edit_postings(directory: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let files = files(directory);
    let mut manifest = files.read_manifest().expect("a manifest");
    let newest = manifest.tables.first_mut().expect("a table");
    let table = Arc::new(files.open_table(*newest).expect("opens"));
    let mut index = entries_of(&table, Map::Search);
    // The outline is the last entry.
    let (_, postings) = index.iter_mut().nth_back(1).expect("postings");
    change(postings.as_mut().expect("a value"));
    let number = manifest.next_table;
    let (folder, advances) = (directory.join("edited"), files.advances());
    let plant_entries = table.summary.plant_entries;
    let plants = usize::try_from(plant_entries).expect("small");
    let mut edited = TableWriter::create(folder, plants, advances).expect("a table");
    for map in Map::COPIED {
        for (key, value) in entries_of(&table, map) {
            edited.add(map, &key, value.as_deref()).expect("writes");
        }
    }
    for (key, value) in index {
        edited.add(Map::Search, &key, value.as_deref()).expect("writes");
    }
    let edited = edited.finish(table.summary.sequences, plant_entries).expect("writes");
    *newest = files.seal(edited, number).expect("seals");
    manifest.next_table += 1;
    files.write_manifest(&manifest).expect("writes");
}

fn entries_of(table: &Arc<Table>, map: Map) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let mut entries = Arc::clone(table).entries(map, &[]);
    let mut all = BTreeMap::new();
    while entries.advance().expect("reads") {
        let (key, value) = entries.entry().expect("an entry");
        all.insert(key.to_vec(), value.map(<[u8]>::to_vec));
    }
    all
}

fn files(directory: &Path) -> Files {
    Files::in_directory(directory, 0, Arc::default())
}

/// The key of a plant.
#[must_use]
pub fn plant_key(id: i64) -> Vec<u8> {
    keys::plant_key(PlantId::from(id)).to_vec()
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
        let is_copied = copy_folder(directory, to).is_ok();
        // Otherwise compaction has replaced tables in between, and this is no copy of one moment.
        if is_copied && fs::read(&manifest).expect("a manifest") == before {
            return;
        }
        fs::remove_dir_all(to).expect("removes");
    }
}

/// Copies the files in a folder and in the folders in it into a folder, which is made if it is missing.
///
/// # Errors
///
/// When a file cannot be read or written, such as one that is removed meanwhile.
pub fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    inspection::copy_folder(from, to)
}
