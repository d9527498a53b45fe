//! Files that only their owner may read, whole or not there at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes a file, and syncs it. Whoever owns the one that it replaces, or else the folder, owns it: an
/// administrator may write it for the server's user.
///
/// # Errors
///
/// When the disk does not take it; then the file is as it was.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let path = resolve(path)?;
        let folder = folder_of(&path);
        // It is made with the mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let made = file.as_file().metadata()?;
        let owner = fs::metadata(&path).or_else(|_| fs::metadata(folder))?;
        if (made.uid(), made.gid()) != (owner.uid(), owner.gid()) && made.uid() == 0 {
            fchown(file.as_file(), Some(owner.uid()), Some(owner.gid()))?;
        }
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        File::open(folder)?.sync_all()
    };
    write().with_context(|| {
        format!("cannot write {}; check who owns its folder, and that it has room", path.display())
    })
}

/// Waits until nobody else has this lock, and keeps it until it is dropped. It is one on the folder, for
/// the file itself is replaced.
///
/// # Errors
///
/// When the folder is not there, or its file system knows no locks.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let lock = || -> io::Result<File> {
        let folder = File::open(folder_of(&resolve(path)?))?;
        folder.lock()?;
        Ok(folder)
    };
    lock().with_context(|| format!("cannot lock the folder of {}", path.display()))
}

/// A link stays what it is: what it leads to is replaced.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        resolved => resolved,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
