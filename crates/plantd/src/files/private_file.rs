//! Small files with secrets or their digests, and the locks with which one process at a time changes a file.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::process::{getegid, getgroups};

use crate::files::directory_entry::{DirectoryEntry, FOLDER_ADVICE, folder_of};

/// The largest private file that is read, in bytes.
pub(crate) const PRIVATE_FILE_MAX_BYTES: u64 = 1024 * 1024;

/// How long to wait for another process that holds a lock.
const LOCK_DEADLINE: Duration = Duration::from_secs(10);

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The content of a file, and its mode.
#[derive(PartialEq, Eq)]
pub(crate) struct PrivateFile {
    pub(crate) bytes: Vec<u8>,
    /// The mode, without the permissions of the group for a file on a volume that is shared on purpose
    /// ([`is_of_shared_volume`]).
    mode: u32,
}

impl PrivateFile {
    /// Reads the file that the command-line flag `flag` names; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be read (then an [`io::Error`] is in the chain of causes), is no file, or has more than
    /// [`PRIVATE_FILE_MAX_BYTES`].
    pub(crate) fn read(path: &Path, flag: &str) -> anyhow::Result<Option<Self>> {
        let cannot_read =
            || format!("cannot read {}; check the path, and who owns it", path.display());
        // NONBLOCK: opening a pipe would wait.
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
        ensure!(metadata.is_file(), "{} is not a file; choose another with {flag}", path.display());
        // A file that is itself a mount point keeps its old content when its source is replaced.
        ensure!(
            metadata.nlink() > 0,
            "{} was replaced where it is mounted from; mount its folder instead",
            path.display()
        );
        let of_group = if is_of_shared_volume(path, &metadata).with_context(cannot_read)? {
            Mode::RWXG.bits()
        } else {
            0
        };
        let mut bytes = Vec::new();
        let read = file.take(PRIVATE_FILE_MAX_BYTES + 1).read_to_end(&mut bytes);
        read.with_context(cannot_read)?;
        ensure!(
            bytes.len() as u64 <= PRIVATE_FILE_MAX_BYTES,
            "{} has more than {PRIVATE_FILE_MAX_BYTES} bytes; choose another with {flag}",
            path.display()
        );
        Ok(Some(Self { bytes, mode: metadata.mode() & !of_group }))
    }

    /// Whether the mode has any of these bits, such as `0o077` for all users except the owner. The group of a volume that is shared
    /// with this process on purpose does not count.
    #[must_use]
    pub(crate) fn is_open_to(&self, others: u32) -> bool {
        self.mode & others != 0
    }
}

/// Whether the file belongs to a group of this process, and its folder passes that group on to new files. Kubernetes sets up
/// volumes like that for the `fsGroup` of a pod: at each mount, it gives the group permissions on every file, so that no file
/// keeps the mode 0600. That two users have a group in common, as on many systems, is not enough.
fn is_of_shared_volume(path: &Path, file: &Metadata) -> io::Result<bool> {
    let folder = fs::metadata(folder_of(&fs::canonicalize(path)?))?;
    let is_handed_on = folder.mode() & Mode::SGID.bits() != 0 && folder.gid() == file.gid();
    let is_own = || -> io::Result<bool> {
        let groups = getgroups()?;
        Ok(groups.into_iter().chain([getegid()]).any(|group| group.as_raw() == file.gid()))
    };
    Ok(is_handed_on && is_own()?)
}

/// Replaces a file atomically, for its owner alone, and syncs it. A file that root writes belongs to the owner of the old file
/// or, if there is none, of the folder: an administrator may write a file for the server's user. The caller prevents
/// concurrent writes.
///
/// # Errors
///
/// When the path is a link of another user, or the disk cannot store the file. The old file then remains.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = DirectoryEntry::find(path).and_then(|entry| Ok(entry.replace(text)?));
    written.map_err(|error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        None => error,
        Some(io::ErrorKind::ResourceBusy) => error.context(format!(
            "cannot write {}; it is a mount of its own; change it where it comes from, and mount its folder \
             instead",
            path.display()
        )),
        Some(_) => error.context(format!("cannot write {}; {FOLDER_ADVICE}", path.display())),
    })
}

/// Waits for the lock of the file at `path`, and holds it until the returned file is dropped. `PATH.lock` is locked, because
/// the file itself is replaced. Other users cannot open the lock file, so they cannot hold the lock.
///
/// # Errors
///
/// When another process holds it for longer than [`LOCK_DEADLINE`], when another user may have made `PATH.lock`, or when the
/// folder is missing, not writable, or on a file system without locks.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let cannot_lock = || format!("cannot lock {}; {FOLDER_ADVICE}", path.display());
    let opened = DirectoryEntry::find(path).and_then(|entry| entry.open_lock());
    let lock = opened.map_err(|error| match error.is::<io::Error>() {
        true => error.context(cannot_lock()),
        false => error,
    })?;
    let deadline = Instant::now() + LOCK_DEADLINE;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {
                if Instant::now() >= deadline {
                    let cause = io::Error::from(io::ErrorKind::TimedOut);
                    let what = format!("another process is changing {}", path.display());
                    return Err(cause).context(what);
                }
                thread::sleep(LOCK_POLL_INTERVAL);
            }
            Err(TryLockError::Error(cause)) => return Err(cause).with_context(cannot_lock),
        }
    }
}
