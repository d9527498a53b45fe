//! System programs that tests, benches and comparisons need beside a Rust toolchain.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program, and the Debian package that brings it.
#[derive(Debug)]
pub(crate) struct Tool {
    program: &'static str,
    debian_package: &'static str,
    needed_by: &'static str,
    /// What not every program of that name is.
    proof: Option<Proof>,
}

/// Tells a program that will do from one that will not.
#[derive(Debug)]
struct Proof {
    /// With these arguments, one that will do ends well.
    arguments: &'static [&'static str],
    /// What that means, for people.
    means: &'static str,
}

impl Tool {
    /// Any program of that name.
    const fn any(
        program: &'static str,
        debian_package: &'static str,
        needed_by: &'static str,
    ) -> Self {
        Self { program, debian_package, needed_by, proof: None }
    }
}

/// Shows in which order plantd writes, syncs and answers.
pub(crate) const STRACE: Tool = Tool::any("strace", "strace", "the black-box tests");

/// Runs the command that the first start shows, as a user would.
pub(crate) const CURL: Tool = Tool::any("curl", "curl", "the black-box tests");

/// Makes private keys in the forms that other programs make.
pub(crate) const OPENSSL: Tool = Tool::any("openssl", "openssl", "the black-box tests");

/// Compiles libFuzzer and the binding of SQLite for node, which are C++.
pub(crate) const CXX: Tool = Tool::any("c++", "g++", "the fuzzer and the benches");

/// Has that binding compiled.
pub(crate) const MAKE: Tool = Tool::any("make", "make", "the benches");

/// Mounts the small disks that become full.
pub(crate) const MOUNT: Tool = Tool::any("mount", "mount", "the black-box tests");

/// Gives those disks a place where nobody else sees them, without root.
pub(crate) const UNSHARE: Tool = Tool::any("unshare", "util-linux", "the black-box tests");

/// Makes the clusters of PostgreSQL that tests and benches run on; what belongs to it lies beside it.
pub(crate) const POSTGRESQL: Tool =
    Tool::any("initdb", "postgresql", "the black-box tests and the benches");

/// Stands before a server as the proxy that its clients share.
pub(crate) const NGINX: Tool = Tool::any("nginx", "nginx-light", "the black-box tests");

/// Runs, in an environment of their own, the tools of the tests that are written in Python, and a server to
/// measure plantd against. pyenv has a
/// program of this name for all versions, none among them, and Debian one without what makes environments.
pub(crate) const PYTHON: Tool = Tool {
    program: "python3",
    debian_package: "python3-venv",
    needed_by: "the black-box tests and the benches",
    proof: Some(Proof {
        arguments: &["-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"],
        means: "3.11 or newer, with venv and ensurepip",
    }),
};

/// Runs the tools of the tests that are written in JavaScript, and the client in TypeScript.
pub(crate) const NODE: Tool = Tool {
    program: "node",
    debian_package: "nodejs",
    needed_by: "the black-box tests",
    proof: Some(Proof {
        arguments: &["-e", "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)"],
        means: "18 or newer",
    }),
};

/// Runs a server to measure plantd against, which older ones do not.
pub(crate) const NODE_OF_BENCHES: Tool = Tool {
    program: "node",
    debian_package: "nodejs",
    needed_by: "the benches",
    proof: Some(Proof {
        arguments: &["-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"],
        means: "20 or newer",
    }),
};

/// Brings what both of them run.
pub(crate) const NPM: Tool = Tool::any("npm", "npm", "the black-box tests and the benches");

/// Shows pages as a person sees them.
pub(crate) const CHROMIUM: Tool = Tool::any("chromium", "chromium", "the black-box tests");

/// Draws what the benches measured.
pub(crate) const GNUPLOT: Tool = Tool::any("gnuplot", "gnuplot-nox", "the benches");

/// Where programs for administrators lie, which is not on everybody's path.
const ADMINISTRATORS_FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// Makes sure that all `tools` are there: installs what is missing, or says what to install.
pub(crate) fn ensure(tools: &[Tool]) -> anyhow::Result<()> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing).with_context(|| advice(&missing))?;
    let still_missing = self::missing(tools);
    if !still_missing.is_empty() {
        bail!(
            "{}: apt-get reported success, but none that will do is in the PATH, in {} or where \
             PostgreSQL keeps its programs",
            advice(&still_missing),
            ADMINISTRATORS_FOLDERS.join(", in ")
        );
    }
    Ok(())
}

/// Where a tool is that will do.
pub(crate) fn find(tool: &Tool) -> anyhow::Result<PathBuf> {
    find_in(&folders(), tool).with_context(|| advice(&[tool]))
}

