//! The state of the drain, for the code that deals with clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long before the end of the drain imports stop, at most half of the drain. The store needs this time to commit
/// the rows that have arrived, and the client to read how far its import came.
const LAST_ANSWERS: Duration = Duration::from_secs(4);

/// Later than any drain ends.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The progress of the drain.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    has_begun: AtomicBool,
    /// Set when the listener closes: the time at which imports stop.
    imports_stop: watch::Sender<Option<Instant>>,
}

impl Draining {
    /// From now on `/readyz` answers 503, and responses close their connections. Requests are still served.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// The listener has closed: idle connections end now, and requests in flight within `allowed`.
    pub(crate) fn close(&self, allowed: Duration) {
        let until_stop = allowed - LAST_ANSWERS.min(allowed / 2);
        // A clock cannot add every duration.
        let stop = Instant::now() + until_stop.min(FAR_FUTURE);
        self.imports_stop.send_replace(Some(stop));
    }

    /// Waits until the listener has closed.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut imports_stop = self.imports_stop.subscribe();
        async move {
            // The sender is dropped only with the server.
            let _ = imports_stop.wait_for(Option::is_some).await;
        }
    }

    /// Waits until an unfinished import must stop and answer.
    pub(crate) fn imports_stop(&self) -> impl Future<Output = ()> + use<> {
        let imports_stop = self.imports_stop.subscribe();
        let closed = self.closed();
        async move {
            closed.await;
            let stop = *imports_stop.borrow();
            if let Some(stop) = stop {
                sleep_until(stop).await;
            }
        }
    }
}
