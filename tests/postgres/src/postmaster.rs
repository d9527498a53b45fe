//! The processes of a server.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use crate::programs;
use crate::wait::{wait_for, wait_until};

/// The line of `postmaster.pid` that holds the status of the server.
const STATUS_LINE: usize = 7;

/// Messages about conditions that end by themselves: the shared memory of a killed server, or a port in use.
const TRANSIENT: [&str; 2] = ["pre-existing shared memory block", "could not bind"];

/// The first process of a server, the parent of all others.
#[derive(Debug)]
pub(crate) struct Postmaster {
    child: Child,
}

impl Postmaster {
    /// Starts a server, and returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// Its log, when it ends before for a [`TRANSIENT`] reason.
    #[track_caller]
    pub(crate) fn start(data: &Path, log: &Path, settings: &[String]) -> Result<Self, String> {
        let file = File::create(log).expect("a log can be made");
        let mut command = programs::unprivileged("postgres");
        command.arg("-D").arg(data);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.stdout(file.try_clone().expect("a file can be cloned")).stderr(file);
        // Signals of the terminal must not reach it.
        let child = command.process_group(0).spawn().expect("postgres can be started");
        let mut postmaster = Self { child };
        let is_ready = wait_for("postgres to be ready or to end", || {
            if postmaster.says_ready(data) {
                return Some(true);
            }
            (!postmaster.is_running()).then_some(false)
        });
        if is_ready {
            return Ok(postmaster);
        }
        let said = fs::read_to_string(log).unwrap_or_default();
        assert!(
            TRANSIENT.iter().any(|word| said.contains(word)),
            "postgres does not start: {said}"
        );
        Err(said)
    }

    fn says_ready(&self, data: &Path) -> bool {
        // The file may be that of an earlier server, or incomplete.
        let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines();
        lines.next() == Some(&*self.child.id().to_string())
            && lines.nth(STATUS_LINE - 1).is_some_and(|status| status.trim_end() == "ready")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Stops all processes of the server by SIGSTOP, and returns its children.
    #[track_caller]
    pub(crate) fn freeze(&self) -> Vec<u32> {
        self.send(Signal::STOP);
        // Once stopped, it starts no more children.
        wait_until("postgres to be stopped", || state(self.child.id()) == Some('T'));
        let children = self.children();
        for id in &children {
            send(*id, Signal::STOP);
        }
        children
    }

    /// Continues all processes.
    pub(crate) fn unfreeze(&self) {
        for id in self.children() {
            send(id, Signal::CONT);
        }
        self.send(Signal::CONT);
    }

    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        wait_for("postgres to end", || self.child.try_wait().expect("a child can be waited for"))
    }

    /// Kills all processes of the server, and waits until none is left.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        let children = self.freeze();
        self.send(Signal::KILL);
        for id in &children {
            send(*id, Signal::KILL);
        }
        self.wait_for_exit();
        // Init may be slow to reap them.
        wait_until("the processes of postgres to end", || {
            children.iter().all(|id| matches!(state(*id), None | Some('Z' | 'X')))
        });
    }

    fn children(&self) -> Vec<u32> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.expect("the system tells of a process's children");
        children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        if self.is_running() {
            self.unfreeze();
            self.send(Signal::QUIT);
            // A panic here would hide the first one; the guardian still cleans up.
            let _ = self.child.wait();
        }
    }
}

fn send(id: u32, signal: Signal) {
    let id = i32::try_from(id).expect("a process id is an i32");
    // This fails only when the process has ended.
    let _ = kill_process(Pid::from_raw(id).expect("a process id is not 0"), signal);
}

/// The state of a process as a letter, as in `ps`. `None` if it does not exist.
fn state(id: u32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("State:\t"))?.chars().next()
}