fn missing(tools: &[Tool]) -> Vec<&Tool> {
    let folders = folders();
    tools.iter().filter(|tool| find_in(&folders, tool).is_none()).collect()
}

/// Where the tests look for programs.
fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(ADMINISTRATORS_FOLDERS.map(PathBuf::from))
        .chain(test_postgres::program_folders())
        .collect()
}

fn find_in(folders: &[PathBuf], tool: &Tool) -> Option<PathBuf> {
    let programs = folders.iter().map(|folder| folder.join(tool.program));
    programs.filter(|program| is_executable(program)).find(|program| {
        tool.proof.as_ref().is_none_or(|proof| {
            let mut command = Command::new(program);
            command.args(proof.arguments).stdin(Stdio::null());
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        })
    })
}

fn is_executable(program: &Path) -> bool {
    const ANY_EXECUTE_BIT: u32 = 0o111;
    program.metadata().is_ok_and(|metadata| {
        metadata.is_file() && metadata.permissions().mode() & ANY_EXECUTE_BIT != 0
    })
}

fn advice(missing: &[&Tool]) -> String {
    let needs: Vec<String> = missing
        .iter()
        .map(|Tool { program, debian_package, needed_by, proof }| {
            let means = proof.as_ref().map(|proof| format!("{}; ", proof.means)).unwrap_or_default();
            format!("install `{program}` ({means}needed by {needed_by}; Debian package `{debian_package}`)")
        })
        .collect();
    needs.join(", and ")
}

fn install(missing: &[&Tool]) -> anyhow::Result<()> {
    if !folders().iter().any(|folder| is_executable(&folder.join("apt-get"))) {
        bail!("cannot install it by myself, since there is no apt-get here");
    }
    let with_sudo = if is_root()? {
        false
    } else if sudo_works() {
        true
    } else {
        bail!("cannot install it by myself, since this is not root and `sudo -n` does not work");
    };
    apt_get(with_sudo, ["update"])?;
    let packages = missing.iter().map(|tool| tool.debian_package);
    apt_get(with_sudo, ["install", "-y", "--no-install-recommends"].into_iter().chain(packages))
}

fn is_root() -> anyhow::Result<bool> {
    let output = Command::new("id")
        .arg("-u")
        .stdin(Stdio::null())
        .output()
        .context("cannot ask `id -u` who runs this")?;
    Ok(output.status.success() && output.stdout.trim_ascii() == b"0")
}

fn sudo_works() -> bool {
    Command::new("sudo")
        .args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn apt_get<'a>(
    with_sudo: bool,
    arguments: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<()> {
    // `env` carries the variable through sudo, which clears the environment.
    let mut words: Vec<OsString> = Vec::new();
    if with_sudo {
        words.extend(["sudo", "-n"].map(OsString::from));
    }
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"].map(OsString::from));
    words.extend(arguments.into_iter().map(OsString::from));
    let line = words.join(OsStr::new(" "));
    let line = line.display();
    eprintln!("+ {line}");
    let (program, rest) = words.split_first().context("an empty command")?;
    let status = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write_program(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_counts_as_a_program_only_if_it_may_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("strace");
        let folders = ["/nowhere".into(), folder.path().to_owned()];
        assert_eq!(find_in(&folders, &STRACE), None);
        write_program(&program, "", 0o644);
        assert_eq!(find_in(&folders, &STRACE), None);
        write_program(&program, "", 0o755);
        assert_eq!(find_in(&folders, &STRACE), Some(program));
    }

    #[test]
    fn a_program_that_will_not_do_does_not_hide_one_that_will() {
        let [unfit, fit] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let folders = [unfit.path().to_owned(), fit.path().to_owned()];
        write_program(&unfit.path().join("python3"), "#!/bin/sh\nexit 127\n", 0o755);
        assert_eq!(find_in(&folders, &PYTHON), None);
        let program = fit.path().join("python3");
        write_program(&program, "#!/bin/sh\ntest \"$1\" = -c\n", 0o755);
        assert_eq!(find_in(&folders, &PYTHON), Some(program));
    }

    #[test]
    fn the_advice_names_program_purpose_and_package() {
        assert_eq!(
            advice(&[&STRACE, &GNUPLOT, &NODE]),
            "install `strace` (needed by the black-box tests; Debian package `strace`), \
             and install `gnuplot` (needed by the benches; Debian package `gnuplot-nox`), \
             and install `node` (18 or newer; needed by the black-box tests; Debian package `nodejs`)"
        );
    }
}
