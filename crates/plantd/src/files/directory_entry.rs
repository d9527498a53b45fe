//! A file by its folder and its name there, safe against other users who may write to the folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

pub(crate) const FOLDER_ADVICE: &str =
    "check that its folder is there and who owns it, and that it has room";

/// The mode of a file that is written: for its owner alone.
const PRIVATE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How many links may lead to a file, one behind the other: as many as Linux follows.
const LINKS_MAX: usize = 40;

/// A file that exists or will: its name, and its folder, which is opened once and used by its descriptor. The folder may
/// belong to another user, who can put anything there at any time. So a file is opened, written or given to another
/// owner only when it was made here, or was checked after it was opened.
pub(crate) struct DirectoryEntry {
    folder: File,
    name: OsString,
    /// For messages.
    path: PathBuf,
}

impl DirectoryEntry {
    /// Follows links: what they lead to is replaced, and they stay what they are. A file may be a mounted
    /// secret. But of other users only root may lead elsewhere, for they could lead root to any file.
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

    /// The name of a file in the same folder, which has this before and behind it.
    fn beside(&self, before: &str, behind: &str) -> OsString {
        let mut beside = OsString::from(before);
        beside.push(&self.name);
        beside.push(behind);
        beside
    }

    /// Writes the file whole or not at all: beside the old one, and then in its place.
    pub(crate) fn replace(&self, text: &str) -> io::Result<()> {
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

    /// The file of this name, or else its folder: root's new files belong to the same user and group.
    fn owner(&self) -> io::Result<Stat> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(fstat(&self.folder)?),
            file => Ok(file?),
        }
    }

    /// Opens the file `NAME.lock` in the same folder, or makes it.
    pub(crate) fn open_lock(&self) -> anyhow::Result<File> {
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
