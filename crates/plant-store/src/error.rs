//! Why a repository did not do what it was asked to.

use std::fmt;
use std::sync::Arc;

use plant_domain::PlantId;

use crate::Precondition;

/// Why a repository did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// There is a plant with the id of the plant to create; nothing was written.
    #[error("a plant with id {0} exists already")]
    IdTaken(PlantId),
    /// There is no plant with the id of the plant to change; nothing was written.
    #[error("there is no plant with id {0}")]
    NoSuchPlant(PlantId),
    /// The plant is not in the state that the change asks for; nothing was written.
    #[error("the precondition {0} failed")]
    PreconditionFailed(Precondition),
    /// Too much waits to be written, or the disk does not answer; nothing was written.
    #[error("the store is too busy")]
    Busy,
    /// The disk has too little room; nothing was written, except that an import may have taken some of its plants. The
    /// store takes writes again as soon as there is room.
    #[error("the disk of the store is full")]
    DiskFull,
    /// The database does not answer, or takes no writes; nothing was written.
    #[error("the database does not answer or takes no writes: {0}")]
    Unavailable(StoreFailure),
    /// The database refuses this write, and will refuse it again, while it takes others; nothing was written.
    #[error("the database refuses this write: {0}")]
    Refused(StoreFailure),
    /// The store is closed; nothing was written.
    #[error("the store is closed")]
    Closed,
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

/// Two are the same where one is a clone of the other.
impl PartialEq for StoreFailure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StoreFailure {}

impl fmt::Display for StoreFailure {
    /// The whole chain of causes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.0)
    }
}

impl std::error::Error for StoreFailure {}
