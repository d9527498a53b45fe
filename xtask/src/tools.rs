//! System programs that tests and benchmarks need besides the Rust toolchain.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::cargo;

/// A program, its Debian package, and a command that fails if the installed program is unsuitable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    program: &'static str,
    debian_package: &'static str,
    proof: &'static [&'static str],
}

const fn tool(program: &'static str, debian_package: &'static str) -> Tool {
    Tool { program, debian_package, proof: &[] }
}

pub(crate) const STRACE: Tool = tool("strace", "strace");
/// Compiles libFuzzer, and the SQLite binding for Node.
pub(crate) const CXX: Tool = tool("c++", "g++");
pub(crate) const MAKE: Tool = tool("make", "make");
/// `mount` and `unshare` make the small disks that fill up.
pub(crate) const MOUNT: Tool = tool("mount", "mount");
pub(crate) const UNSHARE: Tool = tool("unshare", "util-linux");
pub(crate) const POSTGRESQL: Tool = tool("initdb", "postgresql");
pub(crate) const NPM: Tool = tool("npm", "npm");
pub(crate) const DEBOOTSTRAP: Tool = tool("debootstrap", "debootstrap");
/// Finds the packages of the libraries that a program needs.
pub(crate) const DPKG_SHLIBDEPS: Tool = tool("dpkg-shlibdeps", "dpkg-dev");
/// Counts instructions.
pub(crate) const VALGRIND: Tool = tool("valgrind", "valgrind");
pub(crate) const STRIP: Tool = tool("strip", "binutils");

/// CPython 3.11 or newer with `venv`. The `python3` of pyenv may run no version at all.
pub(crate) const PYTHON: Tool = Tool {
    program: "python3",
    debian_package: "python3-venv",
    proof: &["-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"],
};

pub(crate) const NODE: Tool = Tool {
    program: "node",
    debian_package: "nodejs",
    proof: &["-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"],
};

/// What the tests need.
pub(crate) const OF_TESTS: [Tool; 19] = [
    STRACE,
    CXX,
    MAKE,
    MOUNT,
    UNSHARE,
    POSTGRESQL,
    PYTHON,
    NODE,
    NPM,
    DEBOOTSTRAP,
    tool("curl", "curl"),
    tool("openssl", "openssl"),
    tool("nginx", "nginx-light"),
    tool("promtool", "prometheus"),
    tool("chromium-headless-shell", "chromium-headless-shell"),
    tool("firefox-esr", "firefox-esr"),
    // Boots a Debian system as a container.
    tool("systemd-nspawn", "systemd-container"),
    tool("systemd-analyze", "systemd"),
    tool("lintian", "lintian"),
];

/// Folders of administrators' programs. Not every PATH has them.
const ADMINISTRATORS_FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// Installs missing tools, or says what to install.
pub(crate) fn ensure(tools: &[Tool]) -> anyhow::Result<()> {
    let missing = || tools.iter().filter(|tool| locate(tool).is_none());
    let packages: Vec<&str> = missing().map(|tool| tool.debian_package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let advice = || format!("install the Debian package(s) {}", packages.join(", "));
    apt_get(&["update"]).with_context(advice)?;
    apt_get(&[&["install", "-y", "--no-install-recommends"][..], &packages].concat())
        .with_context(advice)?;
    if let Some(tool) = missing().next() {
        bail!("{} is installed, and no `{}` here will do", tool.debian_package, tool.program);
    }
    Ok(())
}

pub(crate) fn find(tool: &Tool) -> anyhow::Result<PathBuf> {
    locate(tool).with_context(|| {
        format!("install `{}` (Debian package {})", tool.program, tool.debian_package)
    })
}

fn locate(tool: &Tool) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path)
        .chain(ADMINISTRATORS_FOLDERS.map(PathBuf::from))
        .chain(test_postgres::program_folders());
    folders
        .map(|folder| folder.join(tool.program))
        .find(|program| program.is_file() && (tool.proof.is_empty() || runs(program, tool.proof)))
}

/// Whether a program, called with these arguments, exits with 0.
pub(crate) fn runs(program: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    // sudo clears the environment, so `env` sets the variable after it.
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    command.args(if is_root { &[][..] } else { &["-n", "env"] });
    cargo::run(command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments))
}
