//! Looking at a database that nobody serves.

use anyhow::Context as _;
use plant_domain::{NewPlant, PlantId};

use super::config::SledConfig;
use super::findings::Findings;
use super::open::{self, FoundDatabase};
use super::ordered_map::IVec;
use super::ordered_map::guarded::{guarded, open_error};
use super::scan::PlantScan;
use super::verify::{self, Compared};
use crate::plant_record::PlantRecord;
use crate::{OpenError, StoreFailure};

/// A database that is open to look at it, also where [`SledRepository::open`] refuses it because of what
/// is wrong. Nobody else may have it open meanwhile.
///
/// To open it does to its files what a start does too: writes to sled's file are made synchronous, sled
/// recovers its log, an unfinished snapshot is moved aside, and what a kill has left in the journal alone
/// is applied. Nothing else is changed.
///
/// [`SledRepository::open`]: super::SledRepository::open
///
/// ```
/// use plant_store::{SledConfig, SledInspection, SledRepository};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let config = SledConfig::new(folder.path().join("plants"));
/// drop(SledRepository::open(&config)?);
/// let verification = SledInspection::open(&config)?.verify()?;
/// assert!(verification.agrees());
/// # Ok(())
/// # }
/// ```
pub struct SledInspection {
    found: FoundDatabase,
    findings: Findings,
}

/// What came out of comparing everything that a database holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// How many plants there are.
    pub plants: u64,
    /// How many events are kept of them.
    pub events: u64,
    /// What is wrong, each in a sentence: the first thousand.
    pub disagreements: Vec<String>,
    /// How many more there are.
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
    /// Opens the database of this configuration, of which only the folder and the cache count.
    ///
    /// # Errors
    ///
    /// When there is none, somebody has it open, its format is not ours, or so much of it is damaged that
    /// it cannot be opened: [`OpenError::Damaged`].
    pub fn open(config: &SledConfig) -> Result<Self, OpenError> {
        let mut findings = Findings::list();
        let found = open::open_to_look(config, &mut findings)
            .with_context(|| format!("cannot open the database in {}", config.directory.display()))
            .map_err(open_error)?;
        Ok(Self { found, findings })
    }

    /// Compares plants, tag index, count, digest and events with each other, and says of each
    /// disagreement what it is. It reads everything, in memory that is bounded by the kept events.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(&self) -> Result<Verification, StoreFailure> {
        let FoundDatabase { db, state, .. } = &self.found;
        let mut findings = self.findings.clone();
        let compared = guarded(|| verify::verify(db, state.as_ref(), &mut findings));
        let compared = compared.context("not everything could be compared");
        let Compared { plants, events } =
            findings.value_of(compared).map_err(StoreFailure::new)?.unwrap_or_default();
        let (disagreements, more_disagreements) = findings.into_list();
        Ok(Verification { plants, events, disagreements, more_disagreements })
    }

    /// Every plant that can be read, by ascending id. What cannot be read is an error between them.
    pub fn plants(&self) -> impl Iterator<Item = Result<NewPlant, StoreFailure>> {
        let plant = |entry: anyhow::Result<(PlantId, _)>| -> anyhow::Result<NewPlant> {
            let (id, record): (_, IVec) = entry?;
            let record = PlantRecord::decode(&record)
                .with_context(|| format!("the record of plant {id} is damaged"))?;
            Ok(record.to_stored_plant(id)?.into_new_plant())
        };
        PlantScan::new(&self.found.db).map(move |entry| plant(entry).map_err(StoreFailure::new))
    }

    /// How many plants there should be, where that can be read.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.found.state.map(|state| state.plants)
    }
}
