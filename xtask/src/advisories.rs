//! `cargo xtask advisories`: compares the dependencies with the RustSec advisory database.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::{cargo, packages};

/// The environment variable from which `deny.toml` reads the folder of advisory databases.
const DATABASES: &str = "PLANTD_ADVISORY_DATABASES";

/// The name that cargo-deny gives to its copy of the RustSec database.
const DATABASE: &str = "advisory-db-3157b0e258782691";

pub(crate) fn run(copy: Option<&Path>) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    let deny = || packages::cargo_deny(&workspace);
    let for_copies = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut databases = workspace.target_directory.join("advisory-databases").into_std_path_buf();
    match copy {
        None => cargo::run(deny()?.env(DATABASES, &databases).args(["fetch", "db"])).context(
            "cannot fetch the advisory database; give the path of a copy: `cargo xtask advisories PATH`",
        )?,
        Some(copy) => {
            databases = for_copies.path().to_owned();
            place(copy, &databases.join(DATABASE))?;
        }
    }
    // Fetches which versions are yanked. With a lock file that fits, cargo asks the registry for nothing else.
    let mut update = cargo::command(&workspace.workspace_root);
    cargo::run(update.args(["update", "--dry-run", "--quiet"]))?;
    let mut check = deny()?;
    check.env(DATABASES, &databases).args(["--all-features", "--locked", "--offline"]);
    cargo::run(check.args(["check", "--deny", "warnings", "advisories"])).context(
        "update to a version without the findings above, or do without the crate; the last resort is an \
         exception in deny.toml that says why, and what ends it",
    )
}

/// Links a copy of the database to the place where cargo-deny expects the one that it fetches.
fn place(copy: &Path, database: &Path) -> anyhow::Result<()> {
    ensure!(copy.join("crates").is_dir(), "{} is no advisory database", copy.display());
    let copy = copy.canonicalize()?;
    fs::create_dir_all(database.join(".git"))?;
    // cargo-deny refuses a database that was not fetched for 90 days. The age of this copy is unknown.
    File::create(database.join(".git/FETCH_HEAD"))?;
    symlink(copy.join("crates"), database.join("crates")).context("cannot link to the copy")
}
