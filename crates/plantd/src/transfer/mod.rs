//! Plants into a running server and out of it, its events and backups, and plants out of a data folder.

pub(crate) mod backup;
pub(crate) mod batch;
mod broken;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod output;
mod plant_printer;
pub(crate) mod progress_bar;
mod salvage;
mod upload;

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use anyhow::anyhow;

use crate::exit::Stop;
use crate::print::say;

/// The format that the user names, or else the one of the file's extension.
fn format_of_file<F: FromStr<Err: Display>>(asked: Option<F>, file: &Path) -> Result<F, Stop> {
    if let Some(format) = asked {
        return Ok(format);
    }
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    let word = match extension.to_ascii_lowercase().as_str() {
        _ if file == Path::new("-") => "ndjson".to_owned(),
        "jsonl" => "ndjson".to_owned(),
        extension => extension.to_owned(),
    };
    word.parse().map_err(|unknown: F::Err| {
        Stop::Usage(anyhow!(
            "the name {} does not show the format of the file; give it with --format: {unknown}",
            file.display()
        ))
    })
}

/// The error for a file that cannot be read.
fn cannot_read(file: &Path) -> String {
    match file == Path::new("-") {
        true => "cannot read standard input".to_owned(),
        false => format!("cannot read {}", file.display()),
    }
}

/// Reports a finished export.
fn say_exported(plants: u64, begun: Instant) {
    say(&format!("exported {}", progress_bar::summary(plants, begun.elapsed())));
}
