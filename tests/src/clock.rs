//! A clock that a test sets while a program runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use tempfile::TempDir;

use crate::launch::Launch;

/// A clock for the programs that [`Clock::launch`] starts. Until a test sets it, it shows the system's time.
#[derive(Debug)]
pub struct Clock {
    folder: TempDir,
}

impl Clock {
    /// A clock that shows the system's time. Needs a C compiler.
    pub fn new() -> Self {
        let clock = Self { folder: tempfile::tempdir().expect("a temporary folder can be made") };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(clock.library())
            .arg(source)
            .status();
        assert!(compiled.expect("cc can be started").success(), "{source} compiles");
        clock.set_offset(0);
        clock
    }

    /// Makes a program use this clock.
    pub fn launch(&self, launch: Launch) -> Launch {
        launch
            .environment("LD_PRELOAD", self.library())
            .environment("PLANTD_TESTS_CLOCK", self.file())
    }

    /// Sets the clock to this many seconds after the Unix epoch.
    pub fn set(&self, seconds: i64) {
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("the time is later than 1970").as_secs();
        self.set_offset(seconds - i64::try_from(now).expect("the seconds fit into an i64"));
    }

    /// Sets the clock this many seconds ahead of the system's time.
    pub fn set_offset(&self, seconds: i64) {
        let new = self.folder.path().join("new");
        fs::write(&new, seconds.to_string()).expect("a file can be written");
        fs::rename(&new, self.file()).expect("a file can be renamed");
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("clock.so")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
