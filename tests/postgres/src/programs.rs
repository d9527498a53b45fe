//! The programs of PostgreSQL: where they are, and which user runs them.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Debian's folder for programs that are not on the path; it has a folder for each version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// The user and group for programs that must not run as root: nobody, on most systems.
pub const UNPRIVILEGED: u32 = 65_534;

/// The folders of programs that are not on the path: Debian's, the newest version first.
pub fn program_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir(DEBIAN_FOLDER).into_iter().flatten().flatten();
    let mut versions: Vec<u32> =
        versions.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    let folder = |version: u32| Path::new(DEBIAN_FOLDER).join(version.to_string()).join("bin");
    versions.into_iter().map(folder).collect()
}

/// A command that runs a program of PostgreSQL without standard input, and without the developer's settings for such
/// programs.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(find(program));
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG") || name.starts_with("LC_")) {
            command.env_remove(name);
        }
    }
    // Messages in English, and a current folder that every user can read.
    command.env("LC_ALL", "C.UTF-8").current_dir("/").stdin(Stdio::null());
    command
}

/// Like [`command`], but never as root, which PostgreSQL refuses.
pub(crate) fn unprivileged(program: &str) -> Command {
    let mut command = command(program);
    if is_root() {
        // `uid` also removes root's supplementary groups.
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command
}

/// Runs a command, which must succeed, and returns its output.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    run_or_say_why(command).unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

/// Runs a command to its end, and returns its standard output, or its error output if it failed.
pub(crate) fn run_or_say_why(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|cause| panic!("cannot run {command:?}: {cause}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let said = text(&output.stdout);
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{}: {}", output.status, [text(&output.stderr), said].join("\n").trim()))
}

/// Whether the tests run as root, to which file permissions do not apply.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Finds all programs in one folder, so that they have one version. Debian's wrappers on the path, which choose
/// versions themselves, have no `postgres` beside them.
fn find(program: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(program_folders());
        // It may be a link to the folder of one version.
        let initdb = folders.filter_map(|folder| fs::canonicalize(folder.join("initdb")).ok());
        let mut folders = initdb.filter_map(|initdb| initdb.parent().map(Path::to_owned));
        folders.find(|folder| is_executable(&folder.join("postgres"))).expect(
            "install PostgreSQL (Debian package `postgresql`), or run `cargo xtask test`, which does",
        )
    });
    let path = folder.join(program);
    assert!(is_executable(&path), "install `{program}` of PostgreSQL: there is no {path:?}");
    path
}

fn is_executable(program: &Path) -> bool {
    const ANY_EXECUTE_BIT: u32 = 0o111;
    program.metadata().is_ok_and(|metadata| {
        metadata.is_file() && metadata.permissions().mode() & ANY_EXECUTE_BIT != 0
    })
}
