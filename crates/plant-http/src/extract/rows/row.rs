//! The parts that the readers of all formats share.

use plant_domain::{Error, NewPlant};

use crate::errors::{ErrorNumber, Failure};
use crate::limits::ROW_MAX_BYTES;

/// The line in which a row begins, and its plant or what is wrong with it. The first line is 1.
pub type ReadRow = (u64, Result<NewPlant, Error>);

/// Reads the rows of a body as an import reads them, in parts that end anywhere.
pub trait RowReader {
    /// Adds to `rows` those that end in the next part of the body.
    ///
    /// # Errors
    ///
    /// When no row at all can be read.
    fn read(&mut self, part: &[u8], rows: &mut Vec<ReadRow>) -> Result<(), Error>;

    /// Adds to `rows` the one that the end of the body ends.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    fn finish(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Error>;

    /// Whether an import reads nothing after the last row.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Added to the error of a row after which nothing is read.
pub(super) const IMPORT_STOPS: &str = "the import stops here, and what was taken before stays";

pub(super) fn too_large() -> Failure {
    Failure::new(
        ErrorNumber::BodyTooLarge,
        format!("the row is too large; it may have {ROW_MAX_BYTES} bytes"),
    )
}

/// The error of a row that is too large and may hold an open quote, so that its end cannot be found.
pub(super) fn too_large_to_go_on() -> Failure {
    too_large()
        .and_say(&format!("{IMPORT_STOPS}, because an open quote may hide the end of this row"))
}

/// Counts lines. A line feed, a carriage return, or both in this order end one.
#[derive(Default)]
pub(super) struct Lines {
    ended: u64,
    has_return: bool,
}

impl Lines {
    /// The line of the next byte.
    pub(super) fn current(&self) -> u64 {
        self.ended + 1
    }

    pub(super) fn read(&mut self, byte: u8) {
        let is_second = byte == b'\n' && self.has_return;
        self.has_return = byte == b'\r';
        self.ended += u64::from(matches!(byte, b'\n' | b'\r') && !is_second);
    }
}
