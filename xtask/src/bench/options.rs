//! What the command line of a bench sets, and where the bench works.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use tempfile::TempDir;

use crate::cargo;
use crate::usage::UsageError;

#[derive(Debug)]
pub(super) struct Options {
    /// How often each program is measured.
    pub(super) rounds: usize,
    /// How long each measurement takes.
    pub(super) duration: Duration,
    /// Another number of plants than the document has.
    plants: Option<u64>,
    /// A part of the names of the works to measure; without it, all are measured.
    only: Option<String>,
    pub(super) workspace: Metadata,
    /// `target/bench`, on the disk of the checkout; a temporary folder of the system may be in memory.
    pub(super) folder: PathBuf,
}

impl Options {
    pub(super) fn parse(arguments: &[String], usage: &'static str) -> anyhow::Result<Self> {
        let (mut rounds, mut seconds, mut plants, mut only) = (5, 4, None, None);
        for pair in arguments.chunks(2) {
            let problem = |problem| UsageError::new(format!("`{}` {problem}", pair[0]), usage);
            let value = pair.get(1).ok_or_else(|| problem("is unknown or has no value"))?;
            let number = value.parse::<u32>().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| problem("needs a whole number above 0"));
            match pair[0].as_str() {
                "--rounds" => rounds = number?,
                "--seconds" => seconds = number?,
                "--plants" => plants = Some(number?.into()),
                "--only" => only = Some(value.clone()),
                _ => return Err(problem("is not an option").into()),
            }
        }
        let workspace = cargo::workspace()?;
        let folder = workspace.target_directory.join("bench").into_std_path_buf();
        // An interrupted bench leaves its folders there.
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).context("cannot make target/bench")?;
        let duration = Duration::from_secs(seconds.into());
        Ok(Self { rounds: rounds as usize, duration, plants, only, workspace, folder })
    }

    pub(super) fn wants(&self, work: &str) -> bool {
        self.only.as_ref().is_none_or(|only| work.contains(only))
    }

    pub(super) fn plants(&self, documented: u64) -> u64 {
        self.plants.unwrap_or(documented)
    }

    /// Whether the figures belong in the document.
    pub(super) fn is_documented(&self) -> bool {
        self.only.is_none() && self.plants.is_none()
    }

    /// A new folder that is removed when it is dropped.
    pub(super) fn temporary(&self) -> anyhow::Result<TempDir> {
        tempfile::tempdir_in(&self.folder).context("cannot make a folder in target/bench")
    }
}
