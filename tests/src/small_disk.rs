//! A disk that is small, and full when a test wants it so.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use tempfile::TempDir;

/// What a program that looks into another one's mounts has to be called with.
const ENTER: [&str; 3] = ["--user", "--mount", "--preserve-credentials"];

/// A file system in memory, of a size that may change. It can only be seen from within, as by a
/// server that is started with [`Launch::within`](crate::Launch::within), and it is gone when this
/// is dropped or the test ends, however it ends.
///
/// It needs no root: it is mounted in namespaces of its own, in which this user is root.
#[derive(Debug)]
pub struct SmallDisk {
    /// The namespaces live as long as this one does, which ends with its standard input.
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

    /// Where it is, as seen from within.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives it other options: `size=64m` makes room, `ro` forbids writes.
    #[track_caller]
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let mount = ["mount", "-o", &options].map(OsString::from);
        self.run(mount.into_iter().chain([self.path().into()]));
    }

    /// Writes zeros to this file until there is no room for more.
    #[track_caller]
    pub fn fill(&self, name: &str) {
        let script = r#"LC_ALL=C head -c 1G /dev/zero 2>&1 > "$0" | grep -q 'No space left'"#;
        let shell = ["sh", "-c", script].map(OsString::from);
        self.run(shell.into_iter().chain([self.path().join(name).into()]));
    }

    /// Writes zeros to this file until only so many MiB are left, where more are.
    #[track_caller]
    pub fn fill_but(&self, name: &str, mib: u32) {
        let script = r#"free=$(df --output=avail -B1M "$0" | tail -n 1)
            head -c "$((free > $2 ? free - $2 : 0))M" /dev/zero > "$0/$1""#;
        let shell = ["sh", "-c", script].map(OsString::from);
        let arguments = [self.path().into(), name.into(), mib.to_string().into()];
        self.run(shell.into_iter().chain(arguments));
    }

    /// Runs a command that sees the disk.
    #[track_caller]
    fn run(&self, words: impl Iterator<Item = OsString>) -> Output {
        let words: Vec<OsString> = self.enter().into_iter().chain(words).collect();
        let output = Command::new(&words[0]).args(&words[1..]).output().expect("it can be started");
        assert!(output.status.success(), "{words:?}: {output:?}");
        output
    }

    /// The words before a command that is to see the disk. The command takes their process over.
    pub(crate) fn enter(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["nsenter".into(), "--target".into()];
        words.push(self.holder.id().to_string().into());
        words.extend(ENTER.map(OsString::from));
        words.push("--".into());
        words
    }

    /// A folder on it that is not there yet.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Both fail only when it has ended, which is what they are for.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
