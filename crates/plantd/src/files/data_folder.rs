//! The data folder, which holds the plants and the tokens.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

// No documentation comment: it would be the first line of the help.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataOptions {
    /// The folder of the plants and the tokens; made if it is missing
    #[arg(long = "data", value_name = "DIR", env = "PLANTD_DATA", default_value = "plantd-data")]
    pub(crate) folder: PathBuf,

    /// The file with the digests of the tokens [default: DIR/tokens.json]
    #[arg(long, value_name = "FILE", env = "PLANTD_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
}

impl DataOptions {
    /// The tokens file: by default, the one in the data folder.
    pub(crate) fn tokens_path(&self) -> PathBuf {
        self.tokens.clone().unwrap_or_else(|| self.folder.join("tokens.json"))
    }
}

pub(crate) fn plants_folder(data: &Path) -> PathBuf {
    data.join("plants")
}

/// Makes the missing data folder and its missing parents, for their owner alone.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}
