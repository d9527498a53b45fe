//! What PostgreSQL wrote and refused lately: this tells a single write that it refuses from a time when it takes none.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plant_domain::PlantId;

use plant_store::StoreFailure;

/// How many refused plants are remembered. One more makes it forget all of them.
const MOST_REFUSED: usize = 1024;

/// How long a refused plant is remembered.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// A write that takes longer than this makes the store count as not ready.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(1);

/// After a write that PostgreSQL did not take, a rehearsal that succeeds is not believed for so long: a full disk may
/// still take a small change.
const NO_WRITES_FOR: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct WriteHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    /// Plants that were refused, and when.
    refused: HashMap<PlantId, Instant>,
    /// When PostgreSQL last took no writes, and why, unless it has taken some since.
    no_writes: Option<(Instant, StoreFailure)>,
}

impl WriteHealth {
    /// These plants were written.
    pub(super) fn note_written(&self, ids: &BTreeSet<PlantId>) {
        let mut state = self.state();
        state.note_writes();
        if !state.refused.is_empty() {
            state.refused.retain(|id, _| !ids.contains(id));
        }
    }

    /// PostgreSQL refuses a write of this plant, and takes others.
    pub(super) fn note_refused(&self, id: PlantId) {
        let mut state = self.state();
        if state.refused.len() >= MOST_REFUSED {
            state.refused.clear();
        }
        state.refused.insert(id, Instant::now());
    }

    /// Whether a write of this plant was refused lately.
    pub(super) fn is_refused(&self, id: PlantId) -> bool {
        self.state().refused.get(&id).is_some_and(|since| since.elapsed() < REFUSED_FOR)
    }

    /// PostgreSQL takes no writes, whichever they are.
    pub(super) fn note_no_writes(&self, cause: &StoreFailure) {
        let mut state = self.state();
        if state.no_writes.is_none() {
            log::error!("PostgreSQL takes no writes: {cause}");
        }
        state.no_writes = Some((Instant::now(), cause.clone()));
    }

    /// A rehearsal has found that PostgreSQL takes writes.
    pub(super) fn note_rehearsed(&self) {
        self.state().note_writes();
    }

    /// Why PostgreSQL took no writes last, if it has taken none since, and whether that is so long ago that a rehearsal is
    /// believed.
    pub(super) fn no_writes(&self) -> Option<(bool, StoreFailure)> {
        let (since, cause) = self.state().no_writes.clone()?;
        Some((since.elapsed() >= NO_WRITES_FOR, cause))
    }

    /// The plants that were refused and not forgotten since.
    pub(super) fn refused(&self) -> Vec<PlantId> {
        self.state().refused.keys().copied().collect()
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HealthState {
    fn note_writes(&mut self) {
        if self.no_writes.take().is_some() {
            log::info!("PostgreSQL takes writes again");
        }
    }
}
