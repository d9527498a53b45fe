//! Whether writes are taken now.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::group::Writer;

/// A write that takes longer than this makes the store count as not ready.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// For how long it counts what the last look whether writes are taken has found.
const LOOK_COUNTS_FOR: Duration = Duration::from_millis(500);

/// Looks whether writes are taken, by a write that changes nothing.
#[derive(Debug)]
pub(super) struct Readiness {
    writer: Writer,
    /// When the last look was, and what it has found.
    last: Option<(Instant, bool)>,
}

impl Readiness {
    pub(super) const fn new(writer: Writer) -> Self {
        Self { writer, last: None }
    }

    pub(super) async fn is_ready(&mut self) -> bool {
        match self.last {
            Some((looked, found)) if looked.elapsed() < LOOK_COUNTS_FOR => found,
            _ => {
                let look = timeout(READY_WITHIN, self.writer.write_nothing());
                let found = matches!(look.await, Ok(Ok(())));
                self.last = Some((Instant::now(), found));
                found
            }
        }
    }
}
