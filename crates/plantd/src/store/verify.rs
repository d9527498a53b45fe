//! `plantd verify`: of a data folder, and of a backup.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use indicatif::HumanCount;
use plant_store::{LeftOut, SledConfig, SledInspection, StoreFailure, Verification};

use crate::exit::Stop;
use crate::files::data_folder::plants_folder;
use crate::print::print;
use crate::store::archive::{
    ArchiveOptions, describe, describe_left_out, open_backup, stop_of_open, stop_of_restore,
};
use crate::transfer::progress_bar;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 0: everything agrees. 1: something disagrees, is damaged or is missing. 74: the file or the \
    folder cannot be read. Changes nothing."
)]
pub(crate) struct VerifyOptions {
    /// The backup to check instead of a data folder; - is standard input
    file: Option<PathBuf>,

    /// The folder of the plants and the tokens
    #[arg(long, value_name = "DIR", env = "PLANTD_DATA", default_value = "plantd-data")]
    data: PathBuf,

    #[command(flatten)]
    archive: ArchiveOptions,
}

pub(crate) fn run(options: &VerifyOptions) -> Result<(), Stop> {
    match &options.file {
        Some(file) => verify_backup(file, &options.archive),
        None if options.archive.moment().is_some() => {
            Err(Stop::Usage(anyhow!("an archive continues a backup; give the backup too")))
        }
        None => verify_folder(&options.data),
    }
}

fn verify_folder(data: &Path) -> Result<(), Stop> {
    let inspection = SledInspection::open(&SledConfig::new(plants_folder(data)));
    let inspection = inspection.map_err(stop_of_open)?;
    let verification = with_progress(|progress| inspection.verify(progress))?;
    let advice = "the database is damaged: keep the folder, and restore a backup into a new one, or what \
                  `plantd export --data` can read";
    report(&verification, advice)
}

fn verify_backup(file: &Path, archive: &ArchiveOptions) -> Result<(), Stop> {
    let backup = open_backup(file).map_err(stop_of_open)?;
    let archived = match archive.moment() {
        Some(moment) => backup.verify_archive(&moment),
        None => Ok((backup.position(), LeftOut::default())),
    };
    let verification = with_progress(|progress| backup.verify(progress))?;
    report(&verification, "the backup is damaged: take another one")?;
    let (position, left_out) = archived.map_err(stop_of_restore)?;
    let mut said = format!("whole up to {}\n", describe(&position));
    if let Some(left_out) = describe_left_out(&left_out) {
        said += &format!("{left_out}\n");
    }
    Ok(print(said.as_bytes())?)
}

fn with_progress(
    verify: impl FnOnce(&dyn Fn(f64)) -> Result<Verification, StoreFailure>,
) -> Result<Verification, StoreFailure> {
    let progress = progress_bar::of_share();
    let verification = verify(&|share| progress_bar::show_share(&progress, share));
    progress.finish_and_clear();
    verification
}

/// Prints a verification. Disagreements are the error, with this advice.
fn report(verification: &Verification, advice: &str) -> Result<(), Stop> {
    print(text_of(verification).as_bytes())?;
    if verification.agrees() {
        return Ok(());
    }
    let count = verification.disagreements.len() as u64 + verification.more_disagreements;
    Err(Stop::Findings(anyhow!("disagreements: {}; {advice}", HumanCount(count))))
}

fn text_of(verification: &Verification) -> String {
    let disagreements = verification.disagreements.iter();
    let mut text: String = disagreements.map(|disagreement| format!("{disagreement}\n")).collect();
    if verification.more_disagreements > 0 {
        text += &format!("and {} more\n", HumanCount(verification.more_disagreements));
    }
    if verification.agrees() {
        let (plants, events) = (HumanCount(verification.plants), HumanCount(verification.events));
        text += &format!("everything agrees: {plants} plants, {events} events\n");
    }
    text
}
