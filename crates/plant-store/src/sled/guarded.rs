//! Guards against what sled does with damaged files.

use std::io::{self, ErrorKind};
use std::panic::{self, AssertUnwindSafe};

use anyhow::anyhow;
use thiserror::Error;

/// A database cannot be opened because what is in its files is wrong: it stands in the chain of the
/// error.
#[derive(Debug, Error)]
#[error(
    "if the disk works and has room, the database is damaged; restore a backup into a new folder, and \
     keep this one"
)]
pub struct Damaged(());

/// Does something with sled, whose panic becomes an error: it panics on some damaged files.
pub(super) fn guarded<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let text = format!("sled panicked: {text}");
        // It unwraps errors of the disk here and there.
        Err(if text.contains("Io(") { io::Error::other(text).into() } else { anyhow!(text) })
    })
}

/// Says what to do about a database that cannot be read. Unless it is the disk that fails, it is
/// [`Damaged`].
pub(super) fn advise(error: anyhow::Error) -> anyhow::Error {
    if is_of_disk(&error) { error } else { error.context(Damaged(())) }
}

/// Whether it is the disk that failed, or the way to it.
pub(super) fn is_of_disk(error: &anyhow::Error) -> bool {
    kind_on_disk(error).is_some()
}

/// Says what to do where it is the disk that fails, or the way to it.
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
        let cause = match cause.downcast_ref() {
            Some(sled::Error::Io(cause)) => Some(cause),
            _ => cause.downcast_ref::<io::Error>(),
        };
        cause.filter(|cause| !is_about_content(cause)).map(io::Error::kind)
    })
}

/// Whether the disk did what it should, and what it has is wrong: a file that ends too early, or is gone.
fn is_about_content(error: &io::Error) -> bool {
    use ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
