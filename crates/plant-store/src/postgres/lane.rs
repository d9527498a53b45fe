//! A lane: takes groups of writes out of the queue, and carries them out one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::group::{MAX_GROUP, Writer};
use crate::write::{Outcome, Write};

/// A write that waits for its turn, and where its outcome goes.
pub(super) type WaitingWrite = (Write, oneshot::Sender<Outcome>);

/// Takes groups of writes out of the queue and carries them out, one after the other.
pub(super) struct Lane {
    pub(super) waiting: Arc<Mutex<mpsc::Receiver<WaitingWrite>>>,
    pub(super) writer: Writer,
    pub(super) closing: CancellationToken,
    /// Whether something was written that upkeep has not seen.
    pub(super) has_written: Arc<AtomicBool>,
}

impl Lane {
    /// Goes on until there will be no more writes.
    pub(super) async fn run(self) {
        loop {
            let taken = self.take().await;
            if taken.is_empty() {
                return;
            }
            let (writer, has_written) = (self.writer.clone(), Arc::clone(&self.has_written));
            // Where it panics, those who wait are told, and the next group is carried out.
            let carried_out = tokio::spawn(async move {
                let (writes, answers): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
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
        }
    }

    /// What waits, at least one write, unless there will be none any more.
    async fn take(&self) -> Vec<WaitingWrite> {
        let mut taken = Vec::new();
        let mut waiting = self.waiting.lock().await;
        tokio::select! {
            _ = waiting.recv_many(&mut taken, MAX_GROUP) => {}
            () = self.closing.cancelled() => {
                waiting.close();
                waiting.recv_many(&mut taken, MAX_GROUP).await;
            }
        }
        taken
    }
}
