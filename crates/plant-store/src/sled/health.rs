//! How the commit thread fares, for those who wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::StoreFailure;

/// A group that takes longer than this to reach the disk makes the store count as not ready.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How often somebody looks how long the disk keeps a group waiting.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A group counts as failed that this many looks have found on its way to the disk, which is after 10 s.
/// sled can wait for ever where the disk is full. It is not a time, for a process that was stopped
/// meanwhile has not looked.
const FAILED_AFTER_LOOKS: u32 = 40;

#[derive(Debug)]
pub(super) struct StoreHealth {
    failure: watch::Sender<Option<StoreFailure>>,
    opened: Instant,
    /// When the group that is being written was begun, in milliseconds since `opened`, or [`IDLE`].
    group_begun_ms: AtomicU64,
    /// Counts what is brought to sled. A group may have to wait for all of it, and that goes on.
    fold_steps: AtomicU64,
}

const IDLE: u64 = u64::MAX;

impl StoreHealth {
    pub(super) fn new() -> Self {
        Self {
            failure: watch::Sender::new(None),
            opened: Instant::now(),
            group_begun_ms: AtomicU64::new(IDLE),
            fold_steps: AtomicU64::new(0),
        }
    }

    pub(super) fn failure(&self) -> Option<StoreFailure> {
        self.failure.borrow().clone()
    }

    /// The failure, if the store has failed.
    pub(super) fn check(&self) -> Result<(), StoreFailure> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Waits until the store has failed.
    pub(super) async fn failed(&self) -> StoreFailure {
        let mut failure = self.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await.ok().and_then(|failed| failed.clone());
        match failed {
            Some(failure) => failure,
            // Only where the sender is gone, which lives as long as `self`.
            None => std::future::pending().await,
        }
    }

    /// The store has failed. The first failure stays: later ones follow from it.
    pub(super) fn fail(&self, cause: anyhow::Error) {
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

    pub(super) fn group_begins(&self) {
        self.group_begun_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    pub(super) fn group_ends(&self) {
        self.group_begun_ms.store(IDLE, Ordering::Relaxed);
    }

    /// A step more has been brought to sled.
    pub(super) fn fold_goes_on(&self) {
        self.fold_steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the disk keeps a group waiting for so long that no more writes should come.
    pub(super) fn is_stalled(&self) -> bool {
        self.waits_longer_than(STALLED_AFTER)
    }

    fn waits_longer_than(&self, limit: Duration) -> bool {
        self.group_under_way().is_some_and(|begun_ms| {
            Duration::from_millis(self.now_ms().saturating_sub(begun_ms)) > limit
        })
    }

    /// When the group that is on its way to the disk was begun.
    fn group_under_way(&self) -> Option<u64> {
        Some(self.group_begun_ms.load(Ordering::Relaxed)).filter(|begun_ms| *begun_ms != IDLE)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(IDLE - 1)
    }
}

/// Looks now and then how long the disk keeps one group waiting.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The group that was on its way at the last look, how far sled was then, and how many looks have found
    /// both so.
    seen: Option<((u64, u64), u32)>,
}

impl Watch {
    /// Fails the store when the disk keeps a group waiting without end.
    pub(super) fn look(&mut self, health: &StoreHealth) {
        let Some(begun_ms) = health.group_under_way() else {
            self.seen = None;
            return;
        };
        let found = (begun_ms, health.fold_steps.load(Ordering::Relaxed));
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

    fn look_often(health: &StoreHealth, watch: &mut Watch, count: u32) {
        for _ in 0..count {
            watch.look(health);
        }
    }

    #[test]
    fn a_group_that_waits_without_end_fails_the_store() {
        let (health, mut watch) = (StoreHealth::new(), Watch::default());
        health.group_begins();
        look_often(&health, &mut watch, FAILED_AFTER_LOOKS - 1);
        assert!(health.failure().is_none());
        look_often(&health, &mut watch, 1);
        assert!(health.failure().is_some());
    }

    #[test]
    fn a_group_that_waits_for_sled_does_not_fail_the_store_while_that_goes_on() {
        let (health, mut watch) = (StoreHealth::new(), Watch::default());
        health.group_begins();
        for _ in 0..3 {
            look_often(&health, &mut watch, FAILED_AFTER_LOOKS - 1);
            health.fold_goes_on();
        }
        assert!(health.failure().is_none());
    }

    #[test]
    fn groups_that_end_do_not_add_up() {
        let (health, mut watch) = (StoreHealth::new(), Watch::default());
        for _ in 0..2 {
            health.group_begins();
            look_often(&health, &mut watch, FAILED_AFTER_LOOKS - 1);
            health.group_ends();
            look_often(&health, &mut watch, 1);
        }
        assert!(health.failure().is_none());
    }
}
