//! Why a repository did not do what it was asked to.

use std::error::Error;
use std::fmt;
use std::iter::successors;
use std::sync::Arc;

use plant_domain::PlantId;

use crate::Precondition;

/// Why a repository did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
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

/// Why a store cannot be opened, or looked into. The message says what is wrong, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What the store holds is damaged.
    #[error("{0}")]
    Damaged(StoreFailure),
    /// The store cannot be used: it cannot be reached, somebody else has it open, or another version made it.
    #[error("{0}")]
    Unusable(StoreFailure),
}

/// What made a store fail, shared by all that it failed for. It is meant for the log: it may tell of files and folders.
#[derive(Clone, Debug)]
pub struct StoreFailure(Arc<dyn Error + Send + Sync>);

impl StoreFailure {
    /// A failure with this cause.
    #[must_use]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into().into())
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
        write!(formatter, "{}", self.0)?;
        let mut causes = successors(self.0.source(), |cause| (*cause).source());
        causes.try_for_each(|cause| write!(formatter, ": {cause}"))
    }
}

impl Error for StoreFailure {}
