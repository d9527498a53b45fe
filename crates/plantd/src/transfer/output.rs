//! Where a command writes. A file gets a whole export, or stays unchanged.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use crate::files::directory_entry::folder_of;
use crate::print::{CANNOT_PRINT, ReaderGone};

/// The path that stands for standard output.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// The bits of a file's mode that are permissions.
const MODE_PERMISSIONS: u32 = 0o7777;

/// Standard output, a device or a pipe; or a new file beside the one that it is to replace. Only [`Output::finish`]
/// ensures that everything is written.
pub(crate) struct Output {
    file: File,
    /// The new file, and the one that it replaces.
    replacing: Option<(TempPath, PathBuf)>,
}

impl Output {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_OUTPUT) {
            return Self::standard();
        }
        let (path, existing) = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(path)?;
                return Ok(Self { file, replacing: None });
            }
            // A link is kept, and its target is replaced.
            Ok(metadata) => (fs::canonicalize(path)?, Some(metadata)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => (path.to_owned(), None),
            Err(cause) => return Err(cause),
        };
        let (file, unfinished) = create_beside(&path, existing.as_ref())?.into_parts();
        Ok(Self { file, replacing: Some((unfinished, path)) })
    }

    pub(crate) fn standard() -> io::Result<Self> {
        let file = io::stdout().as_fd().try_clone_to_owned()?.into();
        Ok(Self { file, replacing: None })
    }

    /// The new file, which is not in its place yet.
    pub(crate) fn unfinished(&self) -> Option<&Path> {
        self.replacing.as_ref().map(|(unfinished, _)| &**unfinished)
    }

    /// Whether written parts remain when the export fails.
    pub(crate) const fn keeps_part(&self) -> bool {
        self.replacing.is_none()
    }

    /// Syncs what was written to a file so far.
    pub(crate) fn sync_so_far(&self) -> io::Result<()> {
        if self.replacing.is_some() { self.file.sync_data() } else { Ok(()) }
    }

    /// Syncs a file, and puts it in its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        if let Some((unfinished, path)) = self.replacing {
            self.file.sync_all()?;
            unfinished.persist(&path)?;
            // Syncs the folder, so that the new name survives a power cut.
            File::open(folder_of(&path))?.sync_all()?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(ReaderGone::or)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file in the same folder, with the permissions of the one that it replaces. A new file has plants, so it is for its owner
/// alone: tempfile makes it so.
fn create_beside(path: &Path, existing: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
    let mut prefix = name.to_owned();
    prefix.push(".");
    let unfinished = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".unfinished")
        .tempfile_in(folder_of(path))?;
    if let Some(existing) = existing {
        let mode = existing.permissions().mode() & MODE_PERMISSIONS;
        unfinished.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(unfinished)
}

/// The error for a file that cannot be written.
pub(crate) fn cannot_write(file: &Path) -> String {
    match file == Path::new(STANDARD_OUTPUT) {
        true => CANNOT_PRINT.to_owned(),
        false => format!("cannot write {}", file.display()),
    }
}
