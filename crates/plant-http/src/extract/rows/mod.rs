//! Plants that arrive row by row, in parts that end anywhere.

mod csv;
mod json_array;
mod ndjson;
mod row;

pub(crate) use self::csv::wrong_header;
pub use self::row::ReadRow;

use plant_domain::Error;

use self::csv::CsvRows;
use self::json_array::JsonArrayRows;
use self::ndjson::NdJsonRows;
use self::row::ReadRows;
use crate::extract::transfer_format::{ImportFormat, TransferFormat};

/// Reads the rows of a body as an import reads them, in parts that end anywhere. Clients use it to count the rows
/// that they send, and to check the rows that they receive.
///
/// ```
/// use plant_http::transfer::{RowReader, TransferFormat};
///
/// let mut reader = RowReader::new(TransferFormat::Csv.into());
/// let mut rows = Vec::new();
/// reader.read(b"id,name,tag\n1,Rosa,\n\n2,Sa", &mut rows)?;
/// reader.read(b"lix,\nnot a plant", &mut rows)?;
/// reader.finish(&mut rows)?;
/// let lines: Vec<u64> = rows.iter().map(|(line, _)| *line).collect();
/// assert_eq!(lines, [2, 4, 5]);
/// assert!(rows[1].1.is_ok() && rows[2].1.is_err());
/// # Ok::<(), plant_domain::Error>(())
/// ```
pub struct RowReader(Box<dyn ReadRows>);

impl RowReader {
    /// A reader that has read nothing yet.
    #[must_use]
    pub fn new(format: ImportFormat) -> Self {
        Self(match format {
            ImportFormat::Rows(TransferFormat::NdJson) => Box::new(NdJsonRows::default()),
            ImportFormat::Rows(TransferFormat::Csv) => Box::new(CsvRows::new()),
            ImportFormat::JsonArray => Box::new(JsonArrayRows::default()),
        })
    }

    /// Adds to `rows` those that end in the next part of the body.
    ///
    /// # Errors
    ///
    /// When no row at all can be read.
    pub fn read(&mut self, part: &[u8], rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        self.0.read(part, rows)
    }

    /// Adds to `rows` the one that the end of the body ends.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn finish(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        self.0.finish(rows)
    }

    /// Whether an import reads nothing after the last row.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}
