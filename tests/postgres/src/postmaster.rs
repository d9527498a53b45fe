//! The process of a server.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use crate::deadline::{wait_for, wait_until};
use crate::programs;

/// The line of `postmaster.pid` that says how far the server is.
const STATUS_LINE: usize = 7;

/// What a server says when something is still there that goes away by itself: the memory of one that was
/// killed, or a port that another program has for the moment.
const TRANSIENT: [&str; 2] = ["pre-existing shared memory block", "could not bind"];

/// The first process of a server, from which it starts all others.
#[derive(Debug)]
pub(crate) struct Postmaster {
    child: Child,
}

impl Postmaster {
    /// Starts a server, and returns when it takes connections.
    ///
    /// # Errors
    ///
    /// When it ends before, for a reason that may be gone the next time. This is its log.
    ///
    /// # Panics
    ///
    /// When it ends before for another reason.
    #[track_caller]
    pub(crate) fn start(data: &Path, log: &Path, settings: &[String]) -> Result<Self, String> {
        let file = File::create(log).expect("a log can be made");
        let mut command = programs::unprivileged("postgres");
        command.arg("-D").arg(data);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.stdout(file.try_clone().expect("a file can be cloned")).stderr(file);
        // A terminal's signals are not for it.
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
        // It may be the file of the server before, or not be whole yet.
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

    /// Stops all processes of the server as they stand, and returns the others than this one.
    #[track_caller]
    pub(crate) fn freeze(&self) -> Vec<u32> {
        self.send(Signal::STOP);
        // From when it is stopped it starts no others.
        wait_until("postgres to be stopped", || state(self.child.id()) == Some('T'));
        let children = self.children();
        for id in &children {
            send(*id, Signal::STOP);
        }
        children
    }

    /// Lets them go on.
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

    /// Sends SIGKILL to all processes of the server, and waits until none is left.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        let children = self.freeze();
        self.send(Signal::KILL);
        for id in &children {
            send(*id, Signal::KILL);
        }
        self.wait_for_exit();
        // What adopts them may be slow to ask how they ended.
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
            // A panic in a drop would hide what went wrong before; the guardian is still there.
            let _ = self.child.wait();
        }
    }
}

fn send(id: u32, signal: Signal) {
    let id = i32::try_from(id).expect("a process id is an i32");
    // It fails only when the process has ended.
    let _ = kill_process(Pid::from_raw(id).expect("a process id is not 0"), signal);
}

/// The letter for what a process does at the moment; none if there is no such process.
fn state(id: u32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("State:\t"))?.chars().next()
}
