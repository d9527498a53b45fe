//! Runs cargo and other programs without standard input, and prints each command line as a person would type it.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

/// The members, root folder and target folder of the workspace.
pub(crate) fn workspace() -> anyhow::Result<Metadata> {
    let metadata = MetadataCommand::new().no_deps().exec();
    metadata.context("cannot read the workspace; run this inside the plantd checkout")
}

/// A command of the cargo that runs xtask, so that `cargo +toolchain xtask` uses that toolchain throughout.
pub(crate) fn command(folder: impl AsRef<Path>) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(folder);
    // Without this, build scripts would see variables about xtask's own package, run again, and rebuild their crates.
    for (name, _) in env::vars_os() {
        let is_about_xtask =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_about_xtask) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command whose output goes to the terminal; an error if it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = announce(command);
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Runs a command, and returns its standard output; an error if it fails.
pub(crate) fn run_for_output(command: &mut Command) -> anyhow::Result<String> {
    let line = announce(command);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } = output.with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    String::from_utf8(stdout).with_context(|| format!("the output of `{line}` is not UTF-8"))
}

fn announce(command: &Command) -> String {
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
    eprintln!("+ {line}");
    line
}
