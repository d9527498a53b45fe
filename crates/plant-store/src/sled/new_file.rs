//! Makes files, and removes what is left in their place.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Makes a file for writing. Fails if the file is there: in a folder of another user, it may be a link to any file.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}
