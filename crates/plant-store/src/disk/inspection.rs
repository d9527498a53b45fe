//! Inspects a database that no server has open.

use std::iter;

use anyhow::Context as _;
use plant_domain::{NewPlant, PlantId};

use super::change::Totals;
use super::config::DiskConfig;
use super::errors::open_error;
use super::findings::Findings;
use super::keys;
use super::merge::{Merge, Tables};
use super::open::{self, Found};
use super::verify;
use crate::plant_record::PlantRecord;
use crate::{OpenError, StoreFailure};

/// A database that is open for inspection, even if [`DiskRepository`](super::DiskRepository) refuses it as damaged. The
/// inspection changes nothing.
pub struct DiskInspection {
    found: Found,
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
    /// Compares all data of these tables, adding to the findings. Calls `progress` with the share that is done.
    pub(super) fn of(
        tables: &Tables,
        totals: Option<&Totals>,
        mut findings: Findings,
        progress: &dyn Fn(f64),
    ) -> anyhow::Result<Self> {
        let compared = verify::verify(tables, totals, &mut findings, progress);
        let compared = compared.context("not everything could be compared");
        let (plants, events) = findings.value_of(compared)?.unwrap_or_default();
        Ok(Self::new(plants, events, findings))
    }

    pub(super) fn new(plants: u64, events: u64, findings: Findings) -> Self {
        let (disagreements, more_disagreements) = findings.into_list();
        Self { plants, events, disagreements, more_disagreements }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.disagreements.is_empty() && self.more_disagreements == 0
    }
}

impl DiskInspection {
    /// Opens the database. Only the folder and the cache size of the configuration are used.
    ///
    /// # Errors
    ///
    /// When there is no database, another process has it open, or another version made it. [`OpenError::Damaged`] when
    /// too much of it is damaged.
    pub fn open(config: &DiskConfig) -> Result<Self, OpenError> {
        let mut findings = Findings::list();
        let found = open::open_to_look(config, &mut findings)
            .with_context(|| format!("cannot open the database in {}", config.directory.display()))
            .map_err(open_error)?;
        Ok(Self { found, findings })
    }

    /// Compares plants, search index, counts, digest and events with each other. Reads everything; memory is bounded by the
    /// number of kept events, and by the number of tags once their counts are wrong. Calls `progress` with the share that is
    /// done, from 0 to 1.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn verify(&self, progress: &dyn Fn(f64)) -> Result<Verification, StoreFailure> {
        let (tables, totals) = (&self.found.tables, self.found.totals.as_ref());
        Verification::of(tables, totals, self.findings.clone(), progress).map_err(StoreFailure::new)
    }

    /// Every readable plant, by ascending id. Unreadable blocks are errors in between.
    pub fn plants(&self) -> impl Iterator<Item = Result<NewPlant, StoreFailure>> {
        let mut entries = Merge::new(&self.found.tables, &keys::plant_key(PlantId::MIN));
        iter::from_fn(move || next_plant(&mut entries).map_err(StoreFailure::new).transpose())
    }

    /// How many plants there should be, if the manifest can be read.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        self.found.totals.map(|totals| totals.plants)
    }
}

fn next_plant(entries: &mut Merge) -> anyhow::Result<Option<NewPlant>> {
    while let Some((key, record)) = entries.next()? {
        let Some(id) = keys::plant_of(key)? else { break };
        let Some(record) = record else { continue };
        let record = PlantRecord::decode(record)
            .with_context(|| format!("the record of plant {id} is damaged"))?;
        return Ok(Some(record.to_stored_plant(id)?.into_new_plant()));
    }
    Ok(None)
}
