//! The folder that benches work in.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::Metadata;
use serde::Serialize;
use tempfile::TempDir;

/// On the same disk as the checkout: a temporary folder of the system may be in memory.
#[derive(Debug)]
pub(super) struct BenchFolder {
    path: PathBuf,
}

impl BenchFolder {
    /// The folder in the target folder of the workspace, which is made when it is not there.
    pub(super) fn make(workspace: &Metadata) -> anyhow::Result<Self> {
        let path = workspace.target_directory.join("bench").into_std_path_buf();
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new folder within, which is removed when it is dropped.
    pub(super) fn temporary(&self) -> anyhow::Result<TempDir> {
        tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(&self.path)
            .with_context(|| format!("cannot make a folder in {}", self.path.display()))
    }

    /// Writes a report as JSON, and says where it is.
    pub(super) fn write_report(&self, name: &str, report: &impl Serialize) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let json =
            serde_json::to_string_pretty(report).context("cannot write the report as JSON")?;
        fs::write(&path, json + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("All numbers: {}", path.display());
        Ok(())
    }
}
