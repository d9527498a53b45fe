//! A lock file, so that one process at a time changes a file.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::files::directory_entry::{DirectoryEntry, FOLDER_ADVICE};

/// How long to wait for another process that holds the lock.
const LOCK_DEADLINE: Duration = Duration::from_secs(10);

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for the lock of the file at `path`, and holds it until the returned file is dropped. `PATH.lock` is locked, because
/// the file itself is replaced. Other users cannot open the lock file, so they cannot hold the lock.
///
/// # Errors
///
/// When another process holds it for longer than [`LOCK_DEADLINE`], when another user may have made `PATH.lock`, or when the
/// folder is missing, not writable, or on a file system without locks.
pub(crate) fn lock(path: &Path) -> anyhow::Result<File> {
    let cannot_lock = || format!("cannot lock {}; {FOLDER_ADVICE}", path.display());
    let opened = DirectoryEntry::find(path).and_then(|entry| entry.open_lock());
    let lock = opened.map_err(|error| match error.is::<io::Error>() {
        true => error.context(cannot_lock()),
        false => error,
    })?;
    let deadline = Instant::now() + LOCK_DEADLINE;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {
                if Instant::now() >= deadline {
                    let cause = io::Error::from(io::ErrorKind::TimedOut);
                    let what = format!("another process is changing {}", path.display());
                    return Err(cause).context(what);
                }
                thread::sleep(LOCK_POLL_INTERVAL);
            }
            Err(TryLockError::Error(cause)) => return Err(cause).with_context(cannot_lock),
        }
    }
}
