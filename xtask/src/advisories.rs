//! `cargo xtask advisories`: whether the RustSec advisory database knows something of a dependency.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use cargo_metadata::Metadata;
use tempfile::TempDir;

use crate::cargo;
use crate::deny::{CargoDeny, Workspace};
use crate::usage::UsageError;

const USAGE: &str = "\
usage: cargo xtask advisories [PATH]

PATH is a checkout or a plain copy of https://github.com/RustSec/advisory-db;
without it, git fetches one into the target folder
";

/// The environment variable that tells `deny.toml` in which folder databases are.
const DATABASES: &str = "PLANTD_ADVISORY_DATABASES";

/// The name that cargo-deny gives, in that folder, to the database of RustSec.
const DATABASE: &str = "advisory-db-3157b0e258782691";

/// Holds all lock files against the database that the argument names, or the newest one.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let path = match arguments {
        [] => None,
        [path] if !path.starts_with('-') => Some(Path::new(path)),
        [.., unexpected] => {
            let problem = format!("unexpected argument `{unexpected}`");
            return Err(UsageError::new(problem, USAGE).into());
        }
    };
    let workspace = cargo::workspace()?;
    let root = workspace.workspace_root.as_std_path();
    let placed = path.map(place).transpose()?;
    let deny = CargoDeny::ensure(&workspace)?;
    let databases = match &placed {
        Some(folder) => folder.path().to_owned(),
        None => fetch(&deny, &workspace)?,
    };
    let mut failures = Vec::new();
    for workspace in Workspace::ALL {
        for mut preparation in preparations(root, workspace) {
            cargo::run(&mut preparation).context("the registry cannot be asked")?;
        }
        failures.extend(cargo::run(&mut check(&deny, root, workspace, &databases)).err());
    }
    for failure in &failures {
        eprintln!("- {failure:#}");
    }
    if !failures.is_empty() {
        bail!(
            "the findings are above: `cargo update` to a version without them, or do without the crate; \
             only then make an exception in deny.toml, and say why and until when. Take out an \
             exception that is not needed any more"
        );
    }
    Ok(())
}

/// The folder of databases with the newest one in it.
fn fetch(deny: &CargoDeny, workspace: &Metadata) -> anyhow::Result<PathBuf> {
    let databases = workspace.target_directory.join("advisory-databases").into_std_path_buf();
    let mut fetch = deny.command(&workspace.workspace_root);
    fetch.env(DATABASES, &databases).args(["--config", "deny.toml", "fetch", "db"]);
    cargo::run(&mut fetch).context(
        "the advisory database cannot be fetched; get a copy of it in another way, and say \
         `cargo xtask advisories PATH` with its folder",
    )?;
    Ok(databases)
}

/// What a check goes by beside the database: what the registry says of all versions, and the crates.
fn preparations(root: &Path, workspace: Workspace) -> [Command; 2] {
    let cargo = |arguments: &[&str]| {
        let mut command = cargo::command(root);
        command.args(arguments).args(["--manifest-path", workspace.manifest()]);
        command
    };
    // With a lock file that fits, cargo asks nobody whether what stands there was yanked meanwhile.
    [cargo(&["update", "--dry-run", "--quiet"]), cargo(&["fetch", "--locked", "--quiet"])]
}

fn check(deny: &CargoDeny, root: &Path, workspace: Workspace, databases: &Path) -> Command {
    // Otherwise it fetches the database, whichever is there.
    let mut check = deny.check(root, workspace, &["--offline"], ["advisories"]);
    check.env(DATABASES, databases);
    check
}

/// A folder of databases with the one at `path` as that of RustSec.
fn place(path: &Path) -> anyhow::Result<TempDir> {
    if !path.join("crates").is_dir() {
        bail!("{} is no advisory database: there is no folder `crates` in it", path.display());
    }
    let context = "cannot make a folder with the advisory database in it";
    let databases = tempfile::tempdir().context(context)?;
    link(path, &databases.path().join(DATABASE)).context(context)?;
    Ok(databases)
}

