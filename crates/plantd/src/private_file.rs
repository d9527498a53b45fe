//! Files with secrets, or what is as good as one: they are small, and it matters who may get at them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The largest private file that is read, in bytes.
pub(crate) const PRIVATE_FILE_MAX_BYTES: u64 = 1024 * 1024;

const FOLDER_ADVICE: &str = "check that its folder is there and who owns it, and that it has room";

/// The mode of a file that is written: for its owner alone.
const PRIVATE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How many links may lead to a file, one behind the other: as many as Linux follows.
const LINKS_MAX: usize = 40;

/// How long someone else who changes a file is waited for.
const LOCK_DEADLINE: Duration = Duration::from_secs(10);

const LOCK_LOOK_INTERVAL: Duration = Duration::from_millis(10);

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
        let place = FilePlace::find(path)?;
        place.replace(text).map_err(Into::into)
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

/// Waits until nobody else has this lock, and keeps it until what it returns is dropped. The lock is on a file
/// beside the one that is changed: that one is replaced. Other users cannot open the lock file, and so cannot
/// keep the lock.
///
/// # Errors
///
/// When someone keeps it for longer than [`LOCK_DEADLINE`], when something is there that another user may have
/// put there, or when the folder is not there, may not be written to, or is on a file system without locks.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let cannot_lock = || format!("cannot lock {}; {FOLDER_ADVICE}", path.display());
    let opened = FilePlace::find(path).and_then(|place| place.open_lock());
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
                thread::sleep(LOCK_LOOK_INTERVAL);
            }
            Err(TryLockError::Error(cause)) => return Err(cause).with_context(cannot_lock),
        }
    }
}

/// Where a file is, or will be: its name, and its folder, which is opened once and used by its descriptor. The
/// folder may belong to another user, who can put anything there at any time. So a file is opened, written or
/// given away only when it was made here, or was checked after it was opened.
struct FilePlace {
    folder: File,
    name: OsString,
    /// For messages.
    path: PathBuf,
}

impl FilePlace {
    /// Follows links: what they lead to is replaced, and they stay what they are. A file may be a mounted
    /// secret. But of other users only root may lead elsewhere, for they could lead root to any file.
    fn find(path: &Path) -> anyhow::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let name = path.file_name().ok_or(io::Error::from(io::ErrorKind::InvalidFilename))?;
            let folder = open(CWD, folder_of(&path), OFlags::RDONLY | OFlags::DIRECTORY)?;
            let target = match open(&folder, name, OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(file) => link_target(&file, &path)?,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
                Err(cause) => return Err(cause.into()),
            };
            match target {
                Some(target) => path = folder_of(&path).join(target),
                None => return Ok(Self { folder, name: name.to_owned(), path }),
            }
        }
        Err(io::Error::from(Errno::LOOP).into())
    }

    /// The name of a file in the same folder, which has this before and behind it.
    fn beside(&self, before: &str, behind: &str) -> OsString {
        let mut beside = OsString::from(before);
        beside.push(&self.name);
        beside.push(behind);
        beside
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let unfinished = self.beside(".", ".unfinished");
        // A process that was killed may have left one.
        match self.remove(&unfinished) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let mut file = self.make(&unfinished)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&self.folder, &unfinished, &self.folder, &self.name)?));
        if let Err(cause) = written {
            // What is wrong with the disk is what is told.
            let _ = self.remove(&unfinished);
            return Err(cause);
        }
        self.folder.sync_all()
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    /// Makes a file that was not there.
    fn make(&self, name: &OsStr) -> io::Result<File> {
        let file = open(&self.folder, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        if geteuid().is_root() {
            let owner = self.owner()?;
            fchown(&file, Some(owner.st_uid), Some(owner.st_gid))?;
        }
        Ok(file)
    }

    /// The file at this place, or else its folder: root's new files belong to the same user and group.
    fn owner(&self) -> io::Result<Stat> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(fstat(&self.folder)?),
            file => Ok(file?),
        }
    }

    fn open_lock(&self) -> anyhow::Result<File> {
        let name = self.beside("", ".lock");
        match self.make(&name) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok(made?),
        }
        let path = self.path.with_file_name(&name);
        // A pipe would be waited for otherwise.
        let there = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let lock = match open(&self.folder, &name, there) {
            Err(cause) if cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                bail!("{} is a link; remove it", path.display())
            }
            lock => lock?,
        };
        let metadata = lock.metadata()?;
        let is_ours = [geteuid().as_raw(), self.owner()?.st_uid].contains(&metadata.uid());
        ensure!(
            metadata.is_file() && metadata.nlink() == 1 && is_ours,
            "{} is not a lock file of this user or of the folder's owner, or has a second name; remove it",
            path.display()
        );
        Ok(lock)
    }
}

/// Where a link leads that is open; `None` for what is no link.
fn link_target(file: &File, path: &Path) -> anyhow::Result<Option<OsString>> {
    let stat = fstat(file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    ensure!(
        stat.st_uid == 0 || stat.st_uid == geteuid().as_raw(),
        "{} is a link that user {} made, and may lead anywhere; remove it, or run this as that user",
        path.display(),
        stat.st_uid
    );
    let target = readlinkat(file, "", Vec::new()).map_err(io::Error::from)?;
    Ok(Some(OsStr::from_bytes(target.as_bytes()).to_owned()))
}

fn open(folder: impl AsFd, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
    let opened = openat(folder, name.as_ref(), flags | OFlags::CLOEXEC, PRIVATE_MODE);
    Ok(File::from(opened?))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
