//! What benchmarks measure of the insides: the steps of a commit without the threads, and
//! sled without anything around it.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use plant_domain::NewPlant;

use super::blocks::{self, BlocksLock};
use super::config::SledConfig;
use super::digest::PlantsDigest;
use super::fold::{checkpoint, fold};
use super::generation::Generation;
use super::journal;
use super::layout::{Change, ChangeGroup, PLANT_PREFIX, State, tag_blocks_prefix};
use super::ordered_map::engine;
use super::ordered_map::engine::make_writes_synchronous;
use super::ordered_map::paced::PacedDb;
use crate::plant_record::{EncodedPlant, PlantRecord};

/// How many plants the bare loop brings to the disk at once: as many as an import brings in one group.
const PLANTS_IN_A_GROUP: usize = 1024;

/// The record of a plant as it is kept, in bytes.
///
/// # Errors
///
/// When it cannot be encoded, which nobody has seen yet.
pub fn encode_record(new_plant: &NewPlant) -> anyhow::Result<usize> {
    Ok(record_of(new_plant, 1)?.bytes().len())
}

/// A group of creates, from its plants to what is written to the journal, in bytes.
///
/// # Errors
///
/// As [`encode_record`], and when the group is too large.
pub fn encode_group(new_plants: &[NewPlant]) -> anyhow::Result<usize> {
    Ok(journal::JournalRecord::new(&group_of(new_plants, State::default())?)?.bytes())
}

/// Shows a group of creates to readers: puts it into a generation. Returns how many plants that has.
///
/// # Errors
///
/// As [`encode_record`].
pub fn show_group(new_plants: &[NewPlant]) -> anyhow::Result<usize> {
    let mut generation = Generation::behind(0);
    generation.apply(group_of(new_plants, State::default())?)?;
    Ok(generation.plants.len())
}

/// A bare loop that puts plants into sled in the layout of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareLoop {
    /// Plant by plant, each put into its block, and the tag of each into its own; 1,024 of them are flushed and
    /// synced together.
    OneByOne,
    /// As a store does it: as many as gather in memory at most, in order.
    Folding,
}

impl BareLoop {
    /// How long it takes for these plants, in a new folder.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn measure(
        self,
        directory: &Path,
        new_plants: impl Iterator<Item = NewPlant>,
    ) -> anyhow::Result<Duration> {
        let db = PacedDb::new(engine::open_sled(&SledConfig::new(directory), directory)?);
        let path = directory.join("db");
        let file = File::open(&path)?;
        make_writes_synchronous(&file, &path);
        let begun = Instant::now();
        match self {
            Self::OneByOne => put_one_by_one(&db, &file, new_plants)?,
            Self::Folding => fold_all(&db, &file, new_plants)?,
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
        blocks::fold(db, &lock, PLANT_PREFIX, plant.into_iter(), || ())?;
        if let Some(tag) = new_plant.plant().tag() {
            let plant = [(new_plant.id(), Some(&[][..]))];
            blocks::fold(db, &lock, &tag_blocks_prefix(tag), plant.into_iter(), || ())?;
        }
        if number.is_multiple_of(PLANTS_IN_A_GROUP as u64) {
            checkpoint(db, file)?;
        }
    }
    checkpoint(db, file)
}

fn fold_all(
    db: &PacedDb,
    file: &File,
    new_plants: impl Iterator<Item = NewPlant>,
) -> anyhow::Result<()> {
    let mut state = State::default();
    let mut new_plants = new_plants.peekable();
    while new_plants.peek().is_some() {
        let of_generation: Vec<NewPlant> =
            new_plants.by_ref().take(super::DEFAULT_CHANGES_IN_MEMORY).collect();
        let group = group_of(&of_generation, state)?;
        let mut generation = Generation::behind(state.last_sequence);
        state = state.after(&group.changes)?;
        generation.apply(group)?;
        state = fold(db, &BlocksLock::default(), &generation, state, u64::MAX, || ())?;
        checkpoint(db, file)?;
    }
    Ok(())
}

fn group_of(new_plants: &[NewPlant], state: State) -> anyhow::Result<ChangeGroup> {
    let first_sequence = state.last_sequence + 1;
    let change = |(revision, new_plant): (u64, &NewPlant)| {
        Change::new(new_plant.id(), None, Some(record_of(new_plant, revision)?))
    };
    let changes = (first_sequence..).zip(new_plants).map(change);
    Ok(ChangeGroup {
        first_sequence,
        plants_before: state.plants,
        digest_before: PlantsDigest::default(),
        changes: changes.collect::<anyhow::Result<_>>()?,
    })
}

fn record_of(new_plant: &NewPlant, revision: u64) -> anyhow::Result<EncodedPlant> {
    let (name, tag) = new_plant.plant().members();
    PlantRecord { revision, idempotency: None, name, tag }.encode()
}
