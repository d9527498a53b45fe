//! Tools of the tests that come as packages for Python and for Node: brought by pip and npm, in the versions that
//! the repository names, into the target folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use cargo_metadata::Metadata;

use crate::{cargo, tools};

/// Where the files are that name the packages, each kind in a folder of its own. The folders under
/// `target/tools` have the same names.
const SOURCES: &str = "tests/tools";

/// The folder, among what was installed, with a copy of the files that it was installed from. It is made when
/// all the rest is there. The harness of the tests looks at it too.
const INSTALLED_FROM: &str = "installed-from";

/// The packages of one language.
#[derive(Debug)]
pub(crate) struct Packages {
    name: &'static str,
    /// The files that name them, in every version and with every digest.
    files: &'static [&'static str],
    /// One of their programs, which has to say its version: an interpreter may be gone, or the folder moved.
    proof: &'static str,
    install: fn(&Path) -> anyhow::Result<()>,
}

/// An environment of Python.
pub(crate) const PYTHON: Packages = Packages {
    name: "python",
    files: &["requirements.txt"],
    proof: "bin/schemathesis",
    install: install_python,
};

/// A folder with `node_modules` in it.
pub(crate) const NODE: Packages = Packages {
    name: "node",
    files: &["package.json", "package-lock.json"],
    proof: "node_modules/.bin/spectral",
    install: install_node,
};

impl Packages {
    /// Installs them, unless they are there and nothing has changed since.
    pub(crate) fn ensure(&self, workspace: &Metadata) -> anyhow::Result<()> {
        let sources = workspace.workspace_root.join(SOURCES).join(self.name);
        let folder = workspace.target_directory.join("tools").join(self.name);
        self.ensure_in(folder.as_std_path(), sources.as_std_path())
    }

    fn ensure_in(&self, folder: &Path, sources: &Path) -> anyhow::Result<()> {
        let _lock = lock(folder)?;
        if self.are_in(folder, sources)? {
            return Ok(());
        }
        let context = || format!("cannot make {}", folder.display());
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(context);
            }
            _ => fs::create_dir_all(folder).with_context(context)?,
        }
        self.copy_files(sources, folder)?;
        (self.install)(folder).with_context(|| {
            format!("the packages that {} names cannot be installed", sources.display())
        })?;
        let installed_from = folder.join(INSTALLED_FROM);
        fs::create_dir(&installed_from).with_context(context)?;
        self.copy_files(sources, &installed_from)
    }

    fn are_in(&self, folder: &Path, sources: &Path) -> anyhow::Result<bool> {
        for file in self.files {
            let source = sources.join(file);
            let wanted = fs::read(&source);
            let wanted = wanted.with_context(|| format!("cannot read {}", source.display()))?;
            let installed = fs::read(folder.join(INSTALLED_FROM).join(file));
            if !installed.is_ok_and(|installed| installed == wanted) {
                return Ok(false);
            }
        }
        let mut proof = Command::new(folder.join(self.proof));
        proof.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(proof.status().is_ok_and(|status| status.success()))
    }

    fn copy_files(&self, sources: &Path, folder: &Path) -> anyhow::Result<()> {
        for file in self.files {
            let source = sources.join(file);
            fs::copy(&source, folder.join(file)).with_context(|| {
                format!("cannot copy {} into {}", source.display(), folder.display())
            })?;
        }
        Ok(())
    }
}

/// Waits until nobody else installs into this folder, and lets nobody do so until the file is closed.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.with_extension("lock");
    let context = || format!("cannot lock {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    let file = File::create(&path).with_context(context)?;
    file.lock().with_context(context)?;
    Ok(file)
}

