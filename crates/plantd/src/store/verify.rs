//! `plantd verify`.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use indicatif::HumanCount;
use plant_store::{DiskConfig, DiskInspection, OpenError, Verification};

use crate::exit::Stop;
use crate::files::data_folder::plants_folder;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 0: everything agrees. 1: something disagrees or is damaged. 74: the folder cannot be read.\n\
    Changes nothing."
)]
pub(crate) struct VerifyOptions {
    /// The folder of the plants and the tokens
    #[arg(long, value_name = "DIR", env = "PLANTD_DATA", default_value = "plantd-data")]
    data: PathBuf,
}

pub(crate) fn run(options: &VerifyOptions) -> Result<(), Stop> {
    let inspection = DiskInspection::open(&DiskConfig::new(plants_folder(&options.data)));
    let inspection = inspection.map_err(|error| match error {
        OpenError::Damaged(_) => Stop::Findings(error.into()),
        _ => Stop::Io(error.into()),
    })?;
    let verification = inspection.verify()?;
    say(&verification).context("cannot write to standard output")?;
    if verification.agrees() {
        return Ok(());
    }
    let count = verification.disagreements.len() as u64 + verification.more_disagreements;
    let count = HumanCount(count);
    Err(Stop::Findings(anyhow!(
        "disagreements: {count}; the database is damaged: keep the folder, and restore a backup into a new \
         one, or what `plantd export --data` can read"
    )))
}

fn say(verification: &Verification) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for disagreement in &verification.disagreements {
        writeln!(out, "{disagreement}")?;
    }
    if verification.more_disagreements > 0 {
        writeln!(out, "and {} more", HumanCount(verification.more_disagreements))?;
    }
    if verification.agrees() {
        let (plants, events) = (HumanCount(verification.plants), HumanCount(verification.events));
        writeln!(out, "everything agrees: {plants} plants, {events} events")?;
    }
    out.flush()
}
