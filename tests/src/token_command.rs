//! `plantd token`, as someone calls it who runs a server.

use std::path::Path;

use crate::launch::Launch;
use crate::process::Process;

/// The command on the tokens in this folder, with what stands behind `plantd token`.
#[must_use]
pub fn token_command(data: &Path, arguments: &[&str]) -> Launch {
    let arguments = ["token"].iter().chain(arguments).copied();
    Launch::new().without_environment("PLANTD_TOKEN").data(data).arguments(arguments)
}

/// Makes a token, with what stands behind `plantd token create`.
///
/// # Panics
///
/// When it is not made, or something else than the token is printed.
#[must_use]
#[track_caller]
pub fn create_token(data: &Path, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = ["create"].iter().chain(arguments).copied().collect();
    let ended = succeed(&token_command(data, &arguments));
    let stdout = ended.stdout();
    let token = stdout.strip_suffix('\n').expect("a line");
    assert!(!token.contains(char::is_whitespace), "a token alone is printed: {stdout:?}");
    assert_eq!(ended.stderr(), "");
    token.to_owned()
}

/// Revokes tokens, with what stands behind `plantd token revoke`.
///
/// # Panics
///
/// When that fails.
#[track_caller]
pub fn revoke_token(data: &Path, arguments: &[&str]) {
    let arguments: Vec<&str> = ["revoke"].iter().chain(arguments).copied().collect();
    succeed(&token_command(data, &arguments));
}

#[track_caller]
fn succeed(launch: &Launch) -> Process {
    let mut process = launch.spawn();
    process.assert_exit_code(0);
    process
}
