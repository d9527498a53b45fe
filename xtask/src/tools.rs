//! System programs that tests, benches and comparisons need beside a Rust toolchain.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program, and the Debian package that brings it.
#[derive(Debug)]
pub(crate) struct Tool {
    program: &'static str,
    debian_package: &'static str,
    needed_by: &'static str,
}

/// Shows in which order plantd writes, syncs and answers.
pub(crate) const STRACE: Tool =
    Tool { program: "strace", debian_package: "strace", needed_by: "the black-box tests" };

/// Runs the command that the first start shows, as a user would.
pub(crate) const CURL: Tool =
    Tool { program: "curl", debian_package: "curl", needed_by: "the black-box tests" };

/// Makes private keys in the forms that other programs make.
pub(crate) const OPENSSL: Tool =
    Tool { program: "openssl", debian_package: "openssl", needed_by: "the black-box tests" };

/// Compiles libFuzzer, which is C++.
pub(crate) const CXX: Tool =
    Tool { program: "c++", debian_package: "g++", needed_by: "the fuzzer" };

/// Mounts the small disks that become full.
pub(crate) const MOUNT: Tool =
    Tool { program: "mount", debian_package: "mount", needed_by: "the black-box tests" };

/// Gives those disks a place where nobody else sees them, without root.
pub(crate) const UNSHARE: Tool =
    Tool { program: "unshare", debian_package: "util-linux", needed_by: "the black-box tests" };

/// Stands before a server as the proxy that its clients share.
pub(crate) const NGINX: Tool =
    Tool { program: "nginx", debian_package: "nginx-light", needed_by: "the black-box tests" };

/// Fetches the package that the files of Swagger UI come from.
pub(crate) const NPM: Tool =
    Tool { program: "npm", debian_package: "npm", needed_by: "the comparison of Swagger UI" };

/// Puts load on an HTTP server, and can be scripted.
pub(crate) const WRK: Tool =
    Tool { program: "wrk", debian_package: "wrk", needed_by: "the benches" };

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
            "{}: apt-get reported success, but it is neither in the PATH nor in {}",
            advice(&still_missing),
            ADMINISTRATORS_FOLDERS.join(" nor in ")
        );
    }
    Ok(())
}

fn missing(tools: &[Tool]) -> Vec<&Tool> {
    let folders = folders();
    tools.iter().filter(|tool| !is_executable_in(&folders, tool.program)).collect()
}

/// Where the tests look for programs.
fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(ADMINISTRATORS_FOLDERS.map(PathBuf::from)).collect()
}

fn is_executable_in(folders: &[PathBuf], program: &str) -> bool {
    const ANY_EXECUTE_BIT: u32 = 0o111;
    folders.iter().any(|folder| {
        folder.join(program).metadata().is_ok_and(|metadata| {
            metadata.is_file() && metadata.permissions().mode() & ANY_EXECUTE_BIT != 0
        })
    })
}

fn advice(missing: &[&Tool]) -> String {
    let needs: Vec<String> = missing
        .iter()
        .map(|tool| {
            format!(
                "install `{}` (needed by {}; Debian package `{}`)",
                tool.program, tool.needed_by, tool.debian_package
            )
        })
        .collect();
    needs.join(", and ")
}

fn install(missing: &[&Tool]) -> anyhow::Result<()> {
    if !is_executable_in(&folders(), "apt-get") {
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

    #[test]
    fn a_file_counts_as_a_program_only_if_it_may_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("strace");
        let folders = ["/nowhere".into(), folder.path().to_owned()];
        assert!(!is_executable_in(&folders, "strace"));
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_executable_in(&folders, "strace"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_executable_in(&folders, "strace"));
    }

    #[test]
    fn the_advice_names_program_purpose_and_package() {
        assert_eq!(
            advice(&[&STRACE, &WRK]),
            "install `strace` (needed by the black-box tests; Debian package `strace`), \
             and install `wrk` (needed by the benches; Debian package `wrk`)"
        );
    }
}
