//! Files with secrets, or what is as good as one: they are small, and it matters who may get at them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::fs::OFlags;

use crate::files::directory_entry::{DirectoryEntry, FOLDER_ADVICE};

/// The largest private file that is read, in bytes.
pub(crate) const PRIVATE_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// A file that was read, and who may get at it.
#[derive(PartialEq, Eq)]
pub(crate) struct PrivateFile {
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
    mode: u32,
}

impl PrivateFile {
    /// Reads a file, which the command-line flag `flag` names; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be read (then there is an [`io::Error`] in the chain of causes), is no file, or has
    /// more than [`PRIVATE_FILE_MAX_BYTES`].
    pub(crate) fn read(path: &Path, flag: &str) -> anyhow::Result<Option<Self>> {
        let cannot_read =
            || format!("cannot read {}; check the path, and who owns it", path.display());
        // A pipe would be waited for otherwise.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = match File::options().read(true).custom_flags(nonblocking).open(path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                ensure!(!path.is_symlink(), "{} is a link to nothing", path.display());
                return Ok(None);
            }
            Err(cause) => return Err(cause).with_context(cannot_read),
        };
        let metadata = file.metadata().with_context(cannot_read)?;
        ensure!(metadata.is_file(), "{} is not a file; name another by {flag}", path.display());
        // A file that is mounted by itself stays the old one when it is replaced where it comes from.
        ensure!(
            metadata.nlink() > 0,
            "{} was replaced where it is mounted from; mount its folder instead",
            path.display()
        );
        let mut bytes = Vec::new();
        let read = file.take(PRIVATE_FILE_MAX_BYTES + 1).read_to_end(&mut bytes);
        read.with_context(cannot_read)?;
        ensure!(
            bytes.len() as u64 <= PRIVATE_FILE_MAX_BYTES,
            "{} has more than {PRIVATE_FILE_MAX_BYTES} bytes; name another by {flag}",
            path.display()
        );
        Ok(Some(Self { bytes, mode: metadata.mode() }))
    }

    /// Whether its mode lets any of these at it: bits of a mode, such as `0o077` for all but its owner.
    #[must_use]
    pub(crate) fn is_open_to(&self, others: u32) -> bool {
        self.mode & others != 0
    }
}

/// Writes a file for its owner alone, whole or not at all, and syncs it. Where root writes it, the owner of
/// the file that it replaces, or else of the folder, owns it: an administrator may write it for the server's
/// user. Nobody else may write it meanwhile.
///
/// # Errors
///
/// When a link of another user is there, or the disk does not take it; then the file is as it was.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
        let entry = DirectoryEntry::find(path)?;
        entry.replace(text).map_err(Into::into)
    };
    write().map_err(|error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        None => error,
        Some(io::ErrorKind::ResourceBusy) => error.context(format!(
            "cannot write {}; it is a mount of its own; change it where it comes from, and mount its folder \
             instead",
            path.display()
        )),
        Some(_) => error.context(format!("cannot write {}; {FOLDER_ADVICE}", path.display())),
    })
}
