//! `cargo xtask swagger-ui`: whether the files of Swagger UI are those of its npm package, or taking newer ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::cargo;
use crate::tools::{self, NPM};
use crate::usage::UsageError;

const USAGE: &str = "\
usage: cargo xtask swagger-ui [VERSION]

compares the files of Swagger UI here with those of their version in the npm package, and says which version is
the newest; with VERSION, takes the files of that one
";

const PACKAGE: &str = "swagger-ui-dist";

/// Where the files are.
const FOLDER: &str = "crates/plant-http/swagger-ui";

/// What is taken of the package.
const FILES: [&str; 5] = [
    "LICENSE",
    "NOTICE",
    "swagger-ui-bundle.js",
    "swagger-ui-bundle.js.LICENSE.txt",
    "swagger-ui.css",
];

/// The file that says which version the others are of.
const VERSION: &str = "VERSION";

/// Compares with the version that is said to be here, or takes the one that the argument names.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let wanted = match arguments {
        [] => None,
        [version] if version.starts_with(|first: char| first.is_ascii_digit()) => Some(version),
        [.., unexpected] => {
            let problem = format!("unexpected argument `{unexpected}`");
            return Err(UsageError::new(problem, USAGE).into());
        }
    };
    let workspace = cargo::workspace()?;
    let folder = workspace.workspace_root.as_std_path().join(FOLDER);
    tools::ensure(&[NPM])?;
    if let Some(version) = wanted {
        let package = Package::fetch(version)?;
        take(&package.files, &folder, version)?;
        eprintln!(
            "these are the files of {version} now: run the tests, and look at the page in a browser"
        );
        return Ok(());
    }
    let version = version(&folder)?;
    let package = Package::fetch(&version)?;
    let differences = differences(&package.files, &folder)?;
    if !differences.is_empty() {
        bail!(
            "not as in {PACKAGE} {version}: {}; `cargo xtask swagger-ui {version}` brings them back",
            differences.join(", ")
        );
    }
    let newest = cargo::run_for_output(npm()?.args(["view", PACKAGE, "version"]))?;
    eprintln!(
        "all files are those of {PACKAGE} {version}; the newest version is {}",
        newest.trim()
    );
    Ok(())
}

/// The npm package in one version, as it was published.
struct Package {
    /// Where the files of the package are.
    files: PathBuf,
    _folder: TempDir,
}

impl Package {
    /// Nothing of what the package brings is run.
    fn fetch(version: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the package")?;
        let mut pack = npm()?;
        pack.current_dir(folder.path()).args(["pack", "--silent", "--ignore-scripts"]);
        let archive = cargo::run_for_output(pack.arg(format!("{PACKAGE}@{version}")))?;
        let mut unpack = Command::new("tar");
        cargo::run(unpack.current_dir(folder.path()).args(["-xzf", archive.trim()]))?;
        Ok(Self { files: folder.path().join("package"), _folder: folder })
    }
}

fn npm() -> anyhow::Result<Command> {
    Ok(Command::new(tools::find(&NPM)?))
}

/// The version of the files that are here.
fn version(folder: &Path) -> anyhow::Result<String> {
    Ok(String::from_utf8(read(folder, VERSION)?)?.trim().to_owned())
}

/// The names of the files that are not the same here as in the package.
fn differences(package: &Path, folder: &Path) -> anyhow::Result<Vec<&'static str>> {
    let mut differences = Vec::new();
    for name in FILES {
        if read(package, name)? != read(folder, name)? {
            differences.push(name);
        }
    }
    Ok(differences)
}

fn take(package: &Path, folder: &Path, version: &str) -> anyhow::Result<()> {
    for name in FILES {
        write(folder, name, &read(package, name)?)?;
    }
    write(folder, VERSION, format!("{version}\n").as_bytes())
}

fn read(folder: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    let path = folder.join(name);
    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(folder: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let path = folder.join(name);
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package, and a folder that has taken it.
    fn taken() -> (TempDir, TempDir) {
        let (package, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in FILES {
            fs::write(package.path().join(name), name).unwrap();
        }
        fs::write(package.path().join("more.js"), "").unwrap();
        take(package.path(), folder.path(), "1.2.3").unwrap();
        (package, folder)
    }

    #[test]
    fn what_was_taken_is_the_same_and_says_its_version() {
        let (package, folder) = taken();
        assert_eq!(version(folder.path()).unwrap(), "1.2.3");
        assert_eq!(differences(package.path(), folder.path()).unwrap(), [""; 0]);
        assert!(!folder.path().join("more.js").exists());
    }

    #[test]
    fn a_file_with_another_byte_is_named() {
        let (package, folder) = taken();
        fs::write(folder.path().join("NOTICE"), "NOTICE\n").unwrap();
        assert_eq!(differences(package.path(), folder.path()).unwrap(), ["NOTICE"]);
    }

    #[test]
    fn a_file_that_is_not_there_fails_the_comparison() {
        let (package, folder) = taken();
        fs::remove_file(folder.path().join("swagger-ui.css")).unwrap();
        assert!(differences(package.path(), folder.path()).is_err());
    }
}
