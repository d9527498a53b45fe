//! sled without the engine around it, for `cargo xtask bench` to compare imports with.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use plant_domain::NewPlant;

use super::blocks::{self, BlocksLock};
use super::compaction::{checkpoint, compact};
use super::config::{DEFAULT_CHANGES_IN_MEMORY, SledConfig};
use super::layout::{Change, ChangeGroup, Digest, Manifest, PLANT_PREFIX, tag_blocks_prefix};
use super::memtable::Memtable;
use super::ordered_map::opening::{make_writes_synchronous, open_sled};
use super::ordered_map::paced::PacedDb;
use crate::plant_record::{EncodedPlant, PlantRecord};

/// The plants of the largest group.
const PLANTS_IN_A_GROUP: u64 = 1024;

/// How long it takes to write each plant and its tag into their blocks on their own, and to sync every 1,024 plants.
pub fn one_by_one(directory: &Path, new_plants: Vec<NewPlant>) -> anyhow::Result<Duration> {
    measure(directory, |db, file| {
        let lock = BlocksLock::default();
        for (number, new_plant) in (1_u64..).zip(new_plants) {
            let record = record_of(&new_plant, number)?;
            let plant = [(new_plant.id(), Some(record.bytes()))];
            blocks::merge_into(db, &lock, PLANT_PREFIX, plant.into_iter(), || ())?;
            if let Some(tag) = new_plant.plant().tag() {
                let plant = [(new_plant.id(), Some(&[][..]))];
                blocks::merge_into(db, &lock, &tag_blocks_prefix(tag), plant.into_iter(), || ())?;
            }
            if number.is_multiple_of(PLANTS_IN_A_GROUP) {
                checkpoint(db, file)?;
            }
        }
        checkpoint(db, file)
    })
}

/// How long it takes to compact memtables of the default size, as the store does.
pub fn compacting(directory: &Path, new_plants: Vec<NewPlant>) -> anyhow::Result<Duration> {
    measure(directory, |db, file| {
        let mut manifest = Manifest::default();
        for of_memtable in new_plants.chunks(DEFAULT_CHANGES_IN_MEMORY) {
            let group = group_of(of_memtable, manifest)?;
            let mut memtable = Memtable::after(manifest.last_sequence);
            manifest = manifest.after(&group.changes)?;
            memtable.apply(group)?;
            manifest = compact(db, &BlocksLock::default(), &memtable, manifest, u64::MAX, || ())?;
            checkpoint(db, file)?;
        }
        Ok(())
    })
}

/// How long `write` takes with an empty sled in a new folder.
fn measure(
    directory: &Path,
    write: impl FnOnce(&PacedDb, &File) -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let db = PacedDb::new(open_sled(&SledConfig::new(directory), directory)?);
    let path = directory.join("db");
    let file = File::open(&path)?;
    make_writes_synchronous(&file, &path);
    let begun = Instant::now();
    write(&db, &file)?;
    Ok(begun.elapsed())
}

fn group_of(new_plants: &[NewPlant], manifest: Manifest) -> anyhow::Result<ChangeGroup> {
    let first_sequence = manifest.last_sequence + 1;
    let change = |(revision, new_plant): (u64, &NewPlant)| {
        Change::new(new_plant.id(), None, Some(record_of(new_plant, revision)?))
    };
    let changes = (first_sequence..).zip(new_plants).map(change);
    Ok(ChangeGroup {
        first_sequence,
        plants_before: manifest.plants,
        digest_before: Digest::default(),
        changes: changes.collect::<anyhow::Result<_>>()?,
    })
}

fn record_of(new_plant: &NewPlant, revision: u64) -> anyhow::Result<EncodedPlant> {
    let (name, tag) = new_plant.plant().members();
    PlantRecord { revision, idempotency: None, name, tag }.encode()
}
