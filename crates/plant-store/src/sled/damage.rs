//! Changes to a closed database that leave all checksums valid, for tests of what a verification finds.

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
use crate::sled::tables::writer::TableWriter;
use crate::sled::tables::{Map, Table};

/// The entries of a map by key. `None` is a tombstone, which removes the key from older tables.
pub type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// All entries of a table.
#[derive(Clone, Debug)]
pub struct Content {
    /// The counts of tags, by tag.
    pub tags: Entries,
    /// The events by sequence number, big-endian.
    pub events: Entries,
    /// The records of the plants, by [`plant_key`].
    pub plants: Entries,
    /// The search index.
    pub search: Entries,
}

/// The contents of the tables of a database, newest first.
#[must_use]
pub fn contents(directory: &Path) -> Vec<Content> {
    let files = files(directory);
    let manifest = files.read_manifest().expect("a manifest");
    let tables = open_tables(&files, &manifest).expect("whole tables");
    let content = |table: &Arc<Table>| {
        let [tags, events, plants, search] = Map::ALL.map(|map| {
            let mut merge = Merge::new(std::slice::from_ref(table), map, &[]);
            let mut entries = Entries::new();
            while let Some((key, value)) = merge.next().expect("reads") {
                entries.insert(key.to_vec(), value.map(<[u8]>::to_vec));
            }
            entries
        });
        Content { tags, events, plants, search }
    };
    tables.iter().map(content).collect()
}

/// Changes the entries of a database that has one table and no other changes in its write-ahead log.
pub fn edit(directory: &Path, change: impl FnOnce(&mut Content)) {
    let [mut content]: [Content; 1] = contents(directory).try_into().expect("one table");
    change(&mut content);
    let Content { tags, events, plants, search } = &content;
    let files = files(directory);
    let manifest = files.read_manifest().expect("a manifest");
    let (folder, number) = (directory.join("edited"), manifest.next_table);
    let table = TableWriter::create(folder, plants.len(), files.advances());
    let mut table = table.expect("a table");
    for (map, entries) in Map::ALL.into_iter().zip([tags, events, plants, search]) {
        for (key, value) in entries {
            table.add(map, key, value.as_deref()).expect("writes");
        }
    }
    let sequences = (1, manifest.totals.last_sequence);
    let table = table.finish(sequences, plants.len() as u64).expect("writes");
    let tables = vec![files.seal(table, number).expect("seals")];
    let manifest = Manifest { next_table: number + 1, tables, ..manifest };
    files.write_manifest(&manifest).expect("writes");
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

/// Copies the database to a new folder, in the state that a kill would leave. The caller must make no changes
/// meanwhile; compaction may run.
pub fn copy_as_killed(directory: &Path, to: &Path) {
    let manifest = directory.join("manifest");
    loop {
        let before = fs::read(&manifest).expect("a manifest");
        let is_copied = copy_folder(directory, to).is_ok();
        // Otherwise compaction has replaced tables meanwhile, and the copy mixes two states.
        if is_copied && fs::read(&manifest).expect("a manifest") == before {
            return;
        }
        fs::remove_dir_all(to).expect("removes");
    }
}
