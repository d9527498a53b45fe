//! Why a backup cannot be restored.

use crate::StoreFailure;
use crate::sled::backup::position::Position;
use crate::sled::health::errors::{advise_on_backup, advise_on_disk, is_about_content};

/// Why a backup cannot be restored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup is damaged.
    #[error("{0}")]
    Damaged(StoreFailure),
    /// The archive has a gap, is damaged, or belongs to another history. It is whole up to a position.
    #[error("{cause}")]
    NotWhole {
        /// The newest change before the gap.
        whole_up_to: Position,
        /// What is wrong behind it.
        cause: StoreFailure,
    },
    /// The moment is before the backup, or of another history than the backup and the archive.
    #[error("{0}")]
    NoSuchMoment(StoreFailure),
    /// The disk fails, or the archive has nothing of the history of the backup.
    #[error("{0}")]
    Unusable(StoreFailure),
}

impl RestoreError {
    /// Of what a backup holds, unless its disk fails.
    pub(crate) fn damaged(cause: anyhow::Error) -> Self {
        if is_about_content(&cause) {
            Self::Damaged(StoreFailure::new(advise_on_backup(cause)))
        } else {
            Self::unusable(cause)
        }
    }

    /// Of what an archive holds behind a position, unless its disk fails.
    pub(crate) fn not_whole(whole_up_to: Position, cause: anyhow::Error) -> Self {
        if is_about_content(&cause) {
            Self::NotWhole { whole_up_to, cause: StoreFailure::new(cause) }
        } else {
            Self::unusable(cause)
        }
    }

    pub(crate) fn no_such_moment(cause: anyhow::Error) -> Self {
        Self::NoSuchMoment(StoreFailure::new(cause))
    }

    pub(crate) fn unusable(cause: anyhow::Error) -> Self {
        Self::Unusable(StoreFailure::new(advise_on_disk(cause)))
    }
}
