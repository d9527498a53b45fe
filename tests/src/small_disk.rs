//! A small disk, which a test can fill.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

/// The options of `nsenter` to see another process's mounts.
const ENTER: [&str; 3] = ["--user", "--mount", "--preserve-credentials"];

/// A file system in memory, whose size may change. Only a server started with
/// [`Launch::within`](crate::Launch::within) sees it. It vanishes when this is dropped or the test process ends.
///
/// It needs no root, because it is mounted in namespaces of its own, in which this user is root.
#[derive(Debug)]
pub struct SmallDisk {
    /// Keeps the namespaces alive, and ends with its standard input.
    holder: Child,
    _stdin: Option<ChildStdin>,
    folder: TempDir,
}

impl SmallDisk {
    /// A disk with these options of `mount -t tmpfs`.
    pub fn new(options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let script = r#"mount -t tmpfs -o "$1" plants "$0" && echo mounted && exec cat"#;
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .args([folder.path().as_os_str(), options.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("install unshare and mount, or run `cargo xtask test`, which does");
        let stdin = holder.stdin.take();
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("standard output is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a pipe can be read");
        assert_eq!(
            line, "mounted\n",
            "a small disk cannot be made: allow user namespaces (the files max_user_namespaces, \
             unprivileged_userns_clone and apparmor_restrict_unprivileged_userns in /proc/sys say \
             who may have them; in a container, allow mounts in them too)"
        );
        Self { holder, _stdin: stdin, folder }
    }

    /// Its path, as seen in its mount namespace.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Changes its options: `size=64m` makes room, `ro` forbids writes.
    #[track_caller]
    pub fn remount(&self, options: &str) {
        self.run(r#"mount -o "remount,$1" "$0""#, self.path(), options);
    }

    /// Fills the disk with this file.
    #[track_caller]
    pub fn fill(&self, name: &str) {
        self.fill_but(name, 0);
    }

    /// Fills the disk with this file, except for this many MiB.
    #[track_caller]
    pub fn fill_but(&self, name: &str, mib: u32) {
        let script = r#"LC_ALL=C head -c 1G /dev/zero 2>&1 > "$0" | grep -q 'No space left' &&
            truncate --size "-$1M" "$0""#;
        self.run(script, &self.path().join(name), &mib.to_string());
    }

    /// Creates empty files until only this many inodes are free.
    #[track_caller]
    pub fn leave_inodes(&self, count: u32) {
        let script = r#"excess=$(($(stat -f -c %d "$0") - $1)) &&
            while [ $excess -gt 0 ]; do : > "$0/file-$$-$excess" && excess=$((excess - 1)) || exit; done"#;
        self.run(script, self.path(), &count.to_string());
    }

    /// Runs a script that sees the disk, with these arguments as `$0` and `$1`.
    #[track_caller]
    fn run(&self, script: &str, path: &Path, argument: &str) {
        let words = self.enter();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["sh", "-c", script]).arg(path).arg(argument);
        let output = command.output().expect("the command can be started");
        assert!(output.status.success(), "{command:?}: {output:?}");
    }

    /// The prefix for a command to see the disk. Its process becomes the command.
    pub(crate) fn enter(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["nsenter".into(), "--target".into()];
        words.push(self.holder.id().to_string().into());
        words.extend(ENTER.map(OsString::from));
        words.push("--".into());
        words
    }

    /// A data folder on it, which does not exist yet.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