/// cargo-deny does not take a checkout that was not fetched for 90 days. The age of a plain copy is known to
/// nobody, so it counts as fetched now.
fn link(path: &Path, database: &Path) -> io::Result<()> {
    let path = path.canonicalize()?;
    if path.join(".git").exists() {
        return symlink(path, database);
    }
    eprintln!("{} is no git checkout: nobody knows how old it is", path.display());
    fs::create_dir_all(database.join(".git"))?;
    File::create(database.join(".git/FETCH_HEAD"))?;
    symlink(path.join("crates"), database.join("crates"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// A workspace with one dependency, and the copy of a database that knows one thing about it.
    struct Garden {
        folder: TempDir,
    }

    impl Garden {
        /// With `versions` as what the advisory says of versions, and `exceptions` in a `deny.toml` that is
        /// ours otherwise.
        fn new(versions: &str, exceptions: &str) -> Self {
            let garden = Self { folder: tempfile::tempdir().unwrap() };
            garden.write("Cargo.toml", MANIFEST);
            garden.write("Cargo.lock", &LOCK.replace("CHECKSUM", &"0".repeat(64)));
            garden.write("src/lib.rs", "");
            garden.write(".cargo/config.toml", REGISTRY);
            garden.write("registry/weed/Cargo.toml", DEPENDENCY);
            garden.write("registry/weed/src/lib.rs", "");
            let checksums =
                r#"{"files":{},"package":"CHECKSUM"}"#.replace("CHECKSUM", &"0".repeat(64));
            garden.write("registry/weed/.cargo-checksum.json", &checksums);
            let advisory = ADVISORY.replace("VERSIONS", versions);
            garden.write("copy/crates/weed/RUSTSEC-2000-0001.md", &advisory);
            let (before, rest) = include_str!("../../deny.toml").split_once("ignore = [").unwrap();
            let (_, after) = rest.split_once("\n]\n").unwrap();
            // The index of crates.io does not know this crate.
            let exceptions = format!("disable-yank-checking = true\nignore = [{exceptions}]\n");
            garden.write("deny.toml", &[before, &exceptions, after].concat());
            garden
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        /// Whether the check passes, and what it says.
        fn check(&self) -> (bool, String) {
            let deny = CargoDeny::find(&cargo::workspace().unwrap());
            let deny = deny.expect("`cargo xtask test` builds cargo-deny");
            let databases = place(&self.path("copy")).unwrap();
            let mut check = check(&deny, self.folder.path(), Workspace::Main, databases.path());
            check.env("CARGO_TERM_COLOR", "never");
            let (outcome, words) = cargo::run_listening(&mut check).unwrap();
            (outcome.is_ok(), words)
        }
    }

    const MANIFEST: &str = "\
        package = { name = 'garden', version = '1.0.0', edition = '2024' }\n\
        dependencies = { weed = '1' }\n\
        workspace = {}\n";

    const LOCK: &str = "\
        version = 4\n\
        [[package]]\n\
        name = 'garden'\n\
        version = '1.0.0'\n\
        dependencies = ['weed']\n\
        [[package]]\n\
        name = 'weed'\n\
        version = '1.0.0'\n\
        source = 'registry+https://github.com/rust-lang/crates.io-index'\n\
        checksum = 'CHECKSUM'\n";

    const REGISTRY: &str = "\
        source.crates-io.replace-with = 'here'\n\
        source.here.directory = 'registry'\n";

    const DEPENDENCY: &str = "package = { name = 'weed', version = '1.0.0', edition = '2024' }\n";

    const ADVISORY: &str = "\
        ```toml\n\
        [advisory]\n\
        id = \"RUSTSEC-2000-0001\"\n\
        package = \"weed\"\n\
        date = \"2000-01-01\"\n\
        VERSIONS\n\
        ```\n\n\
        # It grows without end\n\n\
        It does.\n";

    const MENDED_LATER: &str = "[versions]\npatched = [\">= 1.0.1\"]";
    const MENDED_BEFORE: &str = "[versions]\npatched = [\">= 0.9.0\"]";
    const UNMAINTAINED: &str = "informational = \"unmaintained\"\n[versions]\npatched = []";
    const UNSOUND: &str = "informational = \"unsound\"\n[versions]\npatched = []";
    const EXCEPTION: &str = "{ id = 'RUSTSEC-2000-0001', reason = 'it is a garden' }";

    #[test]
    fn a_finding_fails_with_advisory_crate_version_title_and_what_to_do() {
        let (passes, words) = Garden::new(MENDED_LATER, "").check();
        assert!(!passes);
        for said in
            ["RUSTSEC-2000-0001", "weed 1.0.0", "It grows without end", "Upgrade to >=1.0.1"]
        {
            assert!(words.contains(said), "no {said} in:\n{words}");
        }
    }

    #[test]
    fn a_version_that_is_mended_passes() {
        assert_eq!(Garden::new(MENDED_BEFORE, "").check(), (true, String::new()));
    }

    #[test]
    fn a_crate_that_is_unmaintained_or_unsound_fails_too() {
        for (kind, versions) in [("unmaintained", UNMAINTAINED), ("unsound", UNSOUND)] {
            let (passes, words) = Garden::new(versions, "").check();
            assert!(!passes && words.contains(kind), "{kind}:\n{words}");
        }
    }

    #[test]
    fn an_exception_silences_a_finding() {
        assert_eq!(Garden::new(MENDED_LATER, EXCEPTION).check(), (true, String::new()));
    }

    #[test]
    fn an_exception_that_nothing_needs_any_more_fails() {
        let (passes, words) = Garden::new(MENDED_BEFORE, EXCEPTION).check();
        assert!(!passes && words.contains("advisory was not encountered"), "{words}");
    }

    #[test]
    fn a_folder_without_advisories_is_no_database() {
        let folder = tempfile::tempdir().unwrap();
        let error = place(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("is no advisory database: there is no folder `crates` in it"));
    }

    #[test]
    fn a_checkout_that_was_not_fetched_for_long_is_not_taken() {
        let garden = Garden::new(MENDED_BEFORE, "");
        garden.write("copy/.git/FETCH_HEAD", "");
        let fetched =
            File::options().write(true).open(garden.path("copy/.git/FETCH_HEAD")).unwrap();
        fetched.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let (passes, words) = garden.check();
        assert!(!passes && words.contains("repository is stale"), "{words}");
    }

    #[test]
    fn more_than_a_path_is_a_usage_error() {
        for arguments in [&["one", "two"][..], &["--help"]] {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let error = run(&arguments).unwrap_err();
            assert!(error.downcast_ref::<UsageError>().is_some(), "{error}");
        }
    }
}
