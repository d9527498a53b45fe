//! A plant as it is kept, and the states that it goes through.

use std::fmt;

use plant_domain::{NewPlant, Plant, PlantId};

/// A plant as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPlant {
    /// The plant's id.
    pub id: PlantId,
    /// The plant itself.
    pub plant: Plant,
    /// The state of the plant that this is.
    pub revision: Revision,
}

impl StoredPlant {
    /// The plant with its id, without the revision.
    #[must_use]
    pub fn into_new_plant(self) -> NewPlant {
        self.plant.with_id(self.id)
    }
}

/// Names one state of one plant: the sequence number of the event that led to it. It grows with
/// each change and is never used again, not even when a plant is removed and created anew.
///
/// ```
/// use plant_store::Revision;
///
/// assert!(Revision::from(2) > Revision::from(1));
/// assert_eq!(Revision::from(2).to_string(), "2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// No event has led to it: it comes before every revision.
    pub const BEFORE_ALL: Self = Self(0);

    /// The sequence number of the event that led to this state. It is greater than 0; which numbers are used is up to the
    /// store.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for Revision {
    fn from(sequence: u64) -> Self {
        Self(sequence)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
