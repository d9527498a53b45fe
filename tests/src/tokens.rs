//! `plantd token`, a handwritten tokens file, and the command that a first start shows.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use sha2::{Digest as _, Sha256};

use crate::folder::set_mode;
use crate::launch::Launch;
use crate::process::Process;
use crate::server::TestServer;
use crate::wait_for;

/// `plantd token` with these arguments, on the tokens in this folder.
pub fn token_command(data: &Path, arguments: &[&str]) -> Launch {
    let arguments = ["token"].iter().chain(arguments).copied();
    Launch::new().without_environment("PLANTD_TOKEN").data(data).arguments(arguments)
}

/// Makes a token by `plantd token create`, with the scope write unless the arguments have another, and asserts that it prints
/// only the token.
#[track_caller]
pub fn create_token(data: &Path, arguments: &[&str]) -> String {
    let scope: &[&str] = if arguments.contains(&"--scope") { &[] } else { &["--scope", "write"] };
    let ended = succeed(data, "create", &[arguments, scope].concat());
    let stdout = ended.stdout();
    let token = stdout.strip_suffix('\n').expect("a line");
    assert!(!token.contains(char::is_whitespace), "a token alone is printed: {stdout:?}");
    let said = ended.stderr();
    assert!(said.starts_with("valid until ") || said == "never expires\n", "{said}");
    token.to_owned()
}

/// Revokes tokens by `plantd token revoke`.
#[track_caller]
pub fn revoke_token(data: &Path, arguments: &[&str]) {
    succeed(data, "revoke", arguments);
}

#[track_caller]
fn succeed(data: &Path, action: &str, arguments: &[&str]) -> Process {
    token_command(data, &[&[action], arguments].concat()).run(0)
}

/// Makes the folder of a server with three tokens: `reader` (scope read), `writer` (scope write) and `expired` (scope
/// write, expired).
pub fn write_tokens_file(data: &Path) {
    fs::create_dir(data).expect("a folder can be made");
    let path = data.join("tokens.json");
    let records = [
        record("reader", "read", "null"),
        record("writer", "write", "\"9999-12-30T00:00:00Z\""),
        record("expired", "write", "\"2020-01-02T00:00:00Z\""),
    ];
    fs::write(&path, format!(r#"{{"tokens":[{}]}}"#, records.join(",")))
        .expect("a file can be written");
    set_mode(&path, 0o600);
}

fn record(token: &str, scope: &str, expires: &str) -> String {
    let digest: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        r#"{{"name":"{token}","scope":"{scope}","created":"2020-01-01T00:00:00Z",
            "expires":{expires},"sha256":"{digest}"}}"#
    )
}

/// The command that a first start shows for creating a plant.
#[track_caller]
pub fn shown_command(server: &TestServer) -> String {
    wait_for("a command that creates a plant", || {
        let stderr = server.stderr();
        // A line without its end may be incomplete.
        let lines = stderr.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(str::trim).find(|line| line.starts_with("curl ")).map(str::to_owned)
    })
}

/// Runs a command as if a user pasted it into a shell.
#[track_caller]
pub fn paste(command: &str) -> Output {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    assert!(has_curl, "install curl: the first start shows a command that needs it");
    Command::new("sh").args(["-c", command]).env("no_proxy", "*").output().expect("a shell")
}
