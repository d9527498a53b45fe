//! What was written lately: it is on disk in the journal, and in memory until it is in sled.
//!
//! sled is given many changes at a time, by ascending id, for what one of them costs alone is more than all
//! the rest of a create. So changes gather in a generation, the active one, as long as there is room in their
//! segment of the journal. Then it is frozen, and folded into sled while the next one gathers changes in the
//! other segment. Readers look at the active one first, then at the frozen one, then at sled.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::ensure;
use plant_domain::PlantId;

use super::id_filter::IdFilter;
use super::layout::{ChangeGroup, EventOfPlant, State};
use crate::EventKind;
use crate::plant_record::EncodedPlant;

/// Whether a plant has a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Absent,
}

/// The changes of some groups that follow each other.
#[derive(Debug)]
pub(super) struct Generation {
    /// The sequence number of its first event, or of that which comes first.
    pub(super) first_sequence: u64,
    /// Each plant that was changed as it is after that; none when it is gone.
    pub(super) plants: BTreeMap<PlantId, Option<EncodedPlant>>,
    /// Whether plants that were changed have a tag, for each tag that they have or have lost.
    pub(super) tags: BTreeMap<Box<str>, BTreeMap<PlantId, Presence>>,
    pub(super) events: Vec<EventOfPlant>,
}