fn install_python(folder: &Path) -> anyhow::Result<()> {
    let mut environment = Command::new(tools::find(&tools::PYTHON)?);
    environment.args(["-m", "venv"]).arg(folder).stdin(Stdio::null());
    cargo::run(&mut environment)?;
    let mut install = Command::new(folder.join("bin/python"));
    install.current_dir(folder).stdin(Stdio::null());
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // Packages for this platform run nothing while they are installed, which sources would.
    install.args(["--only-binary", ":all:", "--require-hashes", "-r", "requirements.txt"]);
    cargo::run(&mut install)
}

fn install_node(folder: &Path) -> anyhow::Result<()> {
    let mut install = Command::new(tools::find(&tools::NPM)?);
    install.current_dir(folder).stdin(Stdio::null());
    // The one script of a package tells others that it was installed.
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    cargo::run(&mut install)?;
    // Among the packages' programs, and so the one that runs them: the first in the PATH may not do.
    symlink(tools::find(&tools::NODE)?, folder.join("node_modules/.bin/node"))
        .context("cannot link to node")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// Packages whose installation is a file with their name.
    const SEEDS: Packages = Packages {
        name: "seeds",
        files: &["seeds.txt"],
        proof: "spade",
        install: |folder| {
            let name = fs::read_to_string(folder.join("seeds.txt"))?;
            fs::write(folder.join(name), "")?;
            let spade = folder.join("spade");
            fs::write(&spade, "#!/bin/sh\n")?;
            fs::set_permissions(spade, Permissions::from_mode(0o755)).context("no spade")
        },
    };

    struct Shed {
        folder: TempDir,
    }

    impl Shed {
        fn new() -> Self {
            let shed = Self { folder: tempfile::tempdir().unwrap() };
            fs::create_dir(shed.sources()).unwrap();
            shed.want("rose");
            shed
        }

        fn sources(&self) -> PathBuf {
            self.folder.path().join("sources")
        }

        fn installed(&self, name: &str) -> PathBuf {
            self.folder.path().join("tools/seeds").join(name)
        }

        fn want(&self, name: &str) {
            fs::write(self.sources().join("seeds.txt"), name).unwrap();
        }

        fn ensure(&self, packages: &Packages) -> anyhow::Result<()> {
            packages.ensure_in(&self.folder.path().join("tools/seeds"), &self.sources())
        }
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let shed = Shed::new();
        shed.ensure(&SEEDS).unwrap();
        fs::remove_file(shed.installed("rose")).unwrap();
        shed.ensure(&SEEDS).unwrap();
        assert!(!shed.installed("rose").exists());
    }

    #[test]
    fn what_is_named_anew_takes_the_place_of_all_that_is_there() {
        let shed = Shed::new();
        shed.ensure(&SEEDS).unwrap();
        shed.want("willow");
        shed.ensure(&SEEDS).unwrap();
        assert!(shed.installed("willow").exists());
        assert!(!shed.installed("rose").exists());
    }

    #[test]
    fn what_cannot_run_any_more_is_installed_again() {
        let shed = Shed::new();
        shed.ensure(&SEEDS).unwrap();
        fs::write(shed.installed("spade"), "#!/gone\n").unwrap();
        shed.ensure(&SEEDS).unwrap();
        assert_eq!(fs::read_to_string(shed.installed("spade")).unwrap(), "#!/bin/sh\n");
    }

    #[test]
    fn an_installation_that_broke_off_does_not_count() {
        let shed = Shed::new();
        let broken = Packages { install: |_| anyhow::bail!("the network is down"), ..SEEDS };
        let error = format!("{:#}", shed.ensure(&broken).unwrap_err());
        assert!(error.ends_with("cannot be installed: the network is down"), "{error}");
        shed.ensure(&SEEDS).unwrap();
        assert!(shed.installed("rose").exists());
    }

    #[test]
    fn the_lock_file_of_npm_has_a_digest_of_each_package_and_no_address() {
        let lock = include_str!("../../tests/tools/node/package-lock.json");
        let lock: serde_json::Value = serde_json::from_str(lock).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["integrity"].is_string(), "{name}");
            assert!(package["resolved"].is_null(), "{name}");
        }
    }
}
