//! A copy of all plants, and the cursor of the last event applied to it.

use std::collections::BTreeMap;
use std::fmt;

use crate::event::{Event, EventKind};
use crate::ledger::Plants;

/// An event that a follower has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedEvent {
    /// Its number in the log.
    pub revision: u64,
    /// What happened.
    pub kind: EventKind,
    /// The plant that it happened to.
    pub id: i64,
}

impl FollowedEvent {
    /// The revision, the kind and the plant of an event.
    #[track_caller]
    pub fn of(event: &Event) -> Self {
        Self { revision: revision_of(&event.cursor), kind: event.kind, id: event.id }
    }
}

/// The number of the last event before a cursor.
#[track_caller]
pub fn revision_of(cursor: &str) -> u64 {
    let revision = cursor.split_once('-').and_then(|(revision, _)| revision.parse().ok());
    revision.unwrap_or_else(|| panic!("{cursor} is no cursor"))
}

/// The plants and the cursor of a follower. An event changes both at once.
pub(super) struct PlantCopy {
    plants: Plants,
    /// The cursor of the last event; `None` until all plants are exported.
    cursor: Option<String>,
    revision: u64,
    /// Whether a plant exists according to its events. Plants without events are not in the map.
    is_there: BTreeMap<i64, bool>,
    events: Vec<FollowedEvent>,
    exports: usize,
    /// Whether the plants are in a data folder, where revisions have no gaps; in PostgreSQL they have.
    is_on_disk: bool,
}

/// How a copy differs from the store.
pub(super) struct Difference {
    /// Whether no later event can resolve it.
    pub(super) is_final: bool,
    text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for PlantCopy {
    /// Leaves out the plants: there are too many.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cursor, events, exports) = (&self.cursor, self.events.len(), self.exports);
        write!(formatter, "a copy at {cursor:?} after {events} events and {exports} more exports")
    }
}

impl PlantCopy {
    pub(super) fn new(is_on_disk: bool) -> Self {
        Self {
            plants: Plants::new(),
            cursor: None,
            revision: 0,
            is_there: BTreeMap::new(),
            events: Vec::new(),
            exports: 0,
            is_on_disk,
        }
    }

    pub(super) fn has_plants(&self) -> bool {
        self.cursor.is_some()
    }

    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn events(&self) -> &[FollowedEvent] {
        &self.events
    }

    /// A value that changes whenever the copy makes progress.
    pub(super) fn progress(&self) -> (u64, usize) {
        (self.revision, self.exports)
    }

    /// How many exports followed the first one.
    pub(super) fn exports(&self) -> usize {
        self.exports
    }

    /// Replaces the copy by an export.
    pub(super) fn begin(&mut self, plants: Plants, cursor: &str) {
        let revision = revision_of(cursor);
        assert!(revision >= self.revision, "{cursor} is before {self:?}");
        self.plants = plants;
        self.cursor = Some(cursor.to_owned());
        self.revision = revision;
        self.is_there.clear();
    }

    /// Demands another export, because events are gone.
    pub(super) fn forget(&mut self) {
        self.cursor = None;
        self.exports += 1;
    }

    /// Asserts that an event is the next one, and applies it.
    pub(super) fn apply(&mut self, shown: &Event) {
        let event = FollowedEvent::of(shown);
        let FollowedEvent { revision, kind, id } = event;
        let is_next =
            if self.is_on_disk { revision == self.revision + 1 } else { revision > self.revision };
        assert!(is_next, "{shown:?} is not the next event of {self:?}");
        let was_there = kind != EventKind::Created;
        let before = self.is_there.insert(id, kind != EventKind::Deleted);
        let fits = before.is_none_or(|before| before == was_there);
        assert!(fits, "{shown:?} cannot follow: {before:?}");
        shown.apply_to(&mut self.plants);
        self.revision = revision;
        self.cursor = Some(shown.cursor.clone());
        self.events.push(event);
    }

    /// Checks a cursor that came without an event: it must be that of the last event.
    pub(super) fn note(&mut self, cursor: &str) {
        let is_here = revision_of(cursor) == self.revision;
        assert!(is_here, "{cursor} leaves out events after {self:?}");
        self.cursor = Some(cursor.to_owned());
    }

    /// A difference that later events can resolve.
    pub(super) fn lacks(&self, what: &str) -> Difference {
        Difference { is_final: false, text: format!("{what}: {self:?}") }
    }

    /// Compares the copy with the plants of a server to which nothing writes, whose newest event is `newest`.
    pub(super) fn difference_at(
        &self,
        newest: u64,
        plants: &Plants,
        when: &str,
    ) -> Result<(), Difference> {
        let is_complete = self.has_plants() && self.revision >= newest;
        if is_complete && self.plants == *plants && (self.revision == newest || !self.is_on_disk) {
            return Ok(());
        }
        let ids = self.plants.keys().chain(plants.keys());
        let mut different: Vec<i64> =
            ids.filter(|id| self.plants.get(id) != plants.get(id)).copied().collect();
        different.sort_unstable();
        different.dedup();
        Err(Difference {
            // In PostgreSQL, events in doubt may follow later.
            is_final: is_complete && self.is_on_disk,
            text: format!(
                "{when}: {self:?} should have come to {newest}, and differs in the plants {different:?}"
            ),
        })
    }
}
