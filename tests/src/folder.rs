//! Files and folders.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

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

/// A new folder, which is removed when it is dropped.
#[track_caller]
pub fn temporary_folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// The names of the files and folders in a folder, sorted.
#[track_caller]
pub fn names_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder can be read");
    let names = files.map(|file| file.expect("a folder can be read").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Sets the permissions of a file or folder.
#[track_caller]
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions can be set");
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

/// Opens a named pipe, reads one line, and closes the pipe again.
pub fn read_line_of_pipe(path: &Path) -> JoinHandle<String> {
    let path = path.to_owned();
    thread::spawn(move || {
        let mut line = String::new();
        let pipe = File::open(path).expect("a pipe can be opened");
        BufReader::new(pipe).read_line(&mut line).expect("a pipe can be read");
        line
    })
}

/// Copies a folder with all it holds. `to` must not exist.
#[track_caller]
pub fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "-T"]).args([from, to]).status();
    assert!(copied.expect("cp can be run").success(), "{} can be copied", from.display());
}

/// The paths of all files in a folder and in those below it.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder can be read") {
            let path = entry.expect("a folder can be read").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}
