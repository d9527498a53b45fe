//! Why a backup cannot be restored.

use crate::StoreFailure;
use crate::sled::backup::position::Position;
use crate::sled::health::errors::{advise_on_backup, advise_on_disk, is_about_content};

/// Why a backup cannot be restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is damaged.
    #[error("{0}")]
    Damaged(StoreFailure),
    /// The archive is whole only up to a position: after it, there is a gap, damage, or another history.
    #[error("{cause}")]
    NotWhole {
        /// The newest change before the gap.
        whole_up_to: Position,
        /// What is wrong after that change.
        cause: StoreFailure,
    },
    /// The moment is before the backup, or in a history of neither the backup nor the archive.
    #[error("{0}")]
    NoSuchMoment(StoreFailure),
    /// The disk fails, or the archive has nothing of the backup's history.
    #[error("{0}")]
    Unusable(StoreFailure),
}

impl RestoreError {
    /// [`Self::Damaged`], or [`Self::Unusable`] if the disk fails.
    pub(crate) fn damaged(cause: anyhow::Error) -> Self {
        if is_about_content(&cause) {
            Self::Damaged(StoreFailure::new(advise_on_backup(cause)))
        } else {
            Self::unusable(cause)
        }
    }

    /// [`Self::NotWhole`], or [`Self::Unusable`] if the disk fails.
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
