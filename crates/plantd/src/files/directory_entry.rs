//! A file, identified by its folder and its name there. Safe against other users who may write to the folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

pub(crate) const FOLDER_ADVICE: &str =
    "check that its folder is there and who owns it, and that it has room";

/// The mode of a new file: for its owner alone.
const PRIVATE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How many links are followed: as many as Linux follows.
const LINKS_MAX: usize = 40;

/// A file that exists or will exist, by its name in a folder that is opened once. The folder may belong to another user, who
/// can put anything there at any time. So a file is written, or given to another owner, only if this process created
/// it, or checked it after opening it.
pub(crate) struct DirectoryEntry {
    folder: File,
    name: OsString,
    /// The path, for messages.
    path: PathBuf,
}

impl DirectoryEntry {
    /// Follows links, so that a link stays and its target is replaced: the file may be a mounted secret. Refuses a link of a
    /// user other than root and this one: it could lead root to any file.
    pub(crate) fn find(path: &Path) -> anyhow::Result<Self> {
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

    /// The name with a prefix and a suffix.
    fn beside(&self, prefix: &str, suffix: &str) -> OsString {
        let mut beside = OsString::from(prefix);
        beside.push(&self.name);
        beside.push(suffix);
        beside
    }

    /// Replaces the file atomically, and syncs it.
    pub(crate) fn replace(&self, text: &str) -> io::Result<()> {
        let unfinished = self.beside(".", ".unfinished");
        // A killed process may have left a temporary file.
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
            let _ = self.remove(&unfinished);
            return Err(cause);
        }
        self.folder.sync_all()
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    /// Makes a new file. Root gives the file to the owner of this entry.
    fn make(&self, name: &OsStr) -> io::Result<File> {
        let file = open(&self.folder, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        if geteuid().is_root() {
            let (user, group) = self.owner()?;
            fchown(&file, Some(user), Some(group))?;
        }
        Ok(file)
    }

    /// The user and the group of the file or, before it exists, of its folder.
    fn owner(&self) -> io::Result<(u32, u32)> {
        let stat = match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => fstat(&self.folder)?,
            file => file?,
        };
        Ok((stat.st_uid, stat.st_gid))
    }

    /// Opens the file `NAME.lock` in the same folder, or makes it.
    pub(crate) fn open_lock(&self) -> anyhow::Result<File> {
        let name = self.beside("", ".lock");
        match self.make(&name) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok(made?),
        }
        let path = self.path.with_file_name(&name);
        // NONBLOCK: opening a pipe would wait.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let lock = match open(&self.folder, &name, flags) {
            Err(cause) if cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                bail!("{} is a link; remove it", path.display())
            }
            lock => lock?,
        };
        let metadata = lock.metadata()?;
        let is_ours = [geteuid().as_raw(), self.owner()?.0].contains(&metadata.uid());
        ensure!(
            metadata.is_file() && metadata.nlink() == 1 && is_ours,
            "{} is not a lock file of this user or of the folder's owner, or has a second name; remove it",
            path.display()
        );
        Ok(lock)
    }
}

/// The target of an open link; `None` for anything else.
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

/// The folder that a path is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
