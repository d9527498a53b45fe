//! Packages for Python and for Node, with tools of the tests and with servers to measure plantd against: brought by
//! pip and npm, in the versions that the repository names, into the target folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use cargo_metadata::Metadata;
use cargo_metadata::camino::Utf8PathBuf;

use crate::cargo;
use crate::tools::{self, Tool};

/// The folder, among what was installed, with a copy of the files that it was installed from. It is made when
/// all the rest is there. The harness of the tests looks at it too.
const INSTALLED_FROM: &str = "installed-from";

/// The node that runs the packages, among their programs.
const NODE_LINK: &str = "node_modules/.bin/node";

/// Packages of one language that are installed together.
#[derive(Debug)]
pub(crate) struct Packages {
    /// Their folder under `target/tools`.
    name: &'static str,
    /// The folder of the checkout with the files that name them.
    sources: &'static str,
    /// Those files, which name every version and every digest.
    files: &'static [&'static str],
    proof: Proof,
    install: fn(&Path) -> anyhow::Result<()>,
}

/// Among what was installed, a program that has to run: an interpreter may be gone or another version, or the
/// folder moved.
#[derive(Debug)]
struct Proof {
    program: &'static str,
    /// It runs in the folder, and with these it ends well.
    arguments: &'static [&'static str],
}

/// An environment of Python, with tools of the tests.
pub(crate) const PYTHON: Packages = Packages {
    name: "python",
    sources: "tests/tools/python",
    files: &["requirements.txt"],
    proof: Proof { program: "bin/schemathesis", arguments: &["--version"] },
    install: install_python,
};

/// A folder with `node_modules` in it, with tools of the tests.
pub(crate) const NODE: Packages = Packages {
    name: "node",
    sources: "tests/tools/node",
    files: &["package.json", "package-lock.json"],
    proof: Proof { program: "node_modules/.bin/spectral", arguments: &["--version"] },
    install: |folder| install_node(folder, &tools::NODE),
};

/// An environment of Python, with what a server on FastAPI needs.
pub(crate) const FASTAPI: Packages = Packages {
    name: "peers-fastapi",
    sources: "bench/peers/fastapi",
    files: &["requirements.txt"],
    proof: Proof { program: "bin/uvicorn", arguments: &["--version"] },
    install: install_python,
};

/// A folder with `node_modules` in it, with what a server on Fastify needs.
pub(crate) const FASTIFY: Packages = Packages {
    name: "peers-fastify",
    sources: "bench/peers/fastify",
    files: &["package.json", "package-lock.json"],
    // What is compiled for one version of node, another one may refuse to load.
    proof: Proof {
        program: NODE_LINK,
        arguments: &["-e", "new (require('better-sqlite3'))(':memory:')"],
    },
    install: |folder| {
        install_node(folder, &tools::NODE_OF_BENCHES)?;
        compile_better_sqlite3(folder)
    },
};

impl Packages {
    /// Installs them, unless they are there and nothing has changed since, and returns their folder.
    pub(crate) fn ensure(&self, workspace: &Metadata) -> anyhow::Result<Utf8PathBuf> {
        let folder = workspace.target_directory.join("tools").join(self.name);
        self.ensure_in(folder.as_std_path(), self.sources(workspace).as_std_path())?;
        Ok(folder)
    }

    /// The folder with the files that name them, and with what runs on them.
    pub(crate) fn sources(&self, workspace: &Metadata) -> Utf8PathBuf {
        workspace.workspace_root.join(self.sources)
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
        let mut proof = Command::new(folder.join(self.proof.program));
        proof.args(self.proof.arguments).current_dir(folder);
        proof.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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

fn install_node(folder: &Path, node: &Tool) -> anyhow::Result<()> {
    let mut install = Command::new(tools::find(&tools::NPM)?);
    install.current_dir(folder).stdin(Stdio::null());
    // A script could do anything. None is needed, but for the one that is run below.
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    cargo::run(&mut install)?;
    // Among the packages' programs, and so the one that runs them: the first in the PATH may not do.
    symlink(executable(node)?, folder.join(NODE_LINK)).context("cannot link to node")
}

/// Compiles SQLite and its binding, which are C and C++, for the node that is linked to.
fn compile_better_sqlite3(folder: &Path) -> anyhow::Result<()> {
    let node = fs::read_link(folder.join(NODE_LINK)).context("cannot follow the link to node")?;
    // Where node was installed, beside its headers.
    let prefix = node.ancestors().nth(2).context("node is in no folder that has a parent")?;
    let mut compile = Command::new(tools::find(&tools::NPM)?);
    compile.current_dir(folder.join("node_modules/better-sqlite3")).stdin(Stdio::null());
    // Not the script that npm runs by itself, which first asks the network for what others have compiled.
    compile.args(["run", "build-release", "--", "--loglevel=error", "--jobs=max"]);
    compile.arg(format!("--nodedir={}", prefix.display()));
    compile.arg(format!("--python={}", tools::find(&tools::PYTHON)?.display()));
    cargo::run(&mut compile)
}

/// The program that a node is: what is in the PATH may choose among several, by an environment that servers under
/// load do not have.
fn executable(node: &Tool) -> anyhow::Result<PathBuf> {
    let mut ask = Command::new(tools::find(node)?);
    ask.args(["-p", "process.execPath"]).stdin(Stdio::null());
    Ok(PathBuf::from(cargo::run_for_output(&mut ask)?.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::TempDir;

    /// Packages whose installation is a file with their name.
    const SEEDS: Packages = Packages {
        name: "seeds",
        sources: "seeds",
        files: &["seeds.txt"],
        proof: Proof { program: "spade", arguments: &["--version"] },
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
    fn the_lock_files_of_npm_have_a_digest_of_each_package_and_no_address() {
        for lock in [
            include_str!("../../tests/tools/node/package-lock.json"),
            include_str!("../../bench/peers/fastify/package-lock.json"),
        ] {
            let lock: serde_json::Value = serde_json::from_str(lock).unwrap();
            let packages = lock["packages"].as_object().unwrap();
            for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
                assert!(package["integrity"].is_string(), "{name}");
                assert!(package["resolved"].is_null(), "{name}");
            }
        }
    }
}
