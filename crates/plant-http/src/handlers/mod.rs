//! One file for each noun of the interface. A handler is a straight line: its signature takes the request apart, it calls
//! the repository, and it answers.

pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod import_report;
pub(crate) mod plants;
