//! What happened to the plants.

use plant_domain::PlantId;
use serde::{Deserialize, Serialize};

use crate::Revision;

/// One change to one plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The state that it led to; for a plant that was removed, the number of the event all the same.
    pub revision: Revision,
    /// What happened.
    pub kind: EventKind,
    /// To which plant.
    pub id: PlantId,
}

/// What happened to a plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// It is new.
    Created,
    /// Its name or its tag is another one.
    Updated,
    /// It is gone.
    Deleted,
}

/// Some events, if the repository still has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventPage {
    /// These are the next ones, in order; none when nothing happened since.
    Kept(Vec<Event>),
    /// Some of the events that were asked for are no longer kept.
    Forgotten,
}
