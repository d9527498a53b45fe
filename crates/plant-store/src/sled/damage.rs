//! Changes to a database that no repository has open, behind the back of all checksums: for tests of what a verification
//! finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use plant_domain::PlantId;

use crate::sled::compaction::merge::Merge;
use crate::sled::files::Files;
use crate::sled::health::inspection::copy_folder;
use crate::sled::keys;
use crate::sled::manifest::Manifest;
use crate::sled::open::open_tables;
use crate::sled::tables::seal::Unsealed;
use crate::sled::tables::writer::TableWriter;
use crate::sled::tables::{EntrySink as _, Map};

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
    replace_tables(&files, manifest, table);
}

fn replace_tables(files: &Files, manifest: Manifest, table: Unsealed) {
    let number = manifest.next_table;
    let metadata = files.seal(table, number).expect("seals");
    let manifest = Manifest { next_table: number + 1, tables: vec![metadata], ..manifest };
    files.write_manifest(&manifest).expect("writes");
}

/// Changes the last postings of the search index of a database with one table.
pub fn edit_postings(directory: &Path, change: impl Fn(&mut Vec<u8>)) {
    let files = files(directory);
    let manifest = files.read_manifest().expect("a manifest");
    let tables = open_tables(&files, &manifest).expect("whole tables");
    let summary = &tables[0].summary;
    let (folder, advances) = (directory.join("edited"), files.advances());
    let plants = usize::try_from(summary.plant_entries).expect("small");
    let mut edited = TableWriter::create(folder, plants, advances).expect("a table");
    for map in Map::ALL {
        let mut entries: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        let mut all = Merge::new(&tables, map, &[]);
        while let Some((key, value)) = all.next().expect("reads") {
            entries.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        }
        if map == Map::Search {
            // The outline is the last entry of the index.
            let (_, postings) = entries.iter_mut().nth_back(1).expect("postings");
            change(postings.as_mut().expect("a value"));
        }
        for (key, value) in entries {
            edited.add(map, &key, value.as_deref()).expect("writes");
        }
    }
    let edited = edited.finish(summary.sequences, summary.plant_entries).expect("writes");
    replace_tables(&files, manifest, edited);
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
