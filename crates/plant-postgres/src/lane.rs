//! Lanes: each takes groups of writes out of the queue, and carries them out one after the other.

use std::sync::Arc;
use std::time::Instant;

use plant_store::StoreError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::queue::{Queue, WaitingWrite};
use crate::sessions::PATIENCE;
use crate::writer::Writer;

/// How many writes of plants that were refused lately may wait. Further ones are refused at once ([`StoreError::Busy`]).
pub(super) const WAITING_ALONE: usize = 256;

/// Carries out groups until the queue is closed. Writes of plants that were refused lately go to `alone`, so that other
/// writes do not wait for them.
pub(super) async fn carry_out_groups(
    queue: Arc<Queue>,
    writer: Writer,
    alone: mpsc::Sender<(Instant, WaitingWrite)>,
    closing: CancellationToken,
) {
    while let Some(group) = queue.take_group(&closing).await {
        let is_refused = |(write, _): &WaitingWrite| writer.health.is_refused(write.id());
        let (refused, group): (Vec<_>, Vec<_>) = group.into_iter().partition(is_refused);
        for waiting in refused {
            if let Err(full) = alone.try_send((Instant::now(), waiting)) {
                let (_, (_, answer)) = full.into_inner();
                let _ = answer.send(Err(StoreError::Busy));
            }
        }
        if !group.is_empty() {
            carry_out(&writer, group).await;
        }
        queue.end_group();
    }
}

/// Carries out writes one by one. While PostgreSQL is away, each of them takes long, so those that have waited for
/// [`PATIENCE`] are refused ([`StoreError::Busy`]).
pub(super) async fn carry_out_alone(
    writer: Writer,
    mut waiting: mpsc::Receiver<(Instant, WaitingWrite)>,
) {
    while let Some((since, (write, answer))) = waiting.recv().await {
        if since.elapsed() > PATIENCE {
            let _ = answer.send(Err(StoreError::Busy));
        } else {
            carry_out(&writer, vec![(write, answer)]).await;
        }
    }
}

/// A panic drops the senders, which tells the callers.
async fn carry_out(writer: &Writer, group: Vec<WaitingWrite>) {
    let writer = writer.clone();
    let carried_out = tokio::spawn(async move {
        let (writes, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        let mut answer = |place: usize, outcome| {
            if let Some(answer) = answers[place].take() {
                // The client may be gone.
                let _ = answer.send(outcome);
            }
        };
        writer.carry_out(writes, &mut answer).await;
    });
    if carried_out.await.is_err() {
        log::error!("a group of writes panicked");
    }
}