impl Generation {
    /// A generation of what comes behind the event with this sequence number.
    pub(super) const fn behind(last_sequence: u64) -> Self {
        Self {
            first_sequence: last_sequence + 1,
            plants: BTreeMap::new(),
            tags: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Takes in the changes of the group that follows.
    pub(super) fn apply(&mut self, group: ChangeGroup) -> anyhow::Result<()> {
        let follows = self.first_sequence + self.events.len() as u64;
        ensure!(group.first_sequence == follows, "a group is out of order");
        for change in group.changes {
            let id = PlantId::from(change.id);
            self.events.push(change.event());
            if let Some(left) = &change.left_tag {
                self.remember(left, id, Presence::Absent);
            }
            if let Some(record) = &change.record
                && let Some(tag) = record.decode()?.tag
            {
                self.remember(tag, id, Presence::Present);
            }
            self.plants.insert(id, change.record);
        }
        Ok(())
    }

    fn remember(&mut self, tag: &str, id: PlantId, presence: Presence) {
        // Almost always the tag is there already.
        match self.tags.get_mut(tag) {
            Some(plants) => drop(plants.insert(id, presence)),
            None => drop(self.tags.entry(tag.into()).or_default().insert(id, presence)),
        }
    }

    fn event(&self, sequence: u64) -> Option<EventOfPlant> {
        let place = usize::try_from(sequence.checked_sub(self.first_sequence)?).ok()?;
        self.events.get(place).copied()
    }
}

/// Both generations, and how far the database is with them.
#[derive(Debug)]
pub(super) struct Recent {
    pub(super) state: State,
    /// Knows every plant that there is, or was since the start.
    pub(super) ids: IdFilter,
    active: Generation,
    frozen: Option<Arc<Generation>>,
}

impl Recent {
    /// What memory says of a plant: nothing, or what it is, or that it is gone.
    pub(super) fn plant(&self, id: PlantId) -> Option<&Option<EncodedPlant>> {
        self.generations().find_map(|generation| generation.plants.get(&id))
    }

    /// How many changes the active generation has.
    pub(super) fn active_changes(&self) -> usize {
        self.active.events.len()
    }

    /// What memory says of the plants from an id on, of about so many, in order.
    pub(super) fn plants_from(&self, from: PlantId, about: usize) -> Run<Option<EncodedPlant>> {
        run(self.generations().map(|generation| &generation.plants), from, about)
    }

    /// What memory says of the plants from an id on that have a tag, or had it, of about so many.
    pub(super) fn plants_with_tag(&self, tag: &str, from: PlantId, about: usize) -> Run<Presence> {
        run(self.generations().filter_map(|generation| generation.tags.get(tag)), from, about)
    }

    /// The sequence number of the first event that is in memory, or of that which comes next.
    pub(super) fn first_sequence(&self) -> u64 {
        self.frozen.as_ref().map_or(self.active.first_sequence, |frozen| frozen.first_sequence)
    }

    /// The event of this sequence number, where it is in memory.
    pub(super) fn event(&self, sequence: u64) -> Option<EventOfPlant> {
        self.generations().find_map(|generation| generation.event(sequence))
    }

    /// The newer one first.
    fn generations(&self) -> impl Iterator<Item = &Generation> + Clone {
        [&self.active].into_iter().chain(self.frozen.as_deref())
    }
}

/// What memory says of some ids, in order.
pub(super) struct Run<T> {
    pub(super) entries: Vec<(PlantId, T)>,
    /// The id from which on there may be more.
    pub(super) next: Option<PlantId>,
}

/// What generations say of the ids from one on, the newer one first.
fn run<'a, T: Clone + 'a>(
    generations: impl Iterator<Item = &'a BTreeMap<PlantId, T>> + Clone,
    from: PlantId,
    about: usize,
) -> Run<T> {
    let next =
        generations.clone().filter_map(|plants| plants.range(from..).nth(about).map(|(id, _)| *id));
    let next = next.min();
    let end = next.map_or(Bound::Unbounded, Bound::Excluded);
    let mut merged: Vec<(PlantId, T)> = Vec::new();
    for plants in generations {
        let newer = mem::take(&mut merged);
        let mut newer = newer.into_iter().peekable();
        for (id, value) in plants.range((Bound::Included(from), end)) {
            while let Some(entry) = newer.next_if(|(newer_id, _)| newer_id < id) {
                merged.push(entry);
            }
            let is_newer_there = newer.peek().is_some_and(|(newer_id, _)| newer_id == id);
            if !is_newer_there {
                merged.push((*id, value.clone()));
            }
        }
        merged.extend(newer);
    }
    Run { entries: merged, next }
}

/// [`Recent`], for everyone who reads and for those who write: the commit thread, and the one that folds.
#[derive(Debug)]
pub(super) struct Generations(RwLock<Recent>);

impl Generations {
    /// No generation has anything yet.
    pub(super) const fn behind(state: State, ids: IdFilter) -> Self {
        let active = Generation::behind(state.last_sequence);
        Self(RwLock::new(Recent { state, ids, active, frozen: None }))
    }

    /// For a moment: writes wait meanwhile.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Recent> {
        // What a panic has left half applied is on disk in the journal, and has failed the store.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Recent> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows everyone a group that is on disk in the journal.
    pub(super) fn apply(&self, group: ChangeGroup) -> anyhow::Result<()> {
        let mut recent = self.write();
        let state = recent.state.after(&group.changes)?;
        for change in &group.changes {
            let id = PlantId::from(change.id);
            // One that is used again takes no more room.
            if change.kind == EventKind::Created && !recent.ids.may_know(id) {
                recent.ids.add(id);
            }
        }
        recent.active.apply(group)?;
        recent.state = state;
        Ok(())
    }

    /// Begins the next generation. The one before must be in sled already.
    pub(super) fn freeze(&self) -> anyhow::Result<(Arc<Generation>, State)> {
        let mut recent = self.write();
        ensure!(recent.frozen.is_none(), "a generation is frozen already");
        let next = Generation::behind(recent.state.last_sequence);
        let frozen = Arc::new(mem::replace(&mut recent.active, next));
        recent.frozen = Some(Arc::clone(&frozen));
        Ok((frozen, recent.state))
    }

    /// What was frozen is in sled, and so are the events from `kept_from` on.
    pub(super) fn folded(&self, kept_from: u64) {
        let mut recent = self.write();
        recent.state.kept_from = kept_from;
        let frozen = recent.frozen.take();
        drop(recent);
        // It takes a while to free it.
        drop(frozen);
    }
}
