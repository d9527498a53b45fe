//! A lane: takes groups of writes out of the queue, and carries them out one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::queue::{Queue, WaitingWrite};
use crate::sessions::PATIENCE;
use crate::writer::Writer;
use plant_store::StoreError;

/// How many writes of plants that were refused lately may wait. Further ones are refused at once ([`StoreError::Busy`]).
pub(super) const WAITING_ALONE: usize = 256;

/// Carries out one group of writes at a time.
pub(super) struct Lane {
    pub(super) queue: Arc<Queue>,
    pub(super) writer: Writer,
    /// Where writes go that others must not wait for.
    pub(super) alone: mpsc::Sender<(Instant, WaitingWrite)>,
    pub(super) closing: CancellationToken,
    /// Whether something was written that upkeep has not seen.
    pub(super) has_written: Arc<AtomicBool>,
}

impl Lane {
    /// Goes on until there will be no more writes.
    pub(super) async fn run(self) {
        while let Some(group) = self.queue.take_group(&self.closing).await {
            let health = &self.writer.health;
            let (alone, together): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|(write, _)| health.is_refused(write.id()));
            for waiting in alone {
                if let Err(full) = self.alone.try_send((Instant::now(), waiting)) {
                    let (_, (_, answer)) = full.into_inner();
                    let _ = answer.send(Err(StoreError::Busy));
                }
            }
            carry_out(&self.writer, together, &self.has_written).await;
            self.queue.end_group();
        }
    }
}

/// Carries out writes of plants that were refused lately, each alone, until there will be no more. While PostgreSQL is
/// away, each of them takes long, so those that have waited for [`PATIENCE`] are refused ([`StoreError::Busy`]).
pub(super) async fn carry_out_alone(
    writer: Writer,
    mut waiting: mpsc::Receiver<(Instant, WaitingWrite)>,
    has_written: Arc<AtomicBool>,
) {
    while let Some((since, (write, answer))) = waiting.recv().await {
        if since.elapsed() > PATIENCE {
            let _ = answer.send(Err(StoreError::Busy));
        } else {
            carry_out(&writer, vec![(write, answer)], &has_written).await;
        }
    }
}

/// When it panics, the answers are dropped, which tells those who wait.
async fn carry_out(writer: &Writer, group: Vec<WaitingWrite>, has_written: &Arc<AtomicBool>) {
    if group.is_empty() {
        return;
    }
    let (writer, has_written) = (writer.clone(), Arc::clone(has_written));
    let carried_out = tokio::spawn(async move {
        let (writes, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        let mut answer = |place: usize, outcome| {
            if let Some(answer) = answers[place].take() {
                // A client that has gone away does not listen: that is no error.
                let _ = answer.send(outcome);
            }
        };
        writer.carry_out(writes, &mut answer).await;
        has_written.store(true, Ordering::Relaxed);
    });
    if carried_out.await.is_err() {
        log::error!("a group of writes panicked");
    }
}
