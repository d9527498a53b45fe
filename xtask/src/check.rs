//! `cargo xtask check`: all checks that need no running server.

use std::process::Command;

use anyhow::ensure;
use cargo_metadata::Metadata;

use crate::{cargo, invariants, module_cycles, packages};

/// Runs every check, even after a failure, and then says what to do about each failure.
pub(crate) fn run() -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    let mut failures = Vec::new();
    for (mut command, advice) in commands(&workspace)? {
        if let Err(error) = cargo::run(&mut command) {
            failures.push(format!("{error:#}: {advice}"));
        }
    }
    eprintln!("+ invariants of the workspace");
    failures.extend(invariants::violations(&workspace)?);
    failures.extend(module_cycles::violations(&workspace)?);
    for failure in &failures {
        eprintln!("- {failure}");
    }
    ensure!(failures.is_empty(), "the check found {} failure(s), listed above", failures.len());
    Ok(())
}

/// The checks by other tools, each with what to do when it fails.
fn commands(workspace: &Metadata) -> anyhow::Result<Vec<(Command, &'static str)>> {
    let cargo = |words: &str| {
        let mut command = cargo::command(&workspace.workspace_root);
        command.args(words.split(' '));
        command
    };

    // Clippy and rustdoc link nothing, so libFuzzer need not be compiled from its C++ source. They ask for the same
    // features, so that the dependencies are checked once.
    let mut clippy = cargo("clippy --workspace --all-targets --all-features -- -D warnings");
    clippy.env("CUSTOM_LIBFUZZER_PATH", "./none.a");

    let mut doc = cargo("doc --workspace --no-deps --all-features");
    doc.env("CUSTOM_LIBFUZZER_PATH", "./none.a").env("RUSTDOCFLAGS", "-D warnings");

    // Building each package from its archive as well would take minutes.
    let mut package = cargo("package --no-verify --allow-dirty --offline");
    for published in workspace.workspace_packages() {
        if published.publish.is_none() {
            package.args(["--package", published.name.as_str()]);
        }
    }

    // New advisories could fail any change at any time, so `cargo xtask advisories` reads them instead.
    let mut deny = packages::cargo_deny(workspace)?;
    deny.args(["--all-features", "--locked", "check", "--deny", "warnings"]);
    deny.args(["bans", "licenses", "sources"]);

    Ok(vec![
        (cargo("fmt --all --check"), "run `cargo fmt --all`"),
        (
            cargo("fmt --manifest-path examples/Cargo.toml --check"),
            "run `cargo fmt --manifest-path examples/Cargo.toml`",
        ),
        (clippy, "fix the warnings above"),
        (doc, "fix the documentation comments above"),
        (package, "fix the package; its Cargo.toml names the files in it"),
        (deny, "do without the dependency above, or change deny.toml and give the reason there"),
    ])
}
