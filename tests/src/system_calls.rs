//! What strace saw the server do, in the order in which it happened.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::deadline::wait_for;

/// One system call that came to its end.
#[derive(Clone, Debug)]
pub struct SystemCall {
    /// Its name.
    pub name: String,
    /// Its arguments as strace shows them.
    pub arguments: String,
    /// What it returned as strace shows it.
    pub result: String,
    /// The line of the trace on which it began.
    pub begun: usize,
    /// The line of the trace on which it had returned.
    pub returned: usize,
}

impl SystemCall {
    /// The file or socket that its first argument stands for.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        let (descriptor, rest) = self.arguments.split_once('<')?;
        descriptor.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        Some(rest.split_once('>')?.0)
    }

    /// Whether it returned no error.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.result.starts_with(|first: char| first.is_ascii_digit())
    }

    /// Whether it leaves a file's data on the disk.
    #[must_use]
    pub fn is_sync(&self) -> bool {
        matches!(self.name.as_str(), "fdatasync" | "fsync") && self.succeeded()
    }

    /// Whether it writes to a file or a socket.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self.name.as_str(),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg"
        )
    }
}

/// The system calls of one run, in the order in which they returned.
#[derive(Clone, Debug)]
pub struct SystemCalls(Vec<SystemCall>);

impl SystemCalls {
    /// Reads the trace of a process that has ended; strace may still be writing the end of it.
    ///
    /// # Panics
    ///
    /// When the trace does not become whole, or is no trace.
    #[must_use]
    #[track_caller]
    pub fn read(trace: &Path, process_id: u32) -> Self {
        let process_id = process_id.to_string();
        let is_end = |line: &str| {
            line.split_whitespace().next() == Some(&process_id)
                && (line.contains("+++ exited with") || line.contains("+++ killed by"))
        };
        let text = wait_for("strace to write the end of its trace", || {
            let text = fs::read(trace).ok()?;
            let text = String::from_utf8_lossy(&text).into_owned();
            text.lines().any(is_end).then_some(text)
        });
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut calls = Vec::new();
        // A call during which another thread did something stands on two lines.
        let mut unfinished: HashMap<&str, (usize, &str)> = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let (thread, event) = line.split_once(' ').expect("a line begins with a thread's id");
            let event = event.trim_start();
            if event.starts_with("+++") || event.starts_with("---") {
                continue;
            }
            if let Some(begin) = event.strip_suffix("<unfinished ...>") {
                unfinished.insert(thread, (number, begin));
                continue;
            }
            let (begun, whole) = match event.strip_prefix("<... ") {
                None => (number, event.to_owned()),
                Some(resumed) => {
                    let (_, end) = resumed.split_once("resumed>").expect("the end of a call");
                    let (begun, begin) = unfinished.remove(thread).expect("a call that had begun");
                    (begun, format!("{begin}{end}"))
                }
            };
            // A call that never returned, for the process was killed, has no result that counts.
            let Some((call, result)) = whole.rsplit_once(" = ") else { continue };
            let Some((name, arguments)) = call.split_once('(') else { continue };
            calls.push(SystemCall {
                name: name.to_owned(),
                arguments: arguments.trim_end().trim_end_matches(')').trim_end().to_owned(),
                result: result.to_owned(),
                begun,
                returned: number,
            });
        }
        Self(calls)
    }

    /// The calls for which `holds` holds.
    pub fn all(&self, holds: impl Fn(&SystemCall) -> bool) -> impl Iterator<Item = &SystemCall> {
        self.0.iter().filter(move |call| holds(call))
    }

    /// The first call for which `holds` holds.
    ///
    /// # Panics
    ///
    /// When there is none; `what` says then what was looked for.
    #[must_use]
    #[track_caller]
    pub fn first(&self, what: &str, holds: impl Fn(&SystemCall) -> bool) -> &SystemCall {
        let found = self.0.iter().find(|call| holds(call));
        found.unwrap_or_else(|| panic!("the trace does not show {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = concat!(
        "71  pwrite64(4</d/db>, \"Rosa = 1\", 8, 24 <unfinished ...>\n",
        "72  sendto(24<socket:[9]>, \"HTTP/1.1 200 OK\", 15, MSG_NOSIGNAL, NULL, 0) = 15\n",
        "71  <... pwrite64 resumed>)           = 8\n",
        "72  --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=1, si_uid=0} ---\n",
        "71  fdatasync(5</d/db>)               = -1 EIO (Input/output error) (INJECTED)\n",
        "73  fdatasync(5</d/db>)               = 0\n",
        "72  +++ exited with 0 +++\n",
        "71  +++ exited with 0 +++\n",
    );

    #[test]
    fn a_call_on_two_lines_is_one_call() {
        let calls = SystemCalls::parse(TRACE);
        let write = calls.first("the write", |call| call.name == "pwrite64");
        assert_eq!((write.begun, write.returned), (0, 2));
        assert_eq!(write.file(), Some("/d/db"));
        assert_eq!(write.arguments, "4</d/db>, \"Rosa = 1\", 8, 24");
        assert!(write.succeeded() && write.is_write());
    }

    #[test]
    fn a_sync_that_failed_is_none() {
        let calls = SystemCalls::parse(TRACE);
        let syncs: Vec<usize> = calls.all(SystemCall::is_sync).map(|call| call.begun).collect();
        assert_eq!(syncs, [5]);
    }
}
