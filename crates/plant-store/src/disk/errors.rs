//! Errors that distinguish a failed disk from a damaged database, and say what to do.

use std::io::{self, ErrorKind};

use thiserror::Error;

use crate::{OpenError, StoreFailure};

/// Marks an error whose cause is the content of the files, not the disk.
#[derive(Debug, Error)]
#[error(
    "if the disk works and has room, the database is damaged; restore a backup into a new folder, and \
     keep this one"
)]
pub(super) struct Damaged;

/// Adds [`Damaged`], which says what to do, unless the disk has failed or the error says so already.
pub(super) fn advise(error: anyhow::Error) -> anyhow::Error {
    let is_said = is_of_disk(&error) || error.downcast_ref::<Damaged>().is_some();
    if is_said { error } else { error.context(Damaged) }
}

/// Whether the disk has failed, or the way to it.
pub(super) fn is_of_disk(error: &anyhow::Error) -> bool {
    kind_on_disk(error).is_some()
}

/// Says what to do when the disk has failed, or the way to it.
pub(super) fn advise_on_disk(error: anyhow::Error) -> anyhow::Error {
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
            "the disk is full; see that it has room"
        }
        _ => "it cannot be read and written; check the path, and that the disk works and has room",
    })
}

fn kind_on_disk(error: &anyhow::Error) -> Option<ErrorKind> {
    error.chain().find_map(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.filter(|cause| !is_about_content(cause)).map(io::Error::kind)
    })
}

/// Whether the disk works and the content is wrong: a file is truncated or missing.
fn is_about_content(error: &io::Error) -> bool {
    use ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

pub(super) fn open_error(error: anyhow::Error) -> OpenError {
    match error.downcast_ref::<Damaged>() {
        Some(_) => OpenError::Damaged(StoreFailure::new(error)),
        None => OpenError::Unusable(StoreFailure::new(error)),
    }
}
