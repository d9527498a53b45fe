//! How many rows a client sends.

use plant_http::transfer::{ImportFormat, RowReader};

/// Counts the rows of an import as the server counts them, so that the report can be held against it.
pub(crate) struct RowCounter {
    /// `None` when the server reads no more rows, whatever follows.
    rows: Option<RowReader>,
    count: u64,
}

impl RowCounter {
    pub(crate) fn new(format: ImportFormat) -> Self {
        Self { rows: Some(RowReader::new(format)), count: 0 }
    }

    pub(crate) fn read(&mut self, part: &[u8]) {
        let Some(rows) = &mut self.rows else { return };
        match rows.read(part) {
            Ok(found) => self.count += found.len() as u64,
            Err(_) => self.rows = None,
        }
    }

    /// How many rows there are in all of what was read.
    pub(crate) fn finish(self) -> u64 {
        let last = self.rows.and_then(|mut rows| rows.finish().ok());
        self.count + last.map_or(0, |found| found.len() as u64)
    }
}
