//! Events: what happened to plants.

use plant_domain::PlantId;
use serde::{Deserialize, Serialize};

use crate::Revision;

/// One change to one plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision that the event led to. A deletion has its own number too.
    pub revision: Revision,
    /// What happened.
    pub kind: EventKind,
    /// The plant that it happened to.
    pub id: PlantId,
}

/// What happened to a plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The plant was created.
    Created,
    /// The name or the tag changed.
    Updated,
    /// The plant was deleted.
    Deleted,
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventPage {
    /// The next events, in order; empty when nothing happened since.
    Kept(Vec<Event>),
    /// Some of the requested events are no longer kept.
    Forgotten,
}
