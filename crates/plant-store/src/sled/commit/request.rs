//! What callers ask of the commit thread.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::write::{Decision, Write};
use crate::{Author, Batch, BatchError, StoreError, Written};

pub(crate) type Outcome = Result<Decision, StoreError>;

/// The sender to a caller that waits for an outcome. The commit thread drops the sender when the store fails.
pub(crate) type Answer<T> = oneshot::Sender<T>;

/// What is decided as a whole.
#[derive(Debug)]
pub(crate) enum Request {
    Write(Write, Option<Author>, Answer<Outcome>),
    /// With its permit, held until the batch is decided.
    Batch(Batch, Answer<Result<Vec<Written>, BatchError>>, OwnedSemaphorePermit),
}

impl Request {
    pub(super) const fn writes(&self) -> usize {
        match self {
            Self::Write(..) => 1,
            Self::Batch(batch, ..) => batch.writes.len(),
        }
    }
}
