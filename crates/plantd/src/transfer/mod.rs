//! Many plants at once: into a running server, out of it, or out of a data folder that no server has open.

pub(crate) mod export;
mod export_check;
mod format;
pub(crate) mod import;
mod output;
mod progress_bar;
mod row_counter;
mod salvage;
mod upload;
