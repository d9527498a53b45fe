//! `cargo xtask check`: what can be said about the workspace without running the product.

use std::process::Command;

use anyhow::bail;

use crate::deny::{CargoDeny, Workspace};
use crate::invariants::packages;
use crate::usage::UsageError;
use crate::{cargo, invariants};

const USAGE: &str = "usage: cargo xtask check\n";

/// What the repository alone decides. Advisories come whenever they come, and fail no change.
const DENY_CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

const DENY_ADVICE: &str = "do without what it names above, or change deny.toml and say why there";

/// Runs every check, also after one has failed, and then says what to do about each failure.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    if let Some(argument) = arguments.first() {
        return Err(UsageError::new(format!("unexpected argument `{argument}`"), USAGE).into());
    }
    let workspace = cargo::workspace()?;
    let mut failures = Vec::new();
    for (mut command, advice) in cargo_checks(&workspace) {
        if let Err(error) = cargo::run(&mut command) {
            failures.push(format!("{error:#}: {advice}"));
        }
    }
    match CargoDeny::ensure(&workspace) {
        Ok(deny) => {
            for dependencies in Workspace::ALL {
                let mut command =
                    deny.check(&workspace.workspace_root, dependencies, &[], DENY_CHECKS);
                if let Err(error) = cargo::run(&mut command) {
                    failures.push(format!("{error:#}: {DENY_ADVICE}"));
                }
            }
        }
        Err(error) => failures.push(format!("the dependencies cannot be checked: {error:#}")),
    }
    eprintln!("+ invariants of the workspace");
    match invariants::violations(workspace.workspace_root.as_std_path()) {
        Ok(violations) => failures.extend(violations),
        Err(error) => failures.push(format!("the invariants cannot be checked: {error:#}")),
    }
    if failures.is_empty() {
        return Ok(());
    }
    for failure in &failures {
        eprintln!("- {failure}");
    }
    bail!("the check found {} failure(s), listed above", failures.len());
}

/// The checks that cargo itself does, each with what to do when it fails.
fn cargo_checks(workspace: &cargo_metadata::Metadata) -> [(Command, &'static str); 7] {
    let cargo = || cargo::command(&workspace.workspace_root);

    let mut format = cargo();
    format.args(["fmt", "--all", "--check"]);

    let mut format_fuzz = cargo();
    format_fuzz.args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]);

    let mut format_examples = cargo();
    format_examples.args(["fmt", "--manifest-path", "examples/Cargo.toml", "--check"]);

    let mut clippy = cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--all-features"]);
    clippy.args(["--", "-D", "warnings"]);

    let mut clippy_fuzz = cargo();
    clippy_fuzz.args(["clippy", "--manifest-path", "fuzz/Cargo.toml", "--locked"]);
    clippy_fuzz.args(["--target-dir", "target", "--", "-D", "warnings"]);
    // Nothing is linked here, so libFuzzer need not be built from its C++.
    clippy_fuzz.env("CUSTOM_LIBFUZZER_PATH", "./none.a");

    let mut doc = cargo();
    doc.env("RUSTDOCFLAGS", "-D warnings");
    doc.args(["doc", "--no-deps", "--workspace", "--all-features"]);

    let mut package = cargo();
    // A change is checked before it is committed, and what is packed is built by `cargo package` alone: that
    // takes minutes. All that it needs is there, for the others have fetched it.
    package.args(["package", "--no-verify", "--allow-dirty", "--offline"]);
    for published in
        workspace.workspace_packages().into_iter().filter(|it| packages::is_published(it))
    {
        package.args(["--package", published.name.as_str()]);
    }

    [
        (
            format,
            "run `cargo fmt --all` (`rustup component add rustfmt` if there is no such command)",
        ),
        (format_fuzz, "run `cargo fmt --manifest-path fuzz/Cargo.toml`"),
        (format_examples, "run `cargo fmt --manifest-path examples/Cargo.toml`"),
        (
            clippy,
            "mend what it names above (`rustup component add clippy` if there is no such command)",
        ),
        (
            clippy_fuzz,
            "mend what it names above; for a lock file that does not fit, run `cargo update --workspace \
             --manifest-path fuzz/Cargo.toml`",
        ),
        (doc, "mend the documentation comments that it names above"),
        (package, "mend what keeps it from being packed; its Cargo.toml says what goes in"),
    ]
}
