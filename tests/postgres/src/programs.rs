//! The programs of PostgreSQL: where they lie, and as whom they run.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where Debian keeps what is not for everybody's path, in a folder for each version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// The user and the group of a server that must not be root; on most systems, nobody's.
pub(crate) const UNPRIVILEGED: u32 = 65_534;

/// Where programs of PostgreSQL lie beside the path: Debian's folders, the newest version first.
#[must_use]
pub fn program_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir(DEBIAN_FOLDER).into_iter().flatten().flatten();
    let mut versions: Vec<u32> =
        versions.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    let folder = |version: u32| Path::new(DEBIAN_FOLDER).join(version.to_string()).join("bin");
    versions.into_iter().map(folder).collect()
}

/// A command that runs a program of PostgreSQL, with nothing on its standard input, and which hears
/// nothing of what the developer's shell says to such programs.
///
/// # Panics
///
/// When there is no PostgreSQL on this machine.
#[must_use]
pub fn command(program: &str) -> Command {
    let mut command = Command::new(find(program));
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG") || name.starts_with("LC_")) {
            command.env_remove(name);
        }
    }
    // What it says is in English, and it may look at its current folder.
    command.env("LC_ALL", "C.UTF-8").current_dir("/").stdin(Stdio::null());
    command
}

/// The same, as a user who is not root: no server runs as that.
pub(crate) fn unprivileged(program: &str) -> Command {
    let mut command = command(program);
    if is_root() {
        // The standard library takes root's groups away too.
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command
}

/// Runs a command to its end.
///
/// # Panics
///
/// When it fails; its words are in the message then.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    run_or_say_why(command).unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

/// Runs a command to its end, and returns what it printed, or what it said when it failed.
pub(crate) fn run_or_say_why(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|cause| panic!("cannot run {command:?}: {cause}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let said = text(&output.stdout);
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{}: {}", output.status, [text(&output.stderr), said].join("\n").trim()))
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// All programs are taken from where `initdb` is, so that they are of one version. In Debian's path there
/// are wrappers, which choose a version by themselves.
fn find(program: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let initdb = folders().into_iter().map(|folder| folder.join("initdb"));
        let initdb = initdb.filter_map(|path| fs::canonicalize(path).ok());
        let folder = initdb.filter(|path| is_executable(path)).find_map(|path| {
            let folder = path.parent()?.to_owned();
            is_executable(&folder.join("postgres")).then_some(folder)
        });
        folder.expect(
            "install PostgreSQL (Debian package `postgresql`), or run `cargo xtask test`, which does",
        )
    });
    let in_any_folder = || folders().into_iter().map(|folder| folder.join(program));
    std::iter::once(folder.join(program))
        .chain(in_any_folder())
        .find(|path| is_executable(path))
        .unwrap_or_else(|| panic!("install `{program}` of PostgreSQL beside its `initdb`"))
}

fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(program_folders()).collect()
}

fn is_executable(program: &Path) -> bool {
    const ANY_EXECUTE_BIT: u32 = 0o111;
    program.metadata().is_ok_and(|metadata| {
        metadata.is_file() && metadata.permissions().mode() & ANY_EXECUTE_BIT != 0
    })
}
