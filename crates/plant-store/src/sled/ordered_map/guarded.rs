//! Guards against panics of sled, and errors that distinguish a failed disk from a damaged database.

use std::io::{self, ErrorKind};
use std::mem;
use std::panic::{self, AssertUnwindSafe};

use anyhow::{Context as _, anyhow};
use thiserror::Error;

use crate::{OpenError, StoreFailure};

/// Marks an error whose cause is the content of the files, not the disk.
#[derive(Debug, Error)]
#[error(
    "if the disk works and has room, the database is damaged; restore a backup into a new folder, and \
     keep this one"
)]
pub(in crate::sled) struct Damaged(());

/// Turns a panic of sled into an error. sled panics on some damaged files.
pub(in crate::sled) fn guarded<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let is_of_disk = tells_of_disk(text);
        let text = format!("sled panicked: {text}");
        Err(if is_of_disk { io::Error::other(text).into() } else { anyhow!(text) })
    })
}

/// Whether sled has unwrapped an error of the disk. The text of the panic then has the error's `Debug` form, sled's or
/// the standard library's.
fn tells_of_disk(panic: &str) -> bool {
    const DISK: [&str; 3] = ["Io(", "Os { code: ", "Custom { kind: "];
    const CONTENT: [&str; 3] = ["InvalidData", "NotFound", "UnexpectedEof"];
    DISK.iter().any(|words| panic.contains(words))
        && !CONTENT.iter().any(|kind| panic.contains(kind))
}

/// The last handle to a database. Dropping it makes sled flush and sync its file, and panic when that fails.
#[derive(Debug)]
pub(in crate::sled) struct LastHandle(Option<sled::Db>);

impl LastHandle {
    pub(in crate::sled) const fn new(db: sled::Db) -> Self {
        Self(Some(db))
    }

    pub(in crate::sled) fn close(mut self) -> anyhow::Result<()> {
        self.close_once()
    }

    /// Leaks the database: on a failed disk the close may wait forever.
    pub(in crate::sled) fn leave_open(mut self) {
        mem::forget(self.0.take());
    }

    fn close_once(&mut self) -> anyhow::Result<()> {
        let db = self.0.take();
        guarded(|| {
            drop(db);
            Ok(())
        })
        .context("sled cannot sync its file")
    }
}

impl Drop for LastHandle {
    fn drop(&mut self) {
        if let Err(cause) = self.close_once() {
            log::error!(
                "the disk failed while sled was closed; everything acknowledged is on disk since \
                 the checkpoint before: {cause:#}"
            );
        }
    }
}

/// Adds [`Damaged`], which says what to do, unless the disk has failed or the error says so already.
pub(in crate::sled) fn advise(error: anyhow::Error) -> anyhow::Error {
    let is_said = is_of_disk(&error) || error.downcast_ref::<Damaged>().is_some();
    if is_said { error } else { error.context(Damaged(())) }
}

/// Whether the disk has failed, or the way to it.
pub(in crate::sled) fn is_of_disk(error: &anyhow::Error) -> bool {
    kind_on_disk(error).is_some()
}

/// Says what to do when the disk has failed, or the way to it.
pub(in crate::sled) fn advise_on_disk(error: anyhow::Error) -> anyhow::Error {
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

/// Whether the disk works and the content is wrong: a file is truncated or missing.
fn is_about_content(error: &io::Error) -> bool {
    use ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

pub(in crate::sled) fn failure_in_background(db: &sled::Db) -> sled::Result<()> {
    db.context.global_error()
}

pub(in crate::sled) fn open_error(error: anyhow::Error) -> OpenError {
    match error.downcast_ref::<Damaged>() {
        Some(_) => OpenError::Damaged(StoreFailure::new(error)),
        None => OpenError::Unusable(StoreFailure::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics_with(text: &'static str) -> anyhow::Error {
        guarded(|| -> anyhow::Result<()> { panic!("{text}") }).expect_err("it panics")
    }

    #[test]
    fn a_panic_over_an_error_of_the_disk_is_an_error_of_the_disk() {
        for text in [
            r#"called `Result::unwrap()` on an `Err` value: Os { code: 5, kind: Uncategorized, message: "Input/output error" }"#,
            "failed to flush: Io(Os { code: 28, kind: StorageFull })",
            r#"called `Result::unwrap()` on an `Err` value: Custom { kind: Other, error: "flush" }"#,
        ] {
            assert!(is_of_disk(&panics_with(text)), "{text}");
        }
    }

    #[test]
    fn a_panic_over_the_content_of_the_files_is_damage() {
        for text in [
            "tried to serialize Uninitialized",
            r#"Io(Custom { kind: UnexpectedEof, error: "failed to fill whole buffer" })"#,
            r#"Io(Os { code: 2, kind: NotFound, message: "No such file or directory" })"#,
        ] {
            let error = advise(panics_with(text));
            assert!(error.downcast_ref::<Damaged>().is_some(), "{text}");
        }
    }
}
