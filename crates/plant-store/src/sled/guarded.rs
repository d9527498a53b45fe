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
        Err(anyhow!("sled panicked: {text}"))
    })
}

/// Says what to do about a database that cannot be read. Unless it is the disk that fails, it is
/// [`Damaged`].
pub(super) fn advise(error: anyhow::Error) -> anyhow::Error {
    let is_io = error.chain().any(|cause| {
        let cause = match cause.downcast_ref() {
            Some(sled::Error::Io(cause)) => Some(cause),
            _ => cause.downcast_ref::<io::Error>(),
        };
        cause.is_some_and(|cause| !is_about_content(cause))
    });
    if is_io {
        error.context("the disk cannot be read or written; make sure that it works and has room")
    } else {
        error.context(Damaged(()))
    }
}

/// Whether the disk did what it should, and what it has is wrong: a file that ends too early, or is gone.
fn is_about_content(error: &io::Error) -> bool {
    use ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}
