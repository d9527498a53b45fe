//! The memory that large answers take, within one budget, and the memory of the requests of batches, within another.
//!
//! A client that does not read its answer keeps it in memory. Without a budget, one token could fill the memory by many such
//! answers. So a handler reserves [`Room`] for the largest answer that the request can have *before* it reads any plant. The
//! answer keeps as much of the room as it has bytes, and gives it back when the connection has taken its last part.
//!
//! Answers about one plant, errors and the metrics reserve nothing: they are small, and the limit of connections bounds how
//! many there are.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use actix_web::web::Bytes;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::errors::{ErrorNumber, Failure};
use crate::limits::{ANSWERS_MAX_BYTES, BATCHES_MAX_BYTES};

/// The budgets, for all threads.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    answers: Budget,
    /// A budget of their own, because a batch takes its room before all of its body arrives: clients that send slowly would
    /// leave no room for lists.
    batches: Budget,
    /// Bounds how many parts of exports are made at once: with more, other requests would wait behind a part of each export.
    export_turns: Semaphore,
}

#[derive(Debug)]
struct Budget {
    /// A permit for each free byte.
    free: Arc<Semaphore>,
    most_bytes: usize,
    /// The message without room.
    refusal: &'static str,
}

impl Default for AnswerMemory {
    fn default() -> Self {
        let most_bytes = ANSWERS_MAX_BYTES;
        #[cfg(feature = "__fault-points")]
        let most_bytes = plant_store::fault::limit("answers-max-bytes", most_bytes);
        let answers = "large answers that other clients have not read yet take all memory for answers; \
                       try again later, or ask for less at once";
        let batches =
            "other batches take all memory for batches; try again later, or send smaller ones";
        Self {
            answers: Budget::new(most_bytes, answers),
            batches: Budget::new(BATCHES_MAX_BYTES, batches),
            export_turns: Semaphore::new(half_of_processors()),
        }
    }
}

impl Budget {
    fn new(most_bytes: usize, refusal: &'static str) -> Self {
        Self { free: Arc::new(Semaphore::new(most_bytes)), most_bytes, refusal }
    }

    async fn room_for(&self, bytes: usize, patience: Duration) -> Result<Room, Failure> {
        let bytes = u32::try_from(bytes.min(self.most_bytes)).unwrap_or(u32::MAX);
        match timeout(patience, Arc::clone(&self.free).acquire_many_owned(bytes)).await {
            Ok(Ok(permits)) => Ok(Room(permits)),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(Failure::new(ErrorNumber::Busy, self.refusal)),
        }
    }
}

impl AnswerMemory {
    /// Reserves room for at most this many rows, each as it is read and as it is sent. Waits until other answers have left
    /// room, but not longer than `patience`.
    pub(crate) async fn room_for(
        &self,
        rows: usize,
        row_max_bytes: usize,
        patience: Duration,
    ) -> Result<Room, Failure> {
        self.answers.room_for(rows.saturating_mul(2 * row_max_bytes), patience).await
    }

    /// Reserves room for a batch with a body of at most this many bytes. Waits until other batches have left room, but not
    /// longer than `patience`.
    pub(crate) async fn room_for_batch(
        &self,
        body_max_bytes: usize,
        patience: Duration,
    ) -> Result<Room, Failure> {
        // The body and its writes have about the same size.
        self.batches.room_for(body_max_bytes.saturating_mul(2), patience).await
    }

    /// Waits until a part of an export may be made, and holds the turn until the returned permit is dropped.
    pub(crate) async fn export_turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.export_turns.acquire().await.ok()
    }
}

fn half_of_processors() -> usize {
    thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2))
}

/// Reserved memory.
#[derive(Debug)]
pub(crate) struct Room(OwnedSemaphorePermit);

impl Room {
    /// The answer, or a part of it, which keeps its room until it is dropped. Gives the rest of the room back.
    pub(crate) fn hold(mut self, mut answer: Vec<u8>) -> Bytes {
        answer.shrink_to_fit();
        let excess = self.0.num_permits().saturating_sub(answer.len());
        drop(self.0.split(excess));
        Bytes::from_owner(Held { answer, _room: self })
    }

    /// A JSON text in this room.
    pub(crate) fn hold_json(self, value: &impl Serialize) -> Result<Bytes, Failure> {
        Ok(self.hold(serde_json::to_vec(value).map_err(Failure::internal)?))
    }
}

struct Held {
    answer: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::task::yield_now;

    use super::*;

    const ROW_BYTES: usize = 1000;

    #[tokio::test]
    async fn an_answer_keeps_its_bytes_until_its_last_part_is_dropped() {
        let memory = AnswerMemory::default();
        let room = memory.room_for(3, ROW_BYTES, Duration::ZERO).await.unwrap();
        assert_eq!(memory.answers.free.available_permits(), ANSWERS_MAX_BYTES - 6 * ROW_BYTES);
        let mut answer = room.hold(vec![b'x'; ROW_BYTES]);
        assert_eq!(memory.answers.free.available_permits(), ANSWERS_MAX_BYTES - ROW_BYTES);
        let part = answer.split_to(1);
        let rest = answer.split_to(ROW_BYTES - 1);
        drop(part);
        assert_eq!(memory.answers.free.available_permits(), ANSWERS_MAX_BYTES - ROW_BYTES);
        drop(rest);
        assert_eq!(
            memory.answers.free.available_permits(),
            ANSWERS_MAX_BYTES,
            "{answer:?} keeps room"
        );
    }

    #[tokio::test]
    async fn without_room_an_answer_is_refused_or_waits_as_long_as_it_may() {
        let memory = AnswerMemory::default();
        let all = memory.room_for(1, usize::MAX / 2, Duration::ZERO).await.unwrap();
        assert_eq!(memory.answers.free.available_permits(), 0);
        let refused = memory.room_for(1, ROW_BYTES, Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.number(), ErrorNumber::Busy);
        let mut waiting = Box::pin(memory.room_for(1, ROW_BYTES, Duration::MAX));
        assert!((&mut waiting).now_or_never().is_none());
        drop(all);
        yield_now().await;
        assert!(waiting.now_or_never().is_some_and(|room| room.is_ok()), "there is room");
    }
}
