//! Cargo and what works with it, started from inside `cargo xtask`.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// The members, root folder and target folder of the workspace that the current folder is in.
pub(crate) fn workspace() -> anyhow::Result<Metadata> {
    MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cannot read the workspace; run this inside the plantd checkout")
}

/// A cargo command that runs in the root of the workspace.
///
/// It is the same cargo that runs xtask, so that `cargo +toolchain xtask` means that
/// toolchain all the way down.
pub(crate) fn command(workspace_root: impl AsRef<Path>) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(workspace_root).stdin(Stdio::null());
    // What cargo tells xtask of its package would have some dependencies built again.
    for (name, _) in env::vars_os() {
        let is_of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command, whose output goes to the terminal, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = command_line(command);
    eprintln!("+ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`; is cargo in the PATH?"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs a command, and returns how it ended and what it said on standard error.
pub(crate) fn run_listening(command: &mut Command) -> anyhow::Result<(anyhow::Result<()>, String)> {
    let line = command_line(command);
    eprintln!("+ {line}");
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.with_context(|| format!("cannot start `{line}`; is cargo in the PATH?"))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status;
    Ok((
        status.success().then_some(()).with_context(|| format!("`{line}` failed ({status})")),
        words,
    ))
}

/// Runs a command, and returns what it printed on standard output.
pub(crate) fn run_for_output(command: &mut Command) -> anyhow::Result<String> {
    let line = command_line(command);
    eprintln!("+ {line}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start `{line}`; is cargo in the PATH?"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed what is not UTF-8"))
}

/// What a person would type to run the same command.
fn command_line(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line.push_str(&format!("{}={value:?} ", name.display()));
        }
    }
    let program = Path::new(command.get_program());
    line.push_str(&program.file_name().unwrap_or_default().to_string_lossy());
    for argument in command.get_args() {
        line.push_str(&format!(" {}", argument.display()));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_the_way_a_person_types_it() {
        let mut command = command(".");
        command.env("RUSTDOCFLAGS", "-D warnings");
        command.args(["doc", "--no-deps"]);
        assert_eq!(command_line(&command), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
        let mut tool = Command::new("target/tools/bin/cargo-deny");
        assert_eq!(command_line(tool.arg("check")), "cargo-deny check");
    }
}
