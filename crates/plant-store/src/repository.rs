//! What every plant repository promises.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use plant_domain::{NewPlant, Plant, PlantId};

use crate::IdempotencyDigest;

/// Keeps plants. This documentation is the contract; the conformance suite holds an implementation
/// against it.
///
/// - **Durable.** What a method returns as done is on disk, and stays there whatever is killed.
/// - **A read shows only what is on disk.** It never shows a change that a crash could still take
///   away, and never hides a plant because of a removal that a crash could still undo.
/// - **Atomic.** Concurrent changes to one plant happen one after the other, each as a whole, with
///   the event that tells of it.
/// - **A caller that goes away cancels nothing.** A change that was taken is carried out even when
///   the future that asked for it is dropped.
/// - **After a failure nothing pretends.** Once a write has failed so that its outcome is unknown,
///   every later write fails too, until the repository is opened anew.
#[async_trait]
pub trait PlantRepository: Send + Sync {
    /// Adds a plant whose id is free.
    ///
    /// With an `idempotency` digest, a plant that was created with the same digest counts as this
    /// very plant: it is returned as it was sent, with its present revision, and nothing is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::IdTaken`] when there is a plant with this id, [`StoreError::Busy`] when too
    /// much waits already; in both cases nothing was written. After [`StoreError::Failed`] the
    /// outcome is unknown: read before trying again.
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<StoredPlant, StoreError>;

    /// The plant with this id, or `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when it cannot be read, or when what stands there may not be on disk.
    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError>;

    /// Whether writes are taken now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while the disk does not answer, [`StoreError::Failed`] once the store
    /// has failed.
    async fn check_ready(&self) -> Result<(), StoreError>;

    /// Waits until the store has failed for good; for a store that does not fail, for ever.
    async fn failed(&self) -> StoreFailure;

    /// Carries out what was taken, then takes no more writes. Reading goes on.
    ///
    /// # Errors
    ///
    /// When the store has failed, now or before; those who were waiting have been told.
    async fn close(&self) -> Result<(), StoreFailure>;
}

/// A plant as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPlant {
    /// The plant's id.
    pub id: PlantId,
    /// The plant itself.
    pub plant: Plant,
    /// The state of the plant that this is.
    pub revision: Revision,
}

impl StoredPlant {
    /// The plant with its id, without the revision.
    #[must_use]
    pub fn into_new_plant(self) -> NewPlant {
        NewPlant::new(self.id, self.plant)
    }
}

/// Names one state of one plant: the sequence number of the event that led to it. It grows with
/// each change and is never used again, not even when a plant is removed and created anew.
///
/// ```
/// use plant_store::Revision;
///
/// assert!(Revision::from(2) > Revision::from(1));
/// assert_eq!(Revision::from(2).to_string(), "2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The sequence number of the event that led to this state; the first event has number 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for Revision {
    fn from(sequence: u64) -> Self {
        Self(sequence)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Why a repository did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// There is a plant with the id of the plant to create; nothing was written.
    #[error("a plant with id {0} exists already")]
    IdTaken(PlantId),
    /// Too much waits to be written, or the disk does not answer; nothing was written.
    #[error("the store is too busy")]
    Busy,
    /// The store failed; the outcome of a write is unknown.
    #[error("the store failed: {0}")]
    Failed(#[from] StoreFailure),
}

/// What made a store fail, shared by all that it failed for. It is meant for the log: it may tell
/// of files and folders.
#[derive(Clone, Debug)]
pub struct StoreFailure(Arc<anyhow::Error>);

impl From<anyhow::Error> for StoreFailure {
    fn from(cause: anyhow::Error) -> Self {
        Self(Arc::new(cause))
    }
}

impl fmt::Display for StoreFailure {
    /// The whole chain of causes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.0)
    }
}

impl std::error::Error for StoreFailure {}
