//! The report of an import.

use plant_domain::Error;
use plant_store::OnConflict;
use serde::{Deserialize, Serialize};

/// The `on_conflict` with which to repeat an import that broke off. Using `skip` to repeat an import with `replace`
/// would keep old plants.
#[must_use]
pub const fn way_to_go_on(on_conflict: OnConflict) -> OnConflict {
    match on_conflict {
        OnConflict::Error | OnConflict::Skip => OnConflict::Skip,
        OnConflict::Replace => OnConflict::Replace,
    }
}

/// The result of an import, row by row: the body of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// How many plants are new.
    pub created: u64,
    /// How many replaced a plant that existed, even one that was the same.
    pub replaced: u64,
    /// How many were skipped because their id was taken.
    pub skipped: u64,
    /// How many rows were not taken.
    pub failed: u64,
    /// The first [`REPORT_MAX_ERRORS`](crate::limits::REPORT_MAX_ERRORS) of the failed rows.
    pub errors: Vec<FailedRow>,
}

/// A row that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRow {
    /// The line in which the row begins; the first line is 1.
    pub line: u64,
    /// Why it was not taken.
    #[serde(flatten)]
    pub error: Error,
}
