//! What all readers of rows share.

use plant_domain::NewPlant;

use crate::errors::{ErrorNumber, Failure};
use crate::limits::ROW_MAX_BYTES;

/// One row that holds something.
#[derive(Debug)]
pub(crate) struct Row {
    /// The line in which the row begins; the first line is 1.
    pub(crate) line: u64,
    /// What it says, if that is a plant.
    pub(crate) plant: Result<NewPlant, Failure>,
}

/// What is said of a row behind which nothing is read.
pub(super) const IMPORT_STOPS: &str = "the import stops here, and what was taken before stays";

pub(super) const END_MAY_BE_MISSED: &str =
    "for the end of this row may be missed where a quote is open";

pub(super) fn too_large() -> Failure {
    Failure::new(
        ErrorNumber::BodyTooLarge,
        format!("the row is too large; it may have {ROW_MAX_BYTES} bytes"),
    )
}

/// Counts lines. A line feed, a carriage return, or both in this order end one.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) ended: u64,
    has_return: bool,
}

impl Lines {
    pub(super) fn read(&mut self, byte: u8) {
        let is_second = byte == b'\n' && self.has_return;
        self.has_return = byte == b'\r';
        self.ended += u64::from(matches!(byte, b'\n' | b'\r') && !is_second);
    }
}
