//! NDJSON: a JSON object in each line.

use plant_domain::Error;

use crate::extract::json;
use crate::limits::ROW_MAX_BYTES;

use super::row::{ReadRow, RowReader, too_large};

/// Reads a JSON object from each line. Blank lines are counted and skipped.
#[derive(Default)]
pub(super) struct NdJsonRows {
    lines: u64,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The line has too many bytes, and is not kept.
    is_too_large: bool,
}

impl RowReader for NdJsonRows {
    fn read(&mut self, part: &[u8], rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            // One more byte may be the carriage return before the end of the line.
            self.is_too_large |= self.line.len() + text.len() > ROW_MAX_BYTES + 1;
            if !self.is_too_large {
                self.line.extend_from_slice(text);
            }
            if text.len() < piece.len() {
                self.finish(rows)?;
            }
        }
        Ok(())
    }

    /// Ends the line.
    fn finish(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        self.lines += 1;
        let row = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if self.is_too_large || row.len() > ROW_MAX_BYTES {
            rows.push((self.lines, Err(too_large().into())));
        } else if !row.trim_ascii().is_empty() {
            rows.push((self.lines, json::read(row).map_err(Error::from)));
        }
        self.line.clear();
        self.is_too_large = false;
        Ok(())
    }
}
