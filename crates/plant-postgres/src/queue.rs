//! The queue of waiting writes, and the lanes. A lane carries out one group after the other.
//!
//! A push rarely wakes a lane: waking costs both threads several microseconds, and a whole create takes only twenty.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plant_store::StoreError;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::group::{MAX_GROUP, WaitingWrite};
use crate::sessions::PATIENCE;
use crate::writer::Writer;

/// How many writes may wait. Further ones fail at once ([`StoreError::Busy`]).
pub(super) const QUEUE_CAPACITY: usize = 1024;

/// From this many waiting writes on, a group begins although others are in flight. For PostgreSQL, the fixed cost of a
/// group equals that of dozens of writes.
const ENOUGH: usize = 48;

/// How long a write waits for more writes, or for a group in flight, which may itself wait for another client.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// How many writes of recently refused plants may wait. Further ones fail at once ([`StoreError::Busy`]).
pub(super) const WAITING_ALONE: usize = 256;

/// The waiting writes, which lanes take as groups.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes one lane.
    look: Notify,
    longest_wait: Duration,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: Vec<WaitingWrite>,
    /// When the first of them will have waited long enough.
    deadline: Option<Instant>,
    groups_in_flight: usize,
    /// Whether the queue takes no more writes. Set under the lock, so that no write is added after a lane's last check.
    is_closed: bool,
}

impl Queue {
    /// With [`LONGEST_WAIT`], except in tests.
    pub(super) fn new(longest_wait: Duration) -> Self {
        Self { state: Mutex::default(), look: Notify::new(), longest_wait }
    }

    pub(super) fn push(&self, write: WaitingWrite) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(StoreError::Closed);
        }
        if state.waiting.len() >= QUEUE_CAPACITY {
            return Err(StoreError::Busy);
        }
        state.waiting.push(write);
        let count = state.waiting.len();
        if count == 1 {
            state.deadline = Some(Instant::now() + self.longest_wait);
        }
        drop(state);
        // For the first write, a lane must learn the deadline.
        if count == 1 || count == ENOUGH {
            self.look.notify_one();
        }
        Ok(())
    }

    /// The next group, once it is large or old enough or no other group is in flight. `None` once the queue is closed
    /// and empty.
    pub(super) async fn take_group(
        &self,
        closing: &CancellationToken,
    ) -> Option<Vec<WaitingWrite>> {
        loop {
            let deadline = {
                let mut state = self.state();
                if let Some(group) = state.next_group(self.longest_wait) {
                    if !state.waiting.is_empty() {
                        self.look.notify_one();
                    }
                    return Some(group);
                }
                if state.is_closed {
                    return None;
                }
                state.deadline
            };
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
                () = closing.cancelled() => self.state().is_closed = true,
            }
        }
    }

    pub(super) fn length(&self) -> usize {
        self.state().waiting.len()
    }

    /// Notes that a group is carried out.
    pub(super) fn end_group(&self) {
        self.state().groups_in_flight -= 1;
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn next_group(&mut self, longest_wait: Duration) -> Option<Vec<WaitingWrite>> {
        let now = Instant::now();
        let is_worth_it = self.groups_in_flight == 0
            || self.waiting.len() >= ENOUGH
            || self.is_closed
            || self.deadline.is_some_and(|deadline| deadline <= now);
        if self.waiting.is_empty() || !is_worth_it {
            return None;
        }
        let rest = self.waiting.split_off(self.waiting.len().min(MAX_GROUP));
        self.deadline = (!rest.is_empty()).then(|| now + longest_wait);
        self.groups_in_flight += 1;
        Some(std::mem::replace(&mut self.waiting, rest))
    }
}

/// Carries out groups, each in its turn, until the queue is closed. Writes of recently refused plants go to `alone`, so
/// that others do not wait for them.
pub(super) async fn carry_out_groups(
    queue: Arc<Queue>,
    writer: Arc<Writer>,
    turns: Arc<Semaphore>,
    alone: mpsc::Sender<(Instant, WaitingWrite)>,
    closing: CancellationToken,
) {
    while let Some(group) = queue.take_group(&closing).await {
        let is_refused = |waiting: &WaitingWrite| writer.health.is_refused(waiting.write.id());
        let (refused, group): (Vec<_>, Vec<_>) = group.into_iter().partition(is_refused);
        for waiting in refused {
            if let Err(full) = alone.try_send((Instant::now(), waiting)) {
                let (_, waiting) = full.into_inner();
                waiting.answer(Err(StoreError::Busy));
            }
        }
        if !group.is_empty() {
            // Never closed.
            let _turn = turns.acquire().await;
            carry_out(&writer, group).await;
        }
        queue.end_group();
    }
}

/// Carries out writes one by one. While PostgreSQL is unreachable, each takes long, so writes that have waited for
/// [`PATIENCE`] fail ([`StoreError::Busy`]).
pub(super) async fn carry_out_alone(
    writer: Arc<Writer>,
    mut refused: mpsc::Receiver<(Instant, WaitingWrite)>,
) {
    while let Some((since, waiting)) = refused.recv().await {
        if since.elapsed() > PATIENCE {
            waiting.answer(Err(StoreError::Busy));
        } else {
            carry_out(&writer, vec![waiting]).await;
        }
    }
}

