//! Inspects a database that no server has open.

use anyhow::Context as _;
use plant_domain::{NewPlant, PlantId};

use super::config::SledConfig;
use super::findings::Findings;
use super::layout::Manifest;
use super::open::{self, FoundDatabase};
use super::ordered_map::guarded::{guarded, open_error};
use super::scan::PlantScan;
use super::verify;
use crate::plant_record::PlantRecord;
use crate::{OpenError, StoreFailure};

/// A database that is open for inspection, even if [`SledRepository`](super::SledRepository) refuses it as damaged.
///
/// Opening changes what every start changes: writes to sled's file become synchronous, sled recovers its log, an
/// unfinished snapshot is moved aside, and the write-ahead log is replayed. Nothing else changes.
pub struct SledInspection {
    found: FoundDatabase,
    manifest: Option<Manifest>,
    findings: Findings,
}

/// The result of comparing everything that a database holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The number of plants.
    pub plants: u64,
    /// The number of kept events.
    pub events: u64,
    /// The first thousand disagreements, a sentence each.
    pub disagreements: Vec<String>,
    /// How many further disagreements there are.
    pub more_disagreements: u64,
}

impl Verification {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty() && self.more_disagreements == 0
    }
}

impl SledInspection {
    /// Opens the database. Only the folder and the cache size of the configuration are used.
    ///
    /// # Errors
    ///
    /// When there is no database, another process has it open, or another version made it. [`OpenError::Damaged`] when
    /// too much of it is damaged.
    pub fn open(config: &SledConfig) -> Result<Self, OpenError> {
        let mut findings = Findings::list();
        let (found, manifest) = open::open_to_look(config, &mut findings)
            .with_context(|| format!("cannot open the database in {}", config.directory.display()))
            .map_err(open_error)?;
        Ok(Self { found, manifest, findings })
    }

    /// Compares plants, tag index, count, digest and events with each other. Reads everything; memory is bounded by the
    /// number of kept events.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(&self) -> Result<Verification, StoreFailure> {
        let mut findings = self.findings.clone();
        let verify = || verify::verify(&self.found.db, self.manifest.as_ref(), &mut findings);
        let compared = guarded(verify);
        let compared = compared.context("not everything could be compared");
        let (plants, events) =
            findings.value_of(compared).map_err(StoreFailure::new)?.unwrap_or_default();
        let (disagreements, more_disagreements) = findings.into_list();
        Ok(Verification { plants, events, disagreements, more_disagreements })
    }

    /// Every readable plant, by ascending id. Unreadable stretches are errors in between.
    pub fn plants(&self) -> impl Iterator<Item = Result<NewPlant, StoreFailure>> {
        let plant = |entry: anyhow::Result<(PlantId, _)>| -> anyhow::Result<NewPlant> {
            let (id, record): (_, Vec<u8>) = entry?;
            let record = PlantRecord::decode(&record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            Ok(record.to_stored_plant(id)?.into_new_plant())
        };
        PlantScan::new(&self.found.db).map(move |entry| plant(entry).map_err(StoreFailure::new))
    }

    /// How many plants there should be, if the manifest can be read.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.manifest.map(|manifest| manifest.plants)
    }
}
