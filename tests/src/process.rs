//! One run of the program, and what it says.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::deadline::{wait_for, wait_until};
use crate::server_address::ServerAddress;

/// A process that is killed when it is dropped, and whose standard error is shown when the test
/// that started it fails.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: Output,
    stderr: Output,
}

impl Process {
    /// Starts `command`, whose standard input is as it says.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        let (stdout, stderr) = (Output::new(), Output::new());
        let child = command
            .stdout(stdout.for_child())
            .stderr(stderr.for_child())
            .spawn()
            .unwrap_or_else(|cause| panic!("cannot start {command:?}: {cause}"));
        Self { child, stdout, stderr }
    }

    /// What stands on standard output by now; after the exit, all of it.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What stands on standard error by now; after the exit, all of it.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The first line on standard output, as soon as it is whole.
    ///
    /// # Panics
    ///
    /// When the process ends before, or the deadline comes.
    #[must_use]
    #[track_caller]
    pub fn first_line(&mut self) -> String {
        wait_for("the first line on standard output", || {
            if let Some((line, _)) = self.stdout().split_once('\n') {
                return Some(line.to_owned());
            }
            let ended = self.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "it ended before it was ready: {}", self.stderr());
            None
        })
    }

    /// Waits until it serves, or has ended. Says whether it serves.
    #[must_use]
    #[track_caller]
    pub fn becomes_ready(&mut self) -> bool {
        wait_for("the server to be ready or to end", || {
            if self.stdout().contains('\n') {
                return Some(true);
            }
            (!self.is_running()).then_some(false)
        })
    }

    /// Where it listens, as soon as it says so.
    ///
    /// # Panics
    ///
    /// When it does not become ready, or says so in other words than it should.
    #[must_use]
    #[track_caller]
    pub fn place(&mut self) -> ServerAddress {
        let line = self.first_line();
        ServerAddress::of_ready_line(&line)
            .unwrap_or_else(|| panic!("{line:?} does not say where it listens"))
    }

    /// The address where it listens, as soon as it says so.
    ///
    /// # Panics
    ///
    /// As [`Self::place`], or when it listens at a Unix socket.
    #[must_use]
    #[track_caller]
    pub fn address(&mut self) -> SocketAddr {
        self.place().address()
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many descriptors it has open.
    ///
    /// # Panics
    ///
    /// When it has ended, or the operating system does not say.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.id());
        fs::read_dir(folder).expect("a process has a folder of its descriptors").count()
    }

    /// How many sockets it has open.
    ///
    /// # Panics
    ///
    /// When it has ended, or the operating system does not say.
    #[must_use]
    pub fn sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.id());
        let files = fs::read_dir(folder).expect("a process has a folder of its descriptors");
        // A descriptor may be closed while it is looked at.
        let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// How much of its memory is in RAM, in KiB.
    ///
    /// # Panics
    ///
    /// When it has ended, or the operating system does not say.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// How much of its memory was in RAM when that was most, in KiB.
    ///
    /// # Panics
    ///
    /// When it has ended, or the operating system does not say.
    #[must_use]
    pub fn peak_resident_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// Forgets the peak: from now on it is what is most from now on.
    ///
    /// # Panics
    ///
    /// When it has ended, or the operating system does not let it be forgotten.
    pub fn reset_peak_resident(&self) {
        let path = format!("/proc/{}/clear_refs", self.id());
        fs::write(path, "5").expect("a process of this user may be asked so");
    }

    fn status_kib(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.id());
        let status = fs::read_to_string(path).expect("a process has a status");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {status}"))
    }

    /// Lets each sync of one of its threads take so much longer, until what this returns is dropped.
    /// strace slows down what it looks at, so it looks at no other thread.
    ///
    /// # Panics
    ///
    /// When no such thread comes, or there is no strace on this machine.
    #[must_use]
    #[track_caller]
    pub fn slow_down_syncs(&self, thread: &str, delay: Duration) -> Self {
        let folder = self.folder_of_thread(thread);
        let id = folder.file_name().expect("the folder of a thread has its id as its name");
        let delay = format!("inject=fdatasync:delay_enter={}", delay.as_micros());
        let mut strace = Command::new("strace");
        strace.arg("-p").arg(id).args(["-e", "trace=fdatasync", "-e", &delay]);
        let strace = Self::spawn(&mut strace);
        wait_until("strace to look at the thread", || {
            fs::read_to_string(folder.join("status"))
                .expect("a thread has a status")
                .contains(&format!("TracerPid:\t{}\n", strace.id()))
        });
        strace
    }

    fn folder_of_thread(&self, name: &str) -> PathBuf {
        // A thread gives itself its name when it begins.
        wait_for(&format!("the thread {name}"), || {
            let folders = fs::read_dir(format!("/proc/{}/task", self.id()));
            folders
                .expect("a process has a folder of its threads")
                .map(|folder| folder.expect("a thread has a folder").path())
                .find(|folder| {
                    let comm = fs::read_to_string(folder.join("comm"));
                    comm.is_ok_and(|comm| comm.trim_end() == name)
                })
        })
    }

    /// Whether it has not ended yet.
    ///
    /// # Panics
    ///
    /// When the operating system does not say.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Sends SIGTERM.
    pub fn send_terminate(&self) {
        self.send(Signal::TERM);
    }

    /// Sends SIGINT.
    pub fn send_interrupt(&self) {
        self.send(Signal::INT);
    }

    /// Stops it, as it stands, until [`Self::send_continue`].
    pub fn send_stop(&self) {
        self.send(Signal::STOP);
    }

    /// Lets it go on.
    pub fn send_continue(&self) {
        self.send(Signal::CONT);
    }

    /// Sends this signal.
    ///
    /// # Panics
    ///
    /// When the process has ended, and its end was waited for.
    pub fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id is an i32");
        kill_process(Pid::from_raw(id).expect("a process id is not 0"), signal)
            .expect("the process takes signals");
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// # Panics
    ///
    /// When it had ended before.
    pub fn kill(&mut self) {
        assert!(self.is_running(), "it had ended before it was to be killed: {}", self.stderr());
        self.child.kill().expect("a child can be killed");
        self.wait_for_exit();
    }

    /// Waits for the end, after which the output is whole.
    ///
    /// # Panics
    ///
    /// When the deadline comes first.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        wait_for("the process to end", || self.child.try_wait().expect("a child can be waited for"))
    }

    /// Waits for the end, and claims that this is its exit code.
    ///
    /// # Panics
    ///
    /// When it is another one, or the deadline comes first.
    #[track_caller]
    pub fn assert_exit_code(&mut self, code: i32) {
        assert_eq!(self.wait_for_exit().code(), Some(code), "{}", self.stderr());
    }
}

impl Drop for Process {
    #[allow(clippy::print_stderr, reason = "a test that fails shows what its server said")]
    fn drop(&mut self) {
        // Both fail only when the process has ended, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- standard error of process {}:\n{}", self.id(), self.stderr());
        }
    }
}

/// What a process writes. It stands in a file, so that the process never waits for a reader, nor shares
/// the machine with one.
#[derive(Debug)]
struct Output(NamedTempFile);

impl Output {
    fn new() -> Self {
        Self(NamedTempFile::new().expect("a temporary file can be made"))
    }

    fn for_child(&self) -> File {
        self.0.reopen().expect("a temporary file can be opened again")
    }

    fn text(&self) -> String {
        let bytes = fs::read(self.0.path()).expect("a temporary file can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
