//! The programs that are measured, and where they come from.

use std::path::PathBuf;

use cargo_metadata::Metadata;

use super::peers::Peer;
use crate::cargo;

pub(super) const PLANTD: &str = "plantd";
pub(super) const CEILING: &str = "ceiling";

/// A server, and what its command line begins with.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) executable: PathBuf,
    pub(super) arguments: Vec<String>,
}

impl From<Peer> for Contender {
    fn from(Peer { name, executable, arguments }: Peer) -> Self {
        Self { name, executable, arguments }
    }
}

/// Builds plantd, as a user gets it, and its ceiling.
pub(super) fn build(workspace: &Metadata) -> anyhow::Result<[Contender; 2]> {
    // Two builds, since one with both would give plantd the features that examples ask for.
    Ok([
        build_plantd(workspace)?,
        build_one(workspace, CEILING, ["--example", CEILING], "examples/ceiling")?,
    ])
}

/// Builds plantd alone.
pub(super) fn build_plantd(workspace: &Metadata) -> anyhow::Result<Contender> {
    build_one(workspace, PLANTD, ["--bin", PLANTD], "plantd")
}

fn build_one(
    workspace: &Metadata,
    name: &'static str,
    what: [&str; 2],
    path: &str,
) -> anyhow::Result<Contender> {
    cargo::run(
        cargo::command(&workspace.workspace_root)
            .args(["build", "--release", "--package", "plantd", "--package", "plant-http"])
            .args(what),
    )?;
    let executable = workspace.target_directory.join("release").join(path).into_std_path_buf();
    Ok(Contender { name, executable, arguments: Vec::new() })
}
