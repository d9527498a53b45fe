//! Programs from crates.io: built by cargo into the target folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use cargo_metadata::Metadata;

use crate::cargo;

/// A program that has the name of its crate.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The one version that is used, so that everybody is told the same.
    pub(crate) version: &'static str,
    /// How it is built, beside what cargo does by itself.
    pub(crate) options: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Program {
    /// The program that is there; where there is none, one is built into the target folder.
    pub(crate) fn ensure(&self, workspace: &Metadata) -> anyhow::Result<PathBuf> {
        if let Some(found) = self.find(workspace) {
            return Ok(found);
        }
        let Self { name, version, options, environment } = self;
        let mut install = cargo::command(&workspace.workspace_root);
        install.args(["install", name, "--version", version, "--locked", "--force"]);
        install.args(*options).envs(environment.iter().copied());
        install.arg("--root").arg(tools_folder(workspace));
        cargo::run(&mut install).with_context(|| {
            format!("there is no {name} {version} in the PATH, and it cannot be built")
        })?;
        self.find(workspace).with_context(|| format!("cargo installed a {name} that does not run"))
    }

    /// The program that is there.
    pub(crate) fn find(&self, workspace: &Metadata) -> Option<PathBuf> {
        let installed = tools_folder(workspace).join("bin").join(self.name);
        [PathBuf::from(self.name), installed]
            .into_iter()
            .find(|program| is_version(program, &format!("{} {}", self.name, self.version)))
    }
}

fn tools_folder(workspace: &Metadata) -> PathBuf {
    workspace.target_directory.join("tools").into_std_path_buf()
}

/// Whether a program is there and calls itself `name_and_version`.
fn is_version(program: &Path, name_and_version: &str) -> bool {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == name_and_version.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_counts_only_in_its_very_version() {
        let cargo = Path::new(env!("CARGO"));
        let output = Command::new(cargo).arg("--version").output().unwrap();
        let version = String::from_utf8(output.stdout).unwrap();
        assert!(is_version(cargo, version.trim()));
        assert!(!is_version(cargo, "cargo 1.0.0"));
        assert!(!is_version(Path::new("/nowhere/cargo"), version.trim()));
    }
}
