//! `plantd export --data`: exports the readable plants of a data folder.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use indicatif::{HumanCount, ProgressBar};
use plant_domain::NewPlant;
use plant_http::transfer::ExportFormat;
use plant_store::{SledConfig, SledInspection};

use crate::exit::Stop;
use crate::files::data_folder::plants_folder;
use crate::transfer::output::{Output, cannot_write};
use crate::transfer::{progress_bar, say_exported};

/// How many plants are written at a time.
const PLANTS_AT_A_TIME: usize = 1000;

/// How many unreadable places are listed.
const MAX_TOLD: u64 = 1000;

pub(crate) fn run(data: &Path, file: &Path, format: ExportFormat) -> Result<(), Stop> {
    let inspection = SledInspection::open(&SledConfig::new(plants_folder(data)))?;
    let mut output = Output::open(file).with_context(|| cannot_write(file))?;

    let begun = Instant::now();
    let progress = progress_bar::of_plants(inspection.count());
    let copied = copy(&inspection, &mut output, format, &progress);
    progress.finish_and_clear();
    let (plants, unreadable) = copied.with_context(|| cannot_write(file))?;
    output.finish().with_context(|| cannot_write(file))?;

    say_exported(plants, begun);
    let verification = inspection.verify(&|_| ())?;
    // A disk may fail to read a block for the export, and then read the same block for the verification.
    let is_whole = unreadable == 0 && inspection.count().is_none_or(|count| count == plants);
    if verification.agrees() && is_whole {
        return Ok(());
    }
    let of_all = match inspection.count() {
        Some(count) if count != plants => {
            format!("{} of {}", HumanCount(plants), HumanCount(count))
        }
        _ => HumanCount(plants).to_string(),
    };
    Err(Stop::Findings(anyhow!(
        "the database is damaged, and the export has what could be read: {of_all} plants, perhaps \
         with deleted ones and old versions of changed ones; `plantd verify` lists what is wrong"
    )))
}

/// Returns how many plants were written, and how many places cannot be read, which are listed.
fn copy(
    inspection: &SledInspection,
    output: &mut Output,
    format: ExportFormat,
    progress: &ProgressBar,
) -> anyhow::Result<(u64, u64)> {
    let (mut copied, mut unreadable) = (0, 0);
    let mut plants = inspection.plants().peekable();
    output.write_all(format.header().as_bytes())?;
    while plants.peek().is_some() {
        let mut some = Vec::with_capacity(PLANTS_AT_A_TIME);
        for plant in plants.by_ref().take(PLANTS_AT_A_TIME) {
            match plant {
                Ok(plant) => some.push(plant),
                Err(error) => {
                    unreadable += 1;
                    if unreadable <= MAX_TOLD {
                        // An error of standard error is ignored: the exit code shows the damage too.
                        progress.suspend(|| drop(writeln!(io::stderr(), "left out: {error}")));
                    }
                }
            }
        }
        format.write_rows(some.iter().map(NewPlant::borrowed), output)?;
        copied += some.len() as u64;
        progress.set_position(copied);
    }
    Ok((copied, unreadable))
}
