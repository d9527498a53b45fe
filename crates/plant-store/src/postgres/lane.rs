//! A lane: takes groups of writes out of the queue, and carries them out one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::group::Writer;
use super::queue::Queue;

/// Takes groups of writes out of the queue and carries them out, one after the other.
pub(super) struct Lane {
    pub(super) queue: Arc<Queue>,
    pub(super) writer: Writer,
    pub(super) closing: CancellationToken,
    /// Whether something was written that upkeep has not seen.
    pub(super) has_written: Arc<AtomicBool>,
}

impl Lane {
    /// Goes on until there will be no more writes.
    pub(super) async fn run(self) {
        while let Some(group) = self.queue.take_group(&self.closing).await {
            let (writer, has_written) = (self.writer.clone(), Arc::clone(&self.has_written));
            // Where it panics, those who wait are told, and the next group is carried out.
            let carried_out = tokio::spawn(async move {
                let (writes, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
                let outcomes = writer.carry_out(writes).await;
                has_written.store(true, Ordering::Relaxed);
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    // A client that has gone away does not listen: that is no error.
                    let _ = answer.send(outcome);
                }
            });
            if carried_out.await.is_err() {
                log::error!("a group of writes panicked");
            }
            self.queue.end_group();
        }
    }
}
