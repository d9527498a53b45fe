//! `cargo xtask swagger-ui`: compares the vendored files of Swagger UI with its npm package, or takes another version.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{cargo, tools};

const PACKAGE: &str = "swagger-ui-dist";
const FOLDER: &str = "crates/plant-http/swagger-ui";
const FILES: [&str; 5] = [
    "LICENSE",
    "NOTICE",
    "swagger-ui-bundle.js",
    "swagger-ui-bundle.js.LICENSE.txt",
    "swagger-ui.css",
];

pub(crate) fn run(version: Option<&str>) -> anyhow::Result<()> {
    tools::ensure(&[tools::NPM])?;
    let folder = cargo::workspace()?.workspace_root.into_std_path_buf().join(FOLDER);
    let package = tempfile::tempdir().context("cannot make a temporary folder")?;
    match version {
        None => {
            let version = read(&folder.join("VERSION"))?;
            let version = String::from_utf8_lossy(&version);
            unpack(version.trim(), package.path())?;
            for file in FILES {
                ensure!(
                    read(&package.path().join(file))? == read(&folder.join(file))?,
                    "{file} differs from {PACKAGE} {version}: `cargo xtask swagger-ui {version}` restores it"
                );
            }
            let mut view = Command::new(tools::find(&tools::NPM)?);
            let newest = cargo::run_for_output(view.args(["view", PACKAGE, "version"]))?;
            eprintln!("the files are those of {}; the newest is {newest}", version.trim());
        }
        Some(version) => {
            unpack(version, package.path())?;
            for file in FILES {
                fs::write(folder.join(file), read(&package.path().join(file))?)?;
            }
            fs::write(folder.join("VERSION"), format!("{version}\n"))?;
            eprintln!("took {version}: run the tests, and look at /docs in a browser");
        }
    }
    Ok(())
}

/// Fetches a version of the package into a folder. Nothing in the package is run.
fn unpack(version: &str, folder: &Path) -> anyhow::Result<()> {
    let mut pack = Command::new(tools::find(&tools::NPM)?);
    pack.current_dir(folder).args(["pack", "--silent", "--ignore-scripts"]);
    let archive = cargo::run_for_output(pack.arg(format!("{PACKAGE}@{version}")))?;
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(["-xz", "--strip-components=1", "-f", archive.trim()]);
    cargo::run(&mut tar)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
