//! A stored plant and its revision.

use std::fmt;

use plant_domain::{NewPlant, Plant, PlantId};

/// A plant with its id and revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPlant {
    /// The plant's id.
    pub id: PlantId,
    /// The plant itself.
    pub plant: Plant,
    /// The revision of this state of the plant.
    pub revision: Revision,
}

impl StoredPlant {
    /// The plant with its id, without the revision.
    #[must_use]
    pub fn into_new_plant(self) -> NewPlant {
        self.plant.with_id(self.id)
    }
}

/// Names one state of one plant: the sequence number of the event that made it. Revisions grow with each change and are
/// never reused, not even when a plant is deleted and created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Precedes every revision.
    pub const BEFORE_ALL: Self = Self(0);

    /// The sequence number, greater than 0. The store chooses the numbers, and may skip some.
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
