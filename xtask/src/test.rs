//! `cargo xtask test`: everything that proves the product, from a fresh machine on.

use crate::deny::CargoDeny;
use crate::{cargo, packages, tools};

/// What tests need beside what a user gets by default. Not among them is what would change the program
/// that they run: fault points are in a program of their own, which the tests build that need it.
const FEATURES: &str = "plant-store/conformance,plant-http/fuzzing";

/// Brings the tools that tests need, builds the server and runs all tests.
///
/// `arguments` go to `cargo test` as they are.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    tools::ensure(&[
        tools::STRACE,
        tools::CURL,
        tools::OPENSSL,
        tools::MOUNT,
        tools::UNSHARE,
        tools::NGINX,
        tools::PYTHON,
        tools::NODE,
        tools::NPM,
    ])?;
    packages::PYTHON.ensure(&workspace)?;
    packages::NODE.ensure(&workspace)?;
    // xtask's own tests run it.
    CargoDeny::ensure(&workspace)?;
    // The black-box tests run the program itself, and `cargo test` of another package
    // does not build it.
    cargo::run(cargo::command(&workspace.workspace_root).args([
        "build",
        "--workspace",
        "--features",
        FEATURES,
        "--bin",
        "plantd",
    ]))?;
    cargo::run(
        cargo::command(&workspace.workspace_root)
            .args(["test", "--workspace", "--features", FEATURES])
            .args(arguments),
    )
}
