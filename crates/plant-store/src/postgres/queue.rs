//! The writes that wait for a group. Whoever adds one seldom wakes anybody for it: a thread that is woken for each
//! write takes as much time as the write does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::group::MAX_GROUP;
use crate::StoreError;
use crate::write::{Outcome, Write};

/// How many writes wait at most. What comes on top is refused at once ([`StoreError::Busy`]).
pub(super) const QUEUE_CAPACITY: usize = 1024;

/// How many writes make a group that begins although others are on their way. Each group costs PostgreSQL as much as some
/// dozens of its writes do.
const ENOUGH: usize = 48;

/// For how long writes wait at most for others to come, or for the groups that are on their way. One of these may have
/// to wait for somebody else.
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// A write that waits for its turn, and where its outcome goes.
pub(super) type WaitingWrite = (Write, oneshot::Sender<Outcome>);

/// Writes that wait. Groups of them are taken by those who carry them out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// One of those who take groups has to look at what waits.
    look: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<WaitingWrite>,
    /// Until when the first of them waits.
    patience: Option<Instant>,
    groups_in_flight: usize,
    is_closed: bool,
}

impl Queue {
    /// Adds a write, unless too many wait, or none is taken any more.
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
            state.patience = Some(Instant::now() + LONGEST_WAIT);
        }
        drop(state);
        // For the first one somebody has to be awake when its patience ends.
        if count == 1 || count == ENOUGH {
            self.look.notify_one();
        }
        Ok(())
    }

    /// The next group, once it is worth to be carried out. There is none any more where it is closed and empty.
    pub(super) async fn take_group(
        &self,
        closing: &CancellationToken,
    ) -> Option<Vec<WaitingWrite>> {
        loop {
            let patience = {
                let mut state = self.state();
                if let Some(group) = state.take_group() {
                    if !state.waiting.is_empty() {
                        self.look.notify_one();
                    }
                    return Some(group);
                }
                if state.is_closed {
                    return None;
                }
                state.patience
            };
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {}
                () = closing.cancelled() => self.state().is_closed = true,
            }
        }
    }

    /// A group is carried out. Whoever has done it looks for the next one.
    pub(super) fn end_group(&self) {
        self.state().groups_in_flight -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_group(&mut self) -> Option<Vec<WaitingWrite>> {
        let now = Instant::now();
        let is_worth_it = self.groups_in_flight == 0
            || self.waiting.len() >= ENOUGH
            || self.is_closed
            || self.patience.is_some_and(|patience| patience <= now);
        if self.waiting.is_empty() || !is_worth_it {
            return None;
        }
        let rest = self.waiting.split_off(self.waiting.len().min(MAX_GROUP));
        self.patience = (!rest.is_empty()).then(|| now + LONGEST_WAIT);
        self.groups_in_flight += 1;
        Some(std::mem::replace(&mut self.waiting, rest))
    }
}
