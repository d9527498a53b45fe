//! Plants that arrive row by row, in parts that end anywhere.

mod csv;
mod json_array;
mod marked;
mod ndjson;
mod row;

pub(crate) use self::csv::wrong_header;
pub use self::row::{ReadRow, RowReader};

use self::csv::CsvRows;
use self::json_array::JsonArrayRows;
use self::marked::MarkedRows;
use self::ndjson::NdJsonRows;
use crate::extract::transfer_format::{ImportFormat, TransferFormat};

/// A reader of rows in this format that has read nothing yet. It skips a byte order mark before the first row. Clients use it to
/// count the rows that they send, and to check the rows that they receive.
///
/// ```
/// use plant_http::transfer::{TransferFormat, row_reader};
///
/// let mut reader = row_reader(TransferFormat::Csv.into());
/// let mut rows = Vec::new();
/// reader.read(b"id,name,tag\n1,Rosa,\n\n2,Sa", &mut rows)?;
/// reader.read(b"lix,\nnot a plant", &mut rows)?;
/// reader.finish(&mut rows)?;
/// let lines: Vec<u64> = rows.iter().map(|(line, _)| *line).collect();
/// assert_eq!(lines, [2, 4, 5]);
/// assert!(rows[1].1.is_ok() && rows[2].1.is_err());
/// # Ok::<(), plant_domain::Error>(())
/// ```
#[must_use]
pub fn row_reader(format: ImportFormat) -> Box<dyn RowReader> {
    match format {
        ImportFormat::Rows(TransferFormat::NdJson) => {
            Box::new(MarkedRows::new(NdJsonRows::default()))
        }
        ImportFormat::Rows(TransferFormat::Csv) => Box::new(MarkedRows::new(CsvRows::default())),
        ImportFormat::JsonArray => Box::new(MarkedRows::new(JsonArrayRows::default())),
    }
}
