//! One run of the program.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::{wait_for, wait_until};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// At this address, without TLS.
    Http(SocketAddr),
    /// At this address, with TLS.
    Https(SocketAddr),
    /// At the Unix socket with this path.
    Unix(PathBuf),
}

impl ServerAddress {
    fn in_ready_line(line: &str) -> Option<Self> {
        let url = line.strip_prefix("plantd listening on ")?;
        if let Some(address) = url.strip_prefix("http://") {
            return address.parse().ok().map(Self::Http);
        }
        if let Some(address) = url.strip_prefix("https://") {
            return address.parse().ok().map(Self::Https);
        }
        url.strip_prefix("unix:").map(|path| Self::Unix(path.into()))
    }

    /// The address, with or without TLS. Panics for a Unix socket.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Http(address) | Self::Https(address) => *address,
            Self::Unix(path) => panic!("{} is no address", path.display()),
        }
    }
}

/// A process that is killed when it is dropped. When a test fails, the standard error of its processes is printed.
///
/// Standard output and error go to files, so that the process never blocks on a reader.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: NamedTempFile,
    stderr: NamedTempFile,
}

impl Process {
    /// Starts `command`.
    pub fn spawn(command: &mut Command) -> Self {
        let file = || NamedTempFile::new().expect("a temporary file can be made");
        let for_child = |file: &NamedTempFile| file.reopen().expect("a file can be opened again");
        let (stdout, stderr) = (file(), file());
        let child = command
            .stdout::<File>(for_child(&stdout))
            .stderr::<File>(for_child(&stderr))
            .spawn()
            .unwrap_or_else(|cause| panic!("cannot start {command:?}: {cause}"));
        Self { child, stdout, stderr }
    }

    /// Its standard output so far; after the exit, all of it.
    pub fn stdout(&self) -> String {
        text_of(&self.stdout)
    }

    /// Its standard error so far; after the exit, all of it.
    pub fn stderr(&self) -> String {
        text_of(&self.stderr)
    }

    /// Waits for the first complete line on standard output.
    #[track_caller]
    pub fn first_line(&mut self) -> String {
        assert!(self.becomes_ready(), "the process ended before it was ready: {}", self.stderr());
        self.stdout().lines().next().unwrap_or_default().to_owned()
    }

    /// Waits until it serves or has ended, and returns whether it serves.
    #[track_caller]
    pub fn becomes_ready(&mut self) -> bool {
        wait_for("the server to be ready or to end", || {
            // Ask this first: the process may write its line and end between two looks.
            let has_ended = !self.is_running();
            if self.stdout().contains('\n') {
                return Some(true);
            }
            has_ended.then_some(false)
        })
    }

    /// Waits until it listens, and returns where.
    #[track_caller]
    pub fn server_address(&mut self) -> ServerAddress {
        let line = self.first_line();
        ServerAddress::in_ready_line(&line)
            .unwrap_or_else(|| panic!("{line:?} does not say where it listens"))
    }

    /// Waits until it listens, and returns the address. Panics for a Unix socket.
    #[track_caller]
    pub fn address(&mut self) -> SocketAddr {
        self.server_address().address()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.id()).into()
    }

    /// The number of its open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("the process runs").count()
    }

    /// The number of its open sockets.
    pub fn sockets(&self) -> usize {
        let files = fs::read_dir(self.proc("fd")).expect("the process runs");
        // A descriptor may be closed meanwhile.
        let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Its memory in RAM, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// The peak of its memory in RAM since the start or [`Self::reset_peak_resident`], in KiB.
    pub fn peak_resident_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// Resets the peak.
    pub fn reset_peak_resident(&self) {
        fs::write(self.proc("clear_refs"), "5").expect("a process of this user");
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(self.proc("status")).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {status}"))
    }

    /// Delays each sync of the thread with this name, until the returned strace is dropped. Only this thread is
    /// traced, because strace slows down what it traces.
    #[track_caller]
    pub fn slow_down_syncs(&self, thread: &str, delay: Duration) -> Self {
        let folder = wait_for(&format!("the thread {thread}"), || {
            let folders = fs::read_dir(self.proc("task")).expect("the process runs");
            folders.map(|folder| folder.expect("a thread has a folder").path()).find(|folder| {
                let comm = fs::read_to_string(folder.join("comm"));
                comm.is_ok_and(|comm| comm.trim_end() == thread)
            })
        });
        let id = folder.file_name().expect("the folder of a thread is named by its id");
        let delay = format!("inject=fdatasync:delay_enter={}", delay.as_micros());
        let mut strace = Command::new("strace");
        strace.arg("-p").arg(id).args(["-e", "trace=fdatasync", "-e", &delay]);
        let strace = Self::spawn(&mut strace);
        wait_until("strace to trace the thread", || {
            fs::read_to_string(folder.join("status"))
                .expect("a thread has a status")
                .contains(&format!("TracerPid:\t{}\n", strace.id()))
        });
        strace
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Sends SIGTERM.
    pub fn send_terminate(&self) {
        self.send(Signal::TERM);
    }

    /// Stops it until [`Self::send_continue`].
    pub fn send_stop(&self) {
        self.send(Signal::STOP);
    }

    /// Continues it.
    pub fn send_continue(&self) {
        self.send(Signal::CONT);
    }

    /// Sends this signal. Panics if the process was waited for.
    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process takes signals");
    }

    /// Sends SIGKILL and waits for the end. Panics if the process had ended before.
    pub fn kill(&mut self) {
        assert!(self.is_running(), "the process ended before the kill: {}", self.stderr());
        self.child.kill().expect("a child can be killed");
        self.wait_for_exit();
    }

    /// Waits for the end, after which the output is complete.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        wait_for("the process to end", || self.child.try_wait().expect("a child can be waited for"))
    }

    /// Waits for the end, and asserts this exit code.
    #[track_caller]
    pub fn assert_exit_code(&mut self, code: i32) {
        assert_eq!(self.wait_for_exit().code(), Some(code), "{}", self.stderr());
    }
}

impl Drop for Process {
    #[allow(clippy::print_stderr, reason = "a test that fails shows the log of its server")]
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- standard error of process {}:\n{}", self.id(), self.stderr());
        }
    }
}

fn text_of(file: &NamedTempFile) -> String {
    let bytes = fs::read(file.path()).expect("a temporary file can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
