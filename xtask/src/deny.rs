//! cargo-deny: whether the dependencies are what `deny.toml` lets them be.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Metadata;

use crate::crates_io::Program;

const PROGRAM: Program = Program {
    name: "cargo-deny",
    version: "0.20.2",
    // It runs for seconds. To optimize it takes minutes, and debug information half of one.
    options: &["--debug"],
    environment: &[("CARGO_PROFILE_DEV_DEBUG", "0")],
};

/// What cargo-deny calls an entry of `deny.toml` that nothing needs.
const UNNEEDED: [&str; 4] =
    ["advisory-not-detected", "license-not-encountered", "unmatched-skip", "unnecessary-skip"];

/// A workspace with dependencies, and a lock file, of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Workspace {
    /// The one that xtask belongs to. Each entry of `deny.toml` is there because of it.
    Main,
    /// `fuzz/`. It need not have all that `deny.toml` has an entry for.
    Fuzz,
}

impl Workspace {
    /// All there are.
    pub(crate) const ALL: [Self; 2] = [Self::Main, Self::Fuzz];

    /// Its manifest, as seen from the root of the checkout.
    pub(crate) fn manifest(self) -> &'static str {
        match self {
            Self::Main => "Cargo.toml",
            Self::Fuzz => "fuzz/Cargo.toml",
        }
    }
}

/// The program cargo-deny, in the right version.
#[derive(Debug)]
pub(crate) struct CargoDeny {
    program: PathBuf,
}

impl CargoDeny {
    /// The cargo-deny that is there; where there is none, one is built into the target folder.
    pub(crate) fn ensure(workspace: &Metadata) -> anyhow::Result<Self> {
        Ok(Self { program: PROGRAM.ensure(workspace)? })
    }

    /// The cargo-deny that is there.
    #[cfg(test)]
    pub(crate) fn find(workspace: &Metadata) -> Option<Self> {
        PROGRAM.find(workspace).map(|program| Self { program })
    }

    /// A cargo-deny command that runs in `root`.
    pub(crate) fn command(&self, root: impl AsRef<Path>) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(root).stdin(Stdio::null());
        command
    }

    /// A command that holds what a lock file names against `deny.toml`; all warnings are failures.
    pub(crate) fn check<'a>(
        &self,
        root: impl AsRef<Path>,
        workspace: Workspace,
        options: &[&str],
        checks: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut command = self.command(root);
        command.args(["--manifest-path", workspace.manifest()]);
        command.args(["--config", "deny.toml", "--locked"]).args(options);
        command.args(["check", "--deny", "warnings"]);
        if matches!(workspace, Workspace::Fuzz) {
            command.args(UNNEEDED.iter().flat_map(|code| ["--allow", code]));
        }
        command.args(checks);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzer_need_not_have_what_an_entry_is_about_and_the_workspace_must() {
        let deny = CargoDeny { program: PathBuf::from("cargo-deny") };
        let allows = |workspace| {
            let command = deny.check(".", workspace, &[], ["bans"]);
            command.get_args().any(|argument| argument == "unmatched-skip")
        };
        assert!(allows(Workspace::Fuzz));
        assert!(!allows(Workspace::Main));
    }
}
