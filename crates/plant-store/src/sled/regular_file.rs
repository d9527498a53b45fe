//! Makes, opens and removes regular files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// New files may hold plants, so only their owner has access.
const PRIVATE_MODE: u32 = 0o600;

/// Makes a file for writing, private to its owner. Fails if the path exists: in a folder of another user, it may be a
/// link to any file.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(PRIVATE_MODE).open(path)
}

/// Opens a file of the store. A file that `options` make is private to its owner. Fails for everything but a regular
/// file: in a folder of another user, a link could lead to any file.
pub(crate) fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe would wait.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match options.custom_flags(flags).mode(PRIVATE_MODE).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(no_regular_file()),
        Err(cause) if cause.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(no_regular_file())
        }
        Err(cause) => Err(cause),
    }
}

/// Reads a file of the store.
pub(crate) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_own(path, File::options().read(true))?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn no_regular_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is no regular file")
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}
