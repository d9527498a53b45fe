//! The end of the server, as those see it who still have to do with clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long before the end of the drain imports stop, at most half of the drain. In this time the store takes the rows
/// that have come, and the client reads how far its import came.
const LAST_ANSWERS: Duration = Duration::from_secs(4);

/// Later than any drain ends.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// How far the drain is.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    has_begun: AtomicBool,
    /// When no more connections are taken, the time at which imports stop.
    imports_stop: watch::Sender<Option<Instant>>,
}

impl Draining {
    /// New work should go elsewhere from now on; what comes is done all the same.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// No more connections are taken from now on, and those at rest end. The others may take `allowed`.
    pub(crate) fn close(&self, allowed: Duration) {
        let now = Instant::now();
        let until_stop = allowed - LAST_ANSWERS.min(allowed / 2);
        // A drain that may take longer than the clock can count has no end to stop before.
        let stop = now.checked_add(until_stop).unwrap_or(now + FAR_FUTURE);
        self.imports_stop.send_replace(Some(stop));
    }

    /// Waits until no more connections are taken.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let imports_stop = self.wait_for_close();
        async move {
            imports_stop.await;
        }
    }

    /// Waits until an import that is not done has to stop and answer.
    pub(crate) fn imports_stop(&self) -> impl Future<Output = ()> + use<> {
        let imports_stop = self.wait_for_close();
        async move {
            if let Some(stop) = imports_stop.await {
                sleep_until(stop).await;
            }
        }
    }

    fn wait_for_close(&self) -> impl Future<Output = Option<Instant>> + use<> {
        let mut imports_stop = self.imports_stop.subscribe();
        async move {
            // Without its sender there is no server any more.
            imports_stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop)
        }
    }
}
