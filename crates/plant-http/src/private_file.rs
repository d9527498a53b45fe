//! Files with secrets, or what is as good as one: they are small, and it matters who may get at them.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::fs::OFlags;

/// The largest private file that is read, in bytes.
pub const PRIVATE_FILE_MAX_BYTES: u64 = 1024 * 1024;

const FOLDER_ADVICE: &str = "check who owns its folder, and that it has room";

/// The mode of a file that is written: for its owner alone.
const PRIVATE_MODE: u32 = 0o600;

/// How long someone else who changes a file is waited for.
const LOCK_DEADLINE: Duration = Duration::from_secs(10);

const LOCK_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A file that was read, and who may get at it.
#[derive(PartialEq, Eq)]
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
    pub fn is_open_to(&self, others: u32) -> bool {
        self.mode & others != 0
    }
}

/// Writes a file for its owner alone, whole or not at all, and syncs it. Whoever owns the one that it
/// replaces, or else the folder, owns it: an administrator may write it for the server's user. Nobody else
/// may write it meanwhile.
///
/// # Errors
///
/// When the disk does not take it; then the file is as it was.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        let path = resolve(path)?;
        let unfinished = beside(&path, ".", ".unfinished")?;
        // A process that was killed may have left one.
        match fs::remove_file(&unfinished) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let file =
            File::options().write(true).create_new(true).mode(PRIVATE_MODE).open(&unfinished)?;
        let written = give_to_owner_of(&path, &file)
            .and_then(|()| (&file).write_all(text.as_bytes()))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, &path));
        if let Err(cause) = written {
            // What is wrong with the disk is what is told.
            let _ = fs::remove_file(&unfinished);
            return Err(cause);
        }
        File::open(folder_of(&path))?.sync_all()
    };
    write().map_err(|cause| {
        let advice = match cause.kind() {
            io::ErrorKind::ResourceBusy => {
                "it is a mount of its own; change it where it comes from, and mount its folder instead"
            }
            _ => FOLDER_ADVICE,
        };
        anyhow::Error::new(cause).context(format!("cannot write {}; {advice}", path.display()))
    })
}

/// Waits until nobody else has this lock, and keeps it until what it returns is dropped. It is on a file
/// beside the one that is changed, which is replaced, and which others cannot open, so that they cannot
/// keep it.
///
/// # Errors
///
/// When someone keeps it for longer than [`LOCK_DEADLINE`], or when the folder is not there, may not be
/// written to, or is on a file system without locks.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let cannot_lock = || format!("cannot lock {}; {FOLDER_ADVICE}", path.display());
    let open = || -> io::Result<File> {
        let path = resolve(path)?;
        let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_MODE)
            .custom_flags(nofollow)
            .open(beside(&path, "", ".lock")?)?;
        give_to_owner_of(&path, &lock)?;
        Ok(lock)
    };
    let lock = open().with_context(cannot_lock)?;
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
                thread::sleep(LOCK_LOOK_INTERVAL);
            }
            Err(TryLockError::Error(cause)) => return Err(cause).with_context(cannot_lock),
        }
    }
}

/// Lets root's files be those of whoever owns the file at `path`, or else its folder.
fn give_to_owner_of(path: &Path, file: &File) -> io::Result<()> {
    let made = file.metadata()?;
    let owner = fs::metadata(path).or_else(|_| fs::metadata(folder_of(path)))?;
    if made.uid() == 0 && (made.uid(), made.gid()) != (owner.uid(), owner.gid()) {
        fchown(file, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

/// The path of a file in the same folder, whose name has this before and behind it.
fn beside(path: &Path, before: &str, behind: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut beside = OsString::from(before);
    beside.push(name);
    beside.push(behind);
    Ok(folder_of(path).join(beside))
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
