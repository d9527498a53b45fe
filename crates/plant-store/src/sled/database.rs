//! What sled holds, and what goes with it in memory.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;
use sled::IVec;

use super::digest::Digest;
use super::layout::{
    self, Change, EVENT_PREFIX, EventRecord, Group, event_key, event_sequence, plant_key,
};
use super::paced::PacedDb;
use super::tag_index::TagIndex;
use crate::{EventKind, fault};

/// How many old event records go for each new one at most. More than one, so that a store that keeps
/// fewer events than before gets there.
const FORGOTTEN_FOR_A_NEW_ONE: usize = 4;

/// How far the database is.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) last_sequence: u64,
    pub(super) plants: u64,
    /// The digest of all plants, as they should be.
    pub(super) digest: Digest,
    /// The events from this sequence number on are kept.
    pub(super) kept_from: u64,
    /// The tag index's blocks on disk hold all events up to this sequence number.
    pub(super) indexed_through: u64,
}

impl Default for State {
    fn default() -> Self {
        let digest = Digest::default();
        Self { last_sequence: 0, plants: 0, digest, kept_from: 1, indexed_through: 0 }
    }
}

impl State {
    /// The state before a group; what is not in the group is as it is here.
    pub(super) fn before(&self, group: &Group<'_>) -> Self {
        Self {
            last_sequence: group.first_sequence - 1,
            plants: group.plants_before,
            digest: group.digest_before,
            ..*self
        }
    }

    /// The state that changes lead to.
    pub(super) fn after(&self, changes: &[Change<'_>]) -> anyhow::Result<Self> {
        let Self { mut plants, mut digest, .. } = *self;
        for change in changes {
            plants = match change.kind {
                EventKind::Created => plants.checked_add(1),
                EventKind::Updated => Some(plants),
                EventKind::Deleted => plants.checked_sub(1),
            }
            .context("the count of plants is wrong")?;
            digest += change.digest;
        }
        let last_sequence = self.last_sequence + changes.len() as u64;
        Ok(Self { last_sequence, plants, digest, ..*self })
    }
}

/// What readers need beside sled. Only the commit thread changes it.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) tag_index: TagIndex,
}

impl Shared {
    pub(super) fn new(state: State, tag_index: TagIndex) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), tag_index })
    }

    /// How far the database is.
    pub(super) fn state(&self) -> State {
        // A state is replaced as a whole: a panic cannot leave a part of one.
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// The one that writes.
pub(super) struct Database {
    pub(super) db: PacedDb,
    pub(super) shared: Arc<Shared>,
    /// How many of the newest events are kept at least.
    pub(super) keep_events: u64,
}

impl Database {
    /// Applies a group that is on disk in the journal.
    pub(super) fn apply(&mut self, group: &Group<'_>) -> anyhow::Result<()> {
        let before = self.shared.state();
        ensure!(group.first_sequence == before.last_sequence + 1, "a group is out of order");
        let tag_index = &self.shared.tag_index;
        let mut state = before.after(&group.changes)?;
        state.indexed_through = tag_index.indexed_through();
        let at_most = FORGOTTEN_FOR_A_NEW_ONE * group.event_runs().count();
        let old = self.old_event_records(at_most, &mut state)?;
        write_group(&self.db, group, &state)?;
        for key in old {
            fault::point("before-old-events-removed");
            self.db.remove(key).context("removing old events")?;
        }
        tag_index.apply(group.changes.iter().map(Change::event));
        // An event may change what two tags have.
        tag_index.fold(&self.db, 2 * group.changes.len(), state.last_sequence)?;
        fault::point("before-state");
        self.shared.set_state(state);
        Ok(())
    }

    /// The keys of some event records that need not be kept in this state, which is told so.
    fn old_event_records(&self, at_most: usize, state: &mut State) -> anyhow::Result<Vec<IVec>> {
        let mut old = Vec::new();
        // The tag index needs the events that are not in its blocks on disk.
        let not_shown = state.last_sequence.saturating_sub(self.keep_events);
        let needed_from = not_shown.min(state.indexed_through) + 1;
        if needed_from <= state.kept_from {
            return Ok(old);
        }
        let mut keys = self.db.scan_prefix(EVENT_PREFIX).keys();
        let mut oldest = keys.next().transpose()?;
        for key in keys.take(at_most) {
            let key = key.context("reading old events")?;
            let sequence = event_sequence(&key)?;
            if sequence > needed_from {
                break;
            }
            // The next record begins here, so the one before has nothing that is needed.
            old.extend(oldest.replace(key));
            state.kept_from = state.kept_from.max(sequence);
        }
        Ok(old)
    }
}

/// Writes what a group changes, and the state that it leads to.
///
/// The writes go to sled one by one, for its batches cost two rolls of its log each. A kill in between
/// leaves the first of them, in order; the events come last, so without all of them the group counts
/// as not applied, and is applied again from the journal: each write here may be made twice.
pub(super) fn write_group(db: &PacedDb, group: &Group<'_>, state: &State) -> anyhow::Result<()> {
    for change in &group.changes {
        let key = plant_key(PlantId::from(change.id));
        match &change.record {
            Some(record) => db.insert(key, layout::encode(record)?),
            None => db.remove(key),
        }
        .context("writing a plant")?;
        fault::point("after-plant");
    }
    let mut state = state.before(group);
    for changes in group.event_runs() {
        let first_sequence = state.last_sequence + 1;
        state = state.after(changes)?;
        let record = EventRecord {
            plants: state.plants,
            digest: state.digest,
            indexed_through: state.indexed_through,
            kept_from: state.kept_from,
            events: changes.iter().map(Change::event).collect(),
        };
        fault::point("before-events");
        db.insert(event_key(first_sequence), layout::encode(&record)?).context("writing events")?;
        fault::point("after-events");
    }
    Ok(())
}
