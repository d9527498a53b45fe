//! The errors of repositories.

use std::error::Error;
use std::fmt;
use std::iter::successors;
use std::sync::Arc;

use plant_domain::PlantId;

use crate::{Precondition, Revision};

/// Why a repository refused a request or failed. The enum is exhaustive, so that a new error does not compile before
/// each transport has an answer for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The id of the plant to create is taken; nothing was written.
    #[error("a plant with id {0} exists already")]
    IdTaken(PlantId),
    /// The plant to change does not exist; nothing was written.
    #[error("there is no plant with id {0}")]
    NoSuchPlant(PlantId),
    /// The plant does not meet a precondition of the change; nothing was written.
    #[error("the precondition {0} failed")]
    PreconditionFailed(Precondition),
    /// Too many writes wait, or the disk does not answer; nothing was written.
    #[error("the store is too busy")]
    Busy,
    /// The disk is full; nothing was written, except that an import may have stored some of its plants. The store takes
    /// writes again once the disk has room.
    #[error("the disk of the store is full: {0}")]
    DiskFull(DiskShortage),
    /// The database does not answer, or takes no writes; nothing was written.
    #[error("the database does not answer or takes no writes: {0}")]
    Unavailable(StoreFailure),
    /// The database refuses this write permanently, but takes others; nothing was written.
    #[error("the database refuses this write: {0}")]
    Refused(StoreFailure),
    /// The events after a cursor are incomplete: the cursor is of another log, or the store has forgotten some of these
    /// events.
    #[error("some of the events after the cursor are gone")]
    EventsGone,
    /// The plant never had this revision as a state, or the change that made it is forgotten.
    #[error("revision {1} of plant {0} is not known")]
    VersionGone(PlantId, Revision),
    /// The repository makes no backups of its own. The text says what to use instead.
    #[error("this store makes no backups; {0}")]
    NoBackups(&'static str),
    /// Another backup is being made.
    #[error("another backup is being made")]
    BackupRunning,
    /// The archive is required and does not take changes. The store itself takes writes.
    #[error("the archive of the store does not take changes: {0}")]
    NotArchived(StoreFailure),
    /// The store is closed; nothing was written.
    #[error("the store is closed")]
    Closed,
    /// The store failed; the outcome of a write is unknown.
    #[error("the store failed: {0}")]
    Failed(#[from] StoreFailure),
}

/// What a full disk lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskShortage {
    /// Bytes.
    Space,
    /// Inodes: the file system can hold no more files, however many bytes are free.
    Inodes,
}

impl fmt::Display for DiskShortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Space => "no space left",
            Self::Inodes => "no inodes left",
        })
    }
}

/// Why a store cannot be opened or inspected. The message says what is wrong and how to fix it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The content of the store is damaged.
    #[error("{0}")]
    Damaged(StoreFailure),
    /// The store cannot be reached, another process has it open, or another version made it.
    #[error("{0}")]
    Unusable(StoreFailure),
}

/// The cause of a failure, shared by all callers that get it. For the log: it may name files and folders.
#[derive(Clone, Debug)]
pub struct StoreFailure(Arc<dyn Error + Send + Sync>);

impl StoreFailure {
    /// A failure with this cause.
    #[must_use]
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into().into())
    }
}

/// Clones of one failure are equal.
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
