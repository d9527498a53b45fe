//! A lane: takes groups of writes out of the queue, and carries them out one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::group::{MAX_GROUP, Writer};
use crate::write::{Outcome, Write};

/// A write that waits for its turn, and where its outcome goes.
pub(super) type WaitingWrite = (Write, oneshot::Sender<Outcome>);

/// How many writes make a group that begins although others are on their way. Each group costs PostgreSQL as much as some
/// dozens of its writes do.
const ENOUGH: usize = 48;

/// For how long writes wait at most for others to come, or for the groups that are on their way. One of these may have
/// to wait for somebody else.
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// The groups that are on their way, in all lanes.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    count: AtomicUsize,
    /// One of them is carried out.
    ended: Notify,
}

/// Takes groups of writes out of the queue and carries them out, one after the other.
pub(super) struct Lane {
    pub(super) waiting: Arc<Mutex<mpsc::Receiver<WaitingWrite>>>,
    pub(super) writer: Writer,
    pub(super) in_flight: Arc<InFlight>,
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
            self.in_flight.count.fetch_sub(1, Ordering::SeqCst);
            self.in_flight.ended.notify_one();
        }
    }

    /// What waits, at least one write, unless there will be none any more. While other groups are on their way, it
    /// waits for enough to come, but not for long.
    async fn take(&self) -> Vec<WaitingWrite> {
        let mut taken = Vec::new();
        let mut waiting = self.waiting.lock().await;
        let mut may_come = true;
        let mut patience = None;
        while may_come && !self.is_worth_a_group(taken.len()) {
            let room = MAX_GROUP - taken.len();
            let is_waited_for = !taken.is_empty();
            if is_waited_for && patience.is_none() {
                patience = Some(Instant::now() + LONGEST_WAIT);
            }
            let until = patience.unwrap_or_else(Instant::now);
            tokio::select! {
                count = waiting.recv_many(&mut taken, room) => may_come = count > 0,
                () = self.in_flight.ended.notified() => {}
                () = sleep_until(until), if is_waited_for => break,
                () = self.closing.cancelled() => {
                    waiting.close();
                    waiting.recv_many(&mut taken, room).await;
                    may_come = false;
                }
            }
        }
        if !taken.is_empty() {
            self.in_flight.count.fetch_add(1, Ordering::SeqCst);
        }
        taken
    }

    fn is_worth_a_group(&self, writes: usize) -> bool {
        let is_first = self.in_flight.count.load(Ordering::SeqCst) == 0;
        writes >= ENOUGH || (is_first && writes > 0)
    }
}
