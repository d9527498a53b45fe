//! NDJSON: a JSON object in each line.

use crate::extract::json;
use crate::limits::ROW_MAX_BYTES;

use super::row::{Row, too_large};

/// A JSON object in each line. Blank lines count, but hold nothing.
#[derive(Default)]
pub(crate) struct NdJsonRows {
    lines: u64,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// It has too many bytes, and is not kept.
    is_too_large: bool,
}

impl NdJsonRows {
    pub(super) fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = match piece {
                [piece @ .., b'\n'] => (piece, true),
                piece => (piece, false),
            };
            // One more may be the carriage return before the line's end.
            self.is_too_large |= self.line.len() + piece.len() > ROW_MAX_BYTES + 1;
            if !self.is_too_large {
                self.line.extend_from_slice(piece);
            }
            if ends {
                self.end_line(rows);
            }
        }
    }

    pub(super) fn finish(&mut self, rows: &mut Vec<Row>) {
        self.end_line(rows);
    }

    fn end_line(&mut self, rows: &mut Vec<Row>) {
        self.lines += 1;
        let row = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if self.is_too_large || row.len() > ROW_MAX_BYTES {
            rows.push(Row { line: self.lines, plant: Err(too_large()) });
        } else if !row.trim_ascii().is_empty() {
            rows.push(Row { line: self.lines, plant: json::read(row) });
        }
        self.line.clear();
        self.is_too_large = false;
    }
}
