//! A byte order mark before the first row.

use plant_domain::Error;

use crate::extract::body::BYTE_ORDER_MARK;

use super::row::{ReadRow, RowReader};

/// Skips a byte order mark at the beginning of a body, and reads the rows behind it.
pub(super) struct MarkedRows<Rows> {
    /// The first bytes of the body, until they can be compared with the mark; `None` afterwards.
    start: Option<Vec<u8>>,
    rows: Rows,
}

impl<Rows> MarkedRows<Rows> {
    pub(super) fn new(rows: Rows) -> Self {
        Self { start: Some(Vec::new()), rows }
    }
}

impl<Rows: RowReader> RowReader for MarkedRows<Rows> {
    fn read(&mut self, part: &[u8], rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        let Some(start) = &mut self.start else { return self.rows.read(part, rows) };
        start.extend_from_slice(part);
        if start.len() < BYTE_ORDER_MARK.len() {
            return Ok(());
        }
        let start = self.start.take().unwrap_or_default();
        self.rows.read(start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start), rows)
    }

    fn finish(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        if let Some(start) = self.start.take() {
            self.rows.read(&start, rows)?;
        }
        self.rows.finish(rows)
    }

    fn is_stopped(&self) -> bool {
        self.rows.is_stopped()
    }
}
