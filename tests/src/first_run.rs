//! The command that a first start shows.

use std::process::{Command, Output};

use crate::deadline::wait_for;
use crate::server::TestServer;

/// The command on standard error that creates a plant.
///
/// # Panics
///
/// When there is none by the deadline.
#[must_use]
#[track_caller]
pub fn shown_command(server: &TestServer) -> String {
    wait_for("a command that creates a plant", || {
        let stderr = server.stderr();
        // A line that has no end yet may lack some of the command.
        let lines = stderr.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(str::trim).find(|line| line.starts_with("curl ")).map(str::to_owned)
    })
}

/// Does what someone does who pastes the command.
///
/// # Panics
///
/// When there is no shell or no curl on this machine.
#[must_use]
#[track_caller]
pub fn paste(command: &str) -> Output {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    assert!(has_curl, "install curl: the first start shows a command that needs it");
    Command::new("sh").args(["-c", command]).env("no_proxy", "*").output().expect("a shell")
}
