//! Import into a running server, and export from it or from a data folder.

pub(crate) mod export;
mod export_check;
mod format;
pub(crate) mod import;
mod output;
mod progress_bar;
mod salvage;
mod upload;
