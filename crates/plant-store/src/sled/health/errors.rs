//! Errors that tell a failed disk from a damaged database, and say what to do.

use std::io::{self, ErrorKind};

use thiserror::Error;

use crate::format::OtherFormat;
use crate::{OpenError, StoreFailure};

/// Marks an error about the content of the files, not about the disk, and says what to do.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Damaged(&'static str);

const DAMAGED_DATABASE: Damaged = Damaged(
    "if the disk works and has room, the database is damaged; restore a backup into a new folder, and \
     keep this one",
);

const DAMAGED_BACKUP: Damaged =
    Damaged("if the disk works, the backup is cut or damaged; take another one");

/// Adds [`Damaged`] to an error about the content of a database.
pub(crate) fn advise(error: anyhow::Error) -> anyhow::Error {
    if is_about_content(&error) { error.context(DAMAGED_DATABASE) } else { error }
}

/// Adds [`Damaged`] to an error about the content of a backup.
pub(crate) fn advise_on_backup(error: anyhow::Error) -> anyhow::Error {
    if is_about_content(&error) { error.context(DAMAGED_BACKUP) } else { error }
}

/// Whether an error is about the content of the files: the disk works, and this version knows the format.
pub(crate) fn is_about_content(error: &anyhow::Error) -> bool {
    kind_on_disk(error).is_none() && error.downcast_ref::<OtherFormat>().is_none()
}

/// Whether this user lacks permission to write.
pub(crate) fn is_about_access(error: &anyhow::Error) -> bool {
    matches!(kind_on_disk(error), Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
}

/// Says what to do if the disk, or the path to it, has failed.
pub(crate) fn advise_on_disk(error: anyhow::Error) -> anyhow::Error {
    let Some(kind) = kind_on_disk(&error) else { return error };
    error.context(match kind {
        ErrorKind::PermissionDenied => {
            "this user may not read and write all of it; check who owns the folder, \
             the files in it and the folders above it, or use another folder"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only; mount it for writing, or use another folder"
        }
        ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename => {
            "something else is in the way; check the path, or use another folder"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "the disk is full, or has no inodes left (`df -i`); see that it has room"
        }
        _ => "it cannot be read and written; check the path, and that the disk works and has room",
    })
}

fn kind_on_disk(error: &anyhow::Error) -> Option<ErrorKind> {
    error.chain().find_map(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.map(io::Error::kind).filter(|kind| !is_of_cut_file(*kind))
    })
}

/// Whether the disk works, but a file is cut or missing.
const fn is_of_cut_file(kind: ErrorKind) -> bool {
    use ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(kind, InvalidData | NotFound | UnexpectedEof)
}

pub(crate) fn open_error(error: anyhow::Error) -> OpenError {
    match error.downcast_ref::<Damaged>() {
        Some(_) => OpenError::Damaged(StoreFailure::new(error)),
        None => OpenError::Unusable(StoreFailure::new(error)),
    }
}
