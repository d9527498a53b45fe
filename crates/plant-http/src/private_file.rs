//! Files with secrets, or what is as good as one: they are small, and it matters who may get at them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use rustix::fs::OFlags;

/// The largest private file that is read, in bytes.
pub const PRIVATE_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// A file that was read, and who may get at it.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateFile {
    /// What it holds.
    pub bytes: Vec<u8>,
    mode: u32,
}

impl PrivateFile {
    /// Reads a file, which the command-line flag `flag` names; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be read (then there is an [`io::Error`] in the chain of causes), is no file, or has
    /// more than [`PRIVATE_FILE_MAX_BYTES`].
    pub fn read(path: &Path, flag: &str) -> anyhow::Result<Option<Self>> {
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
    pub fn is_open_to(&self, others: u32) -> bool {
        self.mode & others != 0
    }
}

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
