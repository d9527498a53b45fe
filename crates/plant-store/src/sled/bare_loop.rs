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

/// How many plants the loop syncs at once: the plants of the largest group.
const PLANTS_IN_A_GROUP: usize = 1024;

/// A loop that writes plants into sled in the layout of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareLoop {
    /// Writes each plant and its tag into their blocks on their own, and syncs every 1,024 plants.
    OneByOne,
    /// Compacts memtables of the default size, as the store does.
    Compacting,
}

impl BareLoop {
    /// How long the loop takes for these plants, in a new folder.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn measure(
        self,
        directory: &Path,
        new_plants: impl Iterator<Item = NewPlant>,
    ) -> anyhow::Result<Duration> {
        let db = PacedDb::new(open_sled(&SledConfig::new(directory), directory)?);
        let path = directory.join("db");
        let file = File::open(&path)?;
        make_writes_synchronous(&file, &path);
        let begun = Instant::now();
        match self {
            Self::OneByOne => put_one_by_one(&db, &file, new_plants)?,
            Self::Compacting => compact_all(&db, &file, new_plants)?,
        }
        Ok(begun.elapsed())
    }
}

fn put_one_by_one(
    db: &PacedDb,
    file: &File,
    new_plants: impl Iterator<Item = NewPlant>,
) -> anyhow::Result<()> {
    let lock = BlocksLock::default();
    for (number, new_plant) in (1_u64..).zip(new_plants) {
        let record = record_of(&new_plant, number)?;
        let plant = [(new_plant.id(), Some(record.bytes()))];
        blocks::merge_into(db, &lock, PLANT_PREFIX, plant.into_iter(), || ())?;
        if let Some(tag) = new_plant.plant().tag() {
            let plant = [(new_plant.id(), Some(&[][..]))];
            blocks::merge_into(db, &lock, &tag_blocks_prefix(tag), plant.into_iter(), || ())?;
        }
        if number.is_multiple_of(PLANTS_IN_A_GROUP as u64) {
            checkpoint(db, file)?;
        }
    }
    checkpoint(db, file)
}

fn compact_all(
    db: &PacedDb,
    file: &File,
    new_plants: impl Iterator<Item = NewPlant>,
) -> anyhow::Result<()> {
    let mut manifest = Manifest::default();
    let mut new_plants = new_plants.peekable();
    while new_plants.peek().is_some() {
        let of_memtable: Vec<NewPlant> =
            new_plants.by_ref().take(DEFAULT_CHANGES_IN_MEMORY).collect();
        let group = group_of(&of_memtable, manifest)?;
        let mut memtable = Memtable::after(manifest.last_sequence);
        manifest = manifest.after(&group.changes)?;
        memtable.apply(group)?;
        manifest = compact(db, &BlocksLock::default(), &memtable, manifest, u64::MAX, || ())?;
        checkpoint(db, file)?;
    }
    Ok(())
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