/// Carries out a group. If that panics, the dropped senders tell the callers.
async fn carry_out(writer: &Arc<Writer>, group: Vec<WaitingWrite>) {
    let writer = Arc::clone(writer);
    let carried_out = tokio::spawn(async move { writer.carry_out(group).await });
    if carried_out.await.is_err() {
        log::error!("a group of writes panicked");
    }
}

#[cfg(test)]
mod tests {
    use plant_domain::PlantId;
    use plant_store::Preconditions;
    use plant_store::write::Write;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    /// In time for a lane that is woken, and far too early for one that waits for [`LONG`].
    const SOON: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(3600);

    fn any_write() -> WaitingWrite {
        let (id, preconditions) = (PlantId::from(1), Preconditions::default());
        WaitingWrite::new(Write::Delete(id, preconditions), None).0
    }

    fn push(queue: &Queue, count: usize) {
        for _ in 0..count {
            queue.push(any_write()).expect("there is room");
        }
    }

    /// The size of the next group, which a lane takes [`SOON`].
    fn next_group(queue: &Arc<Queue>, closing: &CancellationToken) -> JoinHandle<Option<usize>> {
        let (queue, closing) = (Arc::clone(queue), closing.clone());
        tokio::spawn(async move {
            let group = timeout(SOON, queue.take_group(&closing)).await;
            Some(group.expect("a lane is woken")?.len())
        })
    }

    #[tokio::test]
    async fn a_group_begins_at_once_if_no_other_is_in_flight() {
        let (queue, closing) = (Arc::new(Queue::new(LONG)), CancellationToken::new());
        let group = next_group(&queue, &closing);
        tokio::task::yield_now().await;
        push(&queue, 1);
        assert_eq!(group.await.expect("a group"), Some(1));
        queue.end_group();
        push(&queue, 2);
        assert_eq!(next_group(&queue, &closing).await.expect("a group"), Some(2));
    }

    #[tokio::test]
    async fn while_a_group_is_in_flight_the_next_one_begins_when_it_is_large_enough() {
        let (queue, closing) = (Arc::new(Queue::new(LONG)), CancellationToken::new());
        push(&queue, 1);
        next_group(&queue, &closing).await.expect("a group");

        let group = next_group(&queue, &closing);
        tokio::task::yield_now().await;
        push(&queue, ENOUGH - 1);
        tokio::task::yield_now().await;
        assert!(!group.is_finished());
        push(&queue, 1);
        assert_eq!(group.await.expect("a group"), Some(ENOUGH));
    }

    #[tokio::test]
    async fn while_a_group_is_in_flight_the_next_one_begins_when_it_is_old_enough() {
        let (queue, closing) = (Arc::new(Queue::new(LONGEST_WAIT)), CancellationToken::new());
        push(&queue, 1);
        next_group(&queue, &closing).await.expect("a group");

        let group = next_group(&queue, &closing);
        tokio::task::yield_now().await;
        let begun = Instant::now();
        push(&queue, 1);
        assert_eq!(group.await.expect("a group"), Some(1));
        assert!(begun.elapsed() >= LONGEST_WAIT, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn writes_beyond_the_largest_group_are_the_next_group_at_once() {
        let (queue, closing) = (Arc::new(Queue::new(LONG)), CancellationToken::new());
        push(&queue, 1);
        next_group(&queue, &closing).await.expect("a group");
        let groups = [next_group(&queue, &closing), next_group(&queue, &closing)];
        tokio::task::yield_now().await;
        // The first write wakes the lane, which waits again.
        push(&queue, 1);
        tokio::task::yield_now().await;
        push(&queue, MAX_GROUP + ENOUGH - 1);
        let mut taken = Vec::new();
        for group in groups {
            taken.push(group.await.expect("a task").expect("a group"));
        }
        taken.sort_unstable();
        assert_eq!(taken, [ENOUGH, MAX_GROUP]);
    }

    #[tokio::test]
    async fn a_closed_queue_gives_out_its_last_writes_and_takes_no_more() {
        let (queue, closing) = (Arc::new(Queue::new(LONG)), CancellationToken::new());
        push(&queue, 1);
        next_group(&queue, &closing).await.expect("a group");
        push(&queue, 2);
        let group = next_group(&queue, &closing);
        tokio::task::yield_now().await;
        closing.cancel();
        assert_eq!(group.await.expect("a group"), Some(2));
        assert_eq!(next_group(&queue, &closing).await.expect("an end"), None);
        assert!(matches!(queue.push(any_write()), Err(StoreError::Closed)));
    }

    #[test]
    fn a_full_queue_refuses_writes() {
        let queue = Queue::new(LONG);
        push(&queue, QUEUE_CAPACITY);
        assert!(matches!(queue.push(any_write()), Err(StoreError::Busy)));
    }
}
