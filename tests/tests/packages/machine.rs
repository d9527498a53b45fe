//! A Debian system with systemd, booted as a container.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use plantd_tests::{Process, Toolbox, copy_folder, is_root_or_skipped, wait_until};
use rustix::process::Signal;
use tempfile::TempDir;

/// Runs systemd-nspawn so that all its processes end with this test, however the test ends.
const GUARD: [&str; 7] =
    ["--pdeathsig", "KILL", "unshare", "--mount-proc", "--pid", "--fork", "--kill-child"];

/// A network of its own, in which all ports are free.
const NSPAWN: [&str; 8] = [
    "systemd-nspawn",
    "--machine=plantd-test",
    "--register=no",
    "--keep-unit",
    "--link-journal=no",
    "--private-network",
    "--console=pipe",
    "--boot",
];

/// A Debian file system that a test may change. Without root there is none, and the test is skipped.
#[track_caller]
pub(crate) fn copy_of_debian() -> Option<(TempDir, PathBuf)> {
    if !is_root_or_skipped("make and boot a Debian system") {
        return None;
    }
    let debian = Toolbox::debian();
    // Another file system may not allow device files.
    let beside = debian.folder().parent().expect("the tools are in a folder");
    let folder = tempfile::tempdir_in(beside).expect("a temporary folder can be made");
    let root = folder.path().join("root");
    copy_folder(debian.folder(), &root);
    Some((folder, root))
}

/// A running system. It shares the kernel of this machine, and its network has no way out.
pub(crate) struct Machine {
    container: Process,
    root: PathBuf,
    _folder: TempDir,
    _turn: File,
}

impl Machine {
    /// Boots a new system once no other one runs on this machine.
    pub(crate) fn boot() -> Option<Self> {
        let (folder, root) = copy_of_debian()?;
        let turn = turn();
        let mut command = Command::new("setpriv");
        command.args(GUARD).args(NSPAWN).arg("--directory").arg(&root).stdin(Stdio::null());
        let machine =
            Self { container: Process::spawn(&mut command), root, _folder: folder, _turn: turn };
        wait_until("the machine to boot", || {
            let boot = machine.try_run("systemctl is-active multi-user.target");
            boot.is_some_and(|output| output.status.success())
        });
        Some(machine)
    }

    /// Its root folder, as seen from outside.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a script in the system as root, asserts that it succeeds, and returns what it prints.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> String {
        let output = self.try_run(script).expect("the machine runs");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {}\n{printed}{errors}", output.status);
        printed.trim_end().to_owned()
    }

    /// Runs a program of the host in the network of the system, asserts that it succeeds, and returns what it prints.
    #[track_caller]
    pub(crate) fn run_in_network(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = self.enter(&["--net"]).expect("the machine runs");
        let output = command.arg(program).args(arguments).output().expect("nsenter runs");
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn try_run(&self, script: &str) -> Option<Output> {
        let all = ["--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"];
        let mut command = self.enter(&all)?;
        Some(command.args(["sh", "-c", script]).output().expect("nsenter runs"))
    }

    fn enter(&self, namespaces: &[&str]) -> Option<Command> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first_process()?]).args(namespaces).stdin(Stdio::null());
        Some(command)
    }

    /// The id of its systemd: the child of systemd-nspawn, which is the child of unshare.
    fn first_process(&self) -> Option<String> {
        child_of(&child_of(&self.container.id().to_string())?)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let first = self.first_process();
        self.container.send(Signal::KILL);
        // No process may write to the folder any more, which is removed next.
        let proc = first.map(|id| Path::new("/proc").join(id));
        wait_until("the machine to end", || proc.as_ref().is_none_or(|proc| !proc.exists()));
    }
}

/// Waits until no other system runs on this machine. No other one boots until the returned file is closed.
///
/// systemd-nspawn starts all systems of a machine in one control group. Of two systems at once, the systemd of one
/// would find processes of the other among those of its own services, and could not kill them.
fn turn() -> File {
    let path = std::env::temp_dir().join("plantd-test-machine.lock");
    let file = File::create(path).expect("a file can be created");
    file.lock().expect("the file can be locked");
    file
}

fn child_of(id: &str) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}
