//! Batches: several writes that happen as one.

use plant_domain::{Plant, PlantId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::format::{Format, whole};
use crate::write::{Created, Decision, Put, Write, Written};
use crate::{
    Author, EventKind, IdempotencyDigest, Revision, StoreError, StoreFailure, StoredPlant,
};

/// The most writes of a [`Batch`]; the least is one.
pub const BATCH_MAX_WRITES: usize = 1_000;

const RESULTS: Format = Format { name: "the results of a batch", oldest: 1, newest: 1 };

/// Writes that all happen, or none.
#[derive(Clone, Debug)]
pub struct Batch {
    /// In order, at most [`BATCH_MAX_WRITES`]. Each is decided on the results of those before.
    pub writes: Vec<Write>,
    /// The author of the changes.
    pub by: Option<Author>,
    /// Recognizes a retry of the whole batch.
    pub idempotency: Option<IdempotencyDigest>,
}

/// Why a batch was not carried out. No part of it was, unless the outcome is unknown ([`StoreError::Failed`]).
#[derive(Clone, Debug, Error)]
pub enum BatchError {
    /// The write with this index, counted from 0, is refused.
    #[error("write {0} of the batch is refused: {1}")]
    Refused(usize, StoreError),
    /// The store does not carry out the batch as a whole.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Batch {
    /// Checks that the batch has at most [`BATCH_MAX_WRITES`] writes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`].
    pub fn check(&self) -> Result<(), StoreError> {
        if self.writes.len() <= BATCH_MAX_WRITES {
            return Ok(());
        }
        let cause = format!("a batch has at most {BATCH_MAX_WRITES} writes");
        Err(StoreError::Refused(StoreFailure::new(cause)))
    }

    /// The answer to a retry of the batch, from its stored results. `version` finds a plant at a revision; `None` if that
    /// is forgotten.
    ///
    /// # Errors
    ///
    /// Those of `version`.
    pub fn repeated<E>(
        &self,
        results: &[StoredResult],
        version: impl Fn(PlantId, Revision) -> Result<Option<Plant>, E>,
    ) -> Result<Result<Vec<Written>, BatchError>, E> {
        let mut repeated = Vec::with_capacity(results.len());
        for (index, (write, result)) in self.writes.iter().zip(results).enumerate() {
            let version = match result.needed_version(write) {
                Some((id, revision)) => version(id, revision)?,
                None => None,
            };
            match result.result(write, version) {
                Ok(written) => repeated.push(written),
                Err(forgotten) => return Ok(Err(BatchError::Refused(index, forgotten))),
            }
        }
        Ok(Ok(repeated))
    }
}

/// A stored result of one write. The text of the plant is left out: the retried write has it, or the history of the
/// plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResult {
    event: Option<EventKind>,
    /// The revision of the plant after the write; 0 if it was deleted.
    revision: u64,
    is_current: bool,
}

impl StoredResult {
    /// The bytes to store for these decisions.
    ///
    /// # Errors
    ///
    /// Never, in practice.
    pub fn encode<'a>(
        decisions: impl IntoIterator<Item = &'a Decision>,
    ) -> Result<Vec<u8>, StoreFailure> {
        let stored = |decision: &Decision| Self {
            event: decision.event,
            revision: decision.after().map_or(0, |after| after.stored.revision.get()),
            is_current: decision.is_current,
        };
        let stored: Vec<Self> = decisions.into_iter().map(stored).collect();
        RESULTS.encode(&stored, 16 * stored.len()).map_err(StoreFailure::new)
    }

    /// The results in stored bytes.
    ///
    /// # Errors
    ///
    /// When the bytes are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>, StoreFailure> {
        let decode = || whole(RESULTS.version_of(bytes)?.1);
        decode().map_err(StoreFailure::new)
    }

    /// The same result with another revision.
    #[must_use]
    pub fn map_revision(self, map: impl FnOnce(Revision) -> Revision) -> Self {
        Self { revision: map(Revision::from(self.revision)).get(), ..self }
    }

    /// The version of a plant that a retry of this write needs, if it needs one.
    #[must_use]
    pub fn needed_version(&self, write: &Write) -> Option<(PlantId, Revision)> {
        match write {
            Write::Patch(id, ..) => Some((*id, Revision::from(self.revision))),
            _ => None,
        }
    }

    /// The result of the retried write. `version` is the needed version. Fails if that is forgotten.
    fn result(&self, write: &Write, version: Option<Plant>) -> Result<Written, StoreError> {
        let revision = Revision::from(self.revision);
        let stored = |id, plant| StoredPlant { id, plant, revision };
        Ok(match write {
            Write::Create(new_plant, _) => {
                let stored = stored(new_plant.id(), new_plant.plant().clone());
                Written::Created(Created { stored, is_current: self.is_current })
            }
            Write::Put(new_plant, _) => {
                let stored = stored(new_plant.id(), new_plant.plant().clone());
                Written::Put(Put { stored, is_new: self.event == Some(EventKind::Created) })
            }
            Write::Patch(id, ..) => {
                let plant = version.ok_or(StoreError::VersionGone(*id, revision))?;
                Written::Patched(stored(*id, plant))
            }
            Write::Delete(..) => Written::Deleted,
        })
    }
}
