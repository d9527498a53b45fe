//! Files and folders.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file or folder of the repository, by its path from the root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The search path for programs, with this folder first.
pub(crate) fn search_path_from(folder: PathBuf) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(env::split_paths(&path));
    env::join_paths(folders).expect("a search path")
}

/// The permissions of a file or folder.
#[track_caller]
pub fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path);
    let metadata = metadata.unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
    metadata.permissions().mode() & 0o7777
}

/// Makes a named pipe.
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo can be run").success(), "a pipe can be made");
}

/// Copies a folder. `to` must not exist.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be read") {
        let entry = entry.expect("a folder can be read");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("an entry has a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}
