//! A pseudo-terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};

use crate::wait_until;

/// A pseudo-terminal that a process may have as its standard output.
#[derive(Debug)]
pub struct Terminal {
    path: PathBuf,
    /// Keeps the terminal open until a process has opened it.
    user_side: OwnedFd,
    reader: JoinHandle<String>,
}

impl Terminal {
    /// Opens a pseudo-terminal.
    pub fn open() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).expect("a terminal can be made");
        grantpt(&controller).expect("this user owns the terminal");
        unlockpt(&controller).expect("this user owns the terminal");
        let path = ptsname(&controller, Vec::new()).expect("the terminal has a path");
        let path = OsStr::from_bytes(path.as_bytes()).into();
        let user_side = ioctl_tiocgptpeer(&controller, flags).expect("the terminal can be opened");
        // A terminal buffers little: without a reader, the process would block.
        let reader = thread::spawn(move || {
            let mut shown = Vec::new();
            // Ends with an error once no process has the terminal open.
            let _ = File::from(controller).read_to_end(&mut shown);
            String::from_utf8_lossy(&shown).replace("\r\n", "\n")
        });
        Self { path, user_side, reader }
    }

    /// The file to write to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All that was written. Waits until every process that has the terminal has ended.
    #[track_caller]
    pub fn into_output(self) -> String {
        drop(self.user_side);
        wait_until("the end of what the terminal shows", || self.reader.is_finished());
        self.reader.join().expect("no panic")
    }
}
