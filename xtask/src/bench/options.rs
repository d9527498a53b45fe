//! What the command line of a bench sets, and where the bench works.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use clap::value_parser;
use tempfile::TempDir;

use crate::cargo;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Arguments {
    /// How often each program is measured
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// How long each measurement takes
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// Only workloads whose name contains this; docs/performance.md stays as it is
    #[arg(long)]
    only: Option<String>,
    /// An older plantd, with which `change` compares this one
    #[arg(long)]
    before: Option<PathBuf>,
    /// Another number of plants; docs/performance.md stays as it is
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    plants: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Options {
    arguments: Arguments,
    pub(super) rounds: usize,
    pub(super) duration: Duration,
    pub(super) workspace: Metadata,
    pub(super) before: Option<PathBuf>,
    /// `target/bench`, on the disk of the checkout, since the system's temporary folder may be in memory.
    pub(super) folder: PathBuf,
}

impl Options {
    pub(super) fn new(arguments: Arguments) -> anyhow::Result<Self> {
        let workspace = cargo::workspace()?;
        let folder = workspace.target_directory.join("bench").into_std_path_buf();
        // An interrupted bench leaves its folders behind.
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).context("cannot make target/bench")?;
        let (rounds, duration) =
            (usize::try_from(arguments.rounds)?, Duration::from_secs(arguments.seconds));
        let before = arguments.before.clone();
        Ok(Self { arguments, rounds, duration, workspace, before, folder })
    }

    pub(super) fn wants(&self, workload: &str) -> bool {
        self.arguments.only.as_ref().is_none_or(|only| workload.contains(only))
    }

    pub(super) fn plants(&self, documented: u64) -> u64 {
        self.arguments.plants.unwrap_or(documented)
    }

    /// Whether the figures belong in the document.
    pub(super) fn is_documented(&self) -> bool {
        self.arguments.only.is_none() && self.arguments.plants.is_none()
    }

    /// A new folder that is removed when it is dropped.
    pub(super) fn temporary(&self) -> anyhow::Result<TempDir> {
        tempfile::tempdir_in(&self.folder).context("cannot make a folder in target/bench")
    }
}
