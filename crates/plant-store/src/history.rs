//! The history of a plant.

use std::time::SystemTime;

use plant_domain::{Plant, PlantId};

use crate::{Author, EventKind, Revision, StoreError};

/// A request for a page of the history of a plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// The plant.
    pub id: PlantId,
    /// Only changes before this revision, which must be one of the plant.
    pub before: Option<Revision>,
    /// The most changes on the page, at least 1.
    pub limit: usize,
}

impl HistoryRequest {
    /// The error if the repository knows nothing of the plant, or of the revision before which the page begins.
    #[must_use]
    pub fn unknown(&self) -> StoreError {
        match self.before {
            Some(before) => StoreError::VersionGone(self.id, before),
            None => StoreError::NoSuchPlant(self.id),
        }
    }
}

/// A page of the history of a plant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The changes, newest first.
    pub changes: Vec<PastChange>,
    /// The [`HistoryRequest::before`] of the next page, if there is one.
    pub next: Option<Revision>,
    /// Whether older changes are forgotten. Only the last page says so.
    pub is_cut: bool,
}

/// One change of a plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastChange {
    /// The revision of the plant after the change.
    pub revision: Revision,
    /// What happened.
    pub kind: EventKind,
    /// When, as in [`Event::at`](crate::Event::at).
    pub at: SystemTime,
    /// The author of the change, if that is known.
    pub by: Option<Author>,
    /// The plant after the change; `None` after a deletion.
    pub plant: Option<Plant>,
}
