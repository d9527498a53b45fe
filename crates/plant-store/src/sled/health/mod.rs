//! The health of the store: its failure, if it has failed, and how long the commit of the current group takes.

pub(crate) mod disk_space;
pub(crate) mod errors;
mod events_by_plant;
pub(crate) mod findings;
pub(crate) mod inspection;
pub(crate) mod metrics;
pub(crate) mod verify;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::StoreFailure;

/// A group that takes longer than this to reach the disk makes the store unready.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// The interval of the watchdog, and of the checks of the disk space.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The store fails when this many looks (10 s) find the same group on its way to the disk, which may never answer.
/// Looks are counted instead of time, because a stopped process (SIGSTOP) makes none.
const FAILED_AFTER_LOOKS: u32 = 40;

#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    failure: watch::Sender<Option<StoreFailure>>,
    /// When the current group began.
    group_begun: Mutex<Option<Instant>>,
    /// Counts the steps of compaction. A group that waits for compaction has not failed while the count grows.
    compaction_steps: AtomicU64,
    waits_for_compaction: AtomicBool,
}

impl StoreHealth {
    pub(crate) fn failure(&self) -> Option<StoreFailure> {
        self.failure.borrow().clone()
    }

    pub(crate) fn check(&self) -> Result<(), StoreFailure> {
        self.failure().map_or(Ok(()), Err)
    }

    pub(crate) async fn failed(&self) -> StoreFailure {
        let mut failure = self.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await.ok().and_then(|failed| failed.clone());
        // Unreachable: the sender lives as long as `self`.
        failed.unwrap_or_else(|| StoreFailure::new("the store is gone"))
    }

    /// Fails the store. Keeps only the first failure, because later ones follow from it.
    pub(crate) fn fail(&self, cause: anyhow::Error) {
        let cause = StoreFailure::new(cause);
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            if is_first {
                log::error!("the store failed and takes no more writes: {cause}");
                *failure = Some(cause);
            }
            is_first
        });
    }

    pub(crate) fn group_begins(&self) {
        *self.group_begun() = Some(Instant::now());
    }

    pub(crate) fn group_ends(&self) {
        *self.group_begun() = None;
    }

    pub(crate) fn compaction_advances(&self) {
        self.compaction_steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes whether the current group waits for compaction instead of its own write.
    pub(crate) fn waits_for_compaction(&self, waits: bool) {
        self.waits_for_compaction.store(waits, Ordering::Relaxed);
    }

    pub(crate) fn is_waiting_for_compaction(&self) -> bool {
        self.waits_for_compaction.load(Ordering::Relaxed)
    }

    /// Whether the current group takes so long that further writes should be refused.
    pub(crate) fn is_stalled(&self) -> bool {
        self.group_begun().is_some_and(|begun| begun.elapsed() > STALLED_AFTER)
    }

    fn group_begun(&self) -> MutexGuard<'_, Option<Instant>> {
        self.group_begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The group and, if it waits for compaction, the steps of compaction at the last look; and how many looks have
    /// found both unchanged.
    seen: Option<((Instant, Option<u64>), u32)>,
}

impl Watch {
    /// Fails the store after [`FAILED_AFTER_LOOKS`] looks without progress.
    pub(crate) fn look(&mut self, health: &StoreHealth) {
        let Some(begun) = *health.group_begun() else {
            self.seen = None;
            return;
        };
        let waits = health.is_waiting_for_compaction();
        let steps = waits.then(|| health.compaction_steps.load(Ordering::Relaxed));
        let found = (begun, steps);
        let looks = match self.seen {
            Some((seen, looks)) if seen == found => looks + 1,
            _ => 1,
        };
        self.seen = Some((found, looks));
        if looks == FAILED_AFTER_LOOKS && health.failure().is_none() {
            let seconds = (LOOK_INTERVAL * FAILED_AFTER_LOOKS).as_secs();
            health
                .fail(anyhow::anyhow!("the disk has not answered for {seconds} s; it may be full"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the store fails after this many looks at a group, followed by `progress`.
    fn fails(rounds: u32, looks: u32, progress: fn(&StoreHealth, &mut Watch)) -> bool {
        let (health, mut watch) = (StoreHealth::default(), Watch::default());
        health.group_begins();
        for _ in 0..rounds {
            (0..looks).for_each(|_| watch.look(&health));
            progress(&health, &mut watch);
        }
        health.failure().is_some()
    }

    #[test]
    fn the_store_fails_once_a_group_and_compaction_have_made_no_progress_for_ten_seconds() {
        assert!(!fails(1, FAILED_AFTER_LOOKS - 1, |_, _| ()));
        assert!(fails(1, FAILED_AFTER_LOOKS, |_, _| ()));
        assert!(fails(3, FAILED_AFTER_LOOKS - 1, |health, _| health.compaction_advances()));
        let waited_for = |health: &StoreHealth, _: &mut Watch| {
            health.waits_for_compaction(true);
            health.compaction_advances();
        };
        assert!(!fails(3, FAILED_AFTER_LOOKS - 1, waited_for));
        let another_group = |health: &StoreHealth, watch: &mut Watch| {
            health.group_ends();
            watch.look(health);
            health.group_begins();
        };
        assert!(!fails(2, FAILED_AFTER_LOOKS - 1, another_group));
    }
}
