//! The end of the server, as those see it who still have to do with clients.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// How far the drain is.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    has_begun: AtomicBool,
    is_closed: watch::Sender<bool>,
}

impl Draining {
    /// New work should go elsewhere from now on; what comes is done all the same.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// No more connections are taken from now on, and those at rest are to end.
    pub(crate) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// Waits until no more connections are taken.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut is_closed = self.is_closed.subscribe();
        async move {
            // Without its sender there is no server any more.
            let _ = is_closed.wait_for(|is_closed| *is_closed).await;
        }
    }
}
