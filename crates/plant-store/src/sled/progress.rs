//! How the commit thread fares, for those who wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::StoreFailure;

/// A group that takes longer than this to reach the disk makes the store count as not ready.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// A group that takes longer than this to reach the disk counts as failed. sled can wait for ever
/// where the disk is full.
const FAILED_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Progress {
    failure: watch::Sender<Option<StoreFailure>>,
    opened: Instant,
    /// When the group that is being written was begun, in milliseconds since `opened`, or [`IDLE`].
    group_begun_ms: AtomicU64,
}

const IDLE: u64 = u64::MAX;

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            failure: watch::Sender::new(None),
            opened: Instant::now(),
            group_begun_ms: AtomicU64::new(IDLE),
        }
    }

    pub(super) fn failure(&self) -> Option<StoreFailure> {
        self.failure.borrow().clone()
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

    /// The store has failed. The first failure stays and is returned: later ones follow from it.
    pub(super) fn fail(&self, cause: anyhow::Error) -> StoreFailure {
        let cause = StoreFailure::from(cause);
        let mut in_force = cause.clone();
        self.failure.send_if_modified(|failure| match failure {
            Some(first) => {
                in_force = first.clone();
                false
            }
            None => {
                log::error!("the store failed and takes no more writes: {cause}");
                *failure = Some(cause);
                true
            }
        });
        in_force
    }

    pub(super) fn group_begins(&self) {
        self.group_begun_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    pub(super) fn group_ends(&self) {
        self.group_begun_ms.store(IDLE, Ordering::Relaxed);
    }

    /// Whether the disk keeps a group waiting for so long that no more writes should come.
    pub(super) fn is_stalled(&self) -> bool {
        self.waits_longer_than(STALLED_AFTER)
    }

    /// Fails the store when the disk keeps a group waiting without end.
    pub(super) fn watch(&self) {
        if self.failure().is_none() && self.waits_longer_than(FAILED_AFTER) {
            let seconds = FAILED_AFTER.as_secs();
            self.fail(anyhow::anyhow!("the disk has not answered for {seconds} s; it may be full"));
        }
    }

    fn waits_longer_than(&self, limit: Duration) -> bool {
        match self.group_begun_ms.load(Ordering::Relaxed) {
            IDLE => false,
            begun_ms => Duration::from_millis(self.now_ms().saturating_sub(begun_ms)) > limit,
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(IDLE - 1)
    }
}
