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
use crate::errors::Failure;
use crate::extract::transfer_format::{ImportFormat, TransferFormat};

/// Reads the rows of a body as an import reads them, in parts that end anywhere. Clients use it to count what they
/// send, and to check what they get.
///
/// ```
/// use plant_http::transfer::{RowReader, TransferFormat};
///
/// let mut reader = RowReader::new(TransferFormat::Csv.into());
/// let mut rows = reader.read(b"id,name,tag\n1,Rosa,\n\n2,Sa")?;
/// rows.extend(reader.read(b"lix,\nnot a plant")?);
/// rows.extend(reader.finish()?);
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

    /// The rows that end in the next part of the body.
    ///
    /// # Errors
    ///
    /// When no row at all can be read.
    pub fn read(&mut self, part: &[u8]) -> Result<Vec<ReadRow>, Error> {
        let mut rows = Vec::new();
        self.read_into(part, &mut rows).map_err(|failure| failure.error())?;
        Ok(rows)
    }

    /// The row that the end of the body ends.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn finish(&mut self) -> Result<Vec<ReadRow>, Error> {
        let mut rows = Vec::new();
        self.finish_into(&mut rows).map_err(|failure| failure.error())?;
        Ok(rows)
    }

    /// As [`Self::read`], for a list that has rows already.
    pub(crate) fn read_into(
        &mut self,
        part: &[u8],
        rows: &mut Vec<ReadRow>,
    ) -> Result<(), Failure> {
        self.0.read(part, rows)
    }

    /// As [`Self::finish`], for a list that has rows already.
    pub(crate) fn finish_into(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Failure> {
        self.0.finish(rows)
    }

    /// Whether an import reads nothing after the last row.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROW_MAX_BYTES;

    const NDJSON: ImportFormat = ImportFormat::Rows(TransferFormat::NdJson);
    const CSV: ImportFormat = ImportFormat::Rows(TransferFormat::Csv);
    const ROSA: &str = r#"{"id":1,"name":"Rosa"}"#;

    /// Checks the lines of the rows with their names or error numbers, which are the same wherever the body is cut.
    #[track_caller]
    fn check(format: ImportFormat, body: impl AsRef<[u8]>, expected: Result<&[(u64, &str)], i32>) {
        let body = body.as_ref();
        for part_bytes in [1, 2, 3, 5, 7, body.len().max(1)] {
            let mut reader = RowReader::new(format);
            let mut rows = Vec::new();
            let read = body
                .chunks(part_bytes)
                .try_for_each(|part| reader.read_into(part, &mut rows))
                .and_then(|()| reader.finish_into(&mut rows))
                .map_err(|failure| failure.number() as i32);
            let rows: Vec<(u64, String)> = rows
                .into_iter()
                .map(|(line, plant)| match plant {
                    Ok(plant) => (line, plant.plant().name().to_owned()),
                    Err(error) => (line, error.error.to_string()),
                })
                .collect();
            let rows: Vec<(u64, &str)> =
                rows.iter().map(|(line, text)| (*line, text.as_str())).collect();
            let shown = body.escape_ascii();
            assert_eq!(read.map(|()| &rows[..]), expected, "in parts of {part_bytes}: {shown}");
        }
    }

    #[test]
    fn a_wrong_row_of_csv_keeps_none_of_the_others() {
        let body = b"1,\"say \"\"Rosa\"\", twice\",\r\n\n2, =Rosa ,x\n-3,5\" pot,\"a,b\"\n1\n1,a,b,c\n\
                     1,a,b,c,d,e,f,g,h\n007,a,b\n1,,b\n1,a\xff,b\n\"1\",\"two\nlines\",b\n1,\"a\"b,\"\n\"\n\
                     1,\"a\" ,c\n9,a,\"b\"\n8,b,\r7,c,\r\r\n\n2,\"a,b\n3,a,b\n";
        let expected = [
            (2, "say \"Rosa\", twice"),
            (4, " =Rosa "),
            (5, "5\" pot"),
            (6, "1004"),
            (7, "1004"),
            (8, "1004"),
            (9, "1004"),
            (10, "1005"),
            (11, "1001"),
            (12, "1005"),
            (14, "1004"),
            (16, "1004"),
            (17, "a"),
            (18, "b"),
            (19, "c"),
            (22, "1004"),
        ];
        for (header, more_lines) in
            [("id,name,tag\n", 0), ("\u{feff}id,name,tag\r\n", 0), ("\n\"id\",name,\"tag\"\n", 1)]
        {
            let whole = [header.as_bytes(), body].concat();
            let expected = expected.map(|(line, text)| (line + more_lines, text));
            check(CSV, whole, Ok(&expected));
        }
    }

    #[test]
    fn csv_without_its_header_is_refused() {
        for body in [
            "",
            "\n\n",
            "1,a,b\n",
            "id,tag\n",
            "name,tag\n",
            "id,name,tag,x,y,z,id,name,tag\n",
            "id,name,name\n",
            "ID,name,tag",
            "id, name,tag",
            "id,name,",
            "id,\"name\"x,tag\n",
            "\"id,name,tag\n",
            "\n\u{feff}id,name,tag\n",
            "\u{feff}\u{feff}id,name,tag\n",
        ] {
            check(CSV, body, Err(1004));
        }
        check(CSV, "id,name,tag", Ok(&[]));
    }

    #[test]
    fn only_a_row_whose_end_is_certain_may_be_too_large_without_an_end_of_the_import() {
        let padding = |bytes: usize| "x".repeat(bytes);
        let object = |bytes: usize| {
            let shortest = r#"{"id":1,"name":"Rosa","x":""}"#.len();
            format!(r#"{{"id":1,"name":"Rosa","x":"{}"}}"#, padding(bytes - shortest))
        };
        let (largest, too_large) = (object(ROW_MAX_BYTES), object(ROW_MAX_BYTES + 1));
        let lines = format!("{largest}\n{too_large}\n{largest}\r\n{too_large}\r\n{ROSA}");
        let expected = [(1, "Rosa"), (2, "1003"), (3, "Rosa"), (4, "1003"), (5, "Rosa")];
        check(NDJSON, lines, Ok(&expected));
        let array = format!("[{largest},\n {largest}\n, {too_large},\n{largest}]");
        check(ImportFormat::JsonArray, array, Ok(&[(1, "Rosa"), (2, "Rosa"), (3, "1003")]));
        for (row, next) in [
            (format!("1,a,{}\r\n", padding(ROW_MAX_BYTES - 4)), &[(2, "1005"), (3, "a")][..]),
            (format!("1,a,{}\n", padding(ROW_MAX_BYTES - 3)), &[(2, "1003")]),
            (format!("1,\"a,b\n{}", "2,a,b\n".repeat(20_000)), &[(2, "1003")]),
        ] {
            check(CSV, format!("id,name,tag\n{row}2,a,b\n"), Ok(next));
        }
    }

    #[test]
    fn a_wrong_element_of_a_json_array_keeps_none_of_the_others() {
        let body = format!(
            " \r\n[1, null ,\"a,]\\\"\",[1,[{ROSA}]],\n{{}},{{\"id\":1,\"name\":\"\"}}\n,\r\
             {{\"id\":1,\"name\":\"\\ud800\"}},{{\n\"id\" : 1,\n\"name\": \"a]}},[{{\",\"x\":[[{{}}]]}}]\n"
        );
        let shape = (2, "1004");
        let rest = [(3, "1004"), (3, "1005"), (5, "1001"), (5, "a]},[{")];
        check(ImportFormat::JsonArray, body, Ok(&[&[shape; 4][..], &rest].concat()));
        check(ImportFormat::JsonArray, "[\n\t] \n", Ok(&[]));
    }

    #[test]
    fn nothing_is_read_after_what_breaks_a_json_array() {
        for (body, stop) in [
            (format!("[{ROSA}\n\n"), (3, "1001")),
            (format!("[{ROSA},\n"), (2, "1001")),
            (format!("[{ROSA},\n{{\"id\":2,\n"), (2, "1001")),
            (format!("[{ROSA},\n1"), (2, "1001")),
            (format!("[{ROSA},\n]{ROSA}"), (2, "1001")),
            (format!("[{ROSA},\n,{ROSA}]"), (2, "1001")),
            (format!("[{ROSA}\n{ROSA}]"), (2, "1001")),
            (format!("[{ROSA}x,{ROSA}]"), (1, "1001")),
            (format!("[{ROSA}]\n,{ROSA}"), (2, "1001")),
            (format!("[{ROSA}]\n[{ROSA}]"), (2, "1001")),
            (format!("[{ROSA}]]"), (1, "1001")),
            (format!("[{ROSA},\nx,{ROSA}]"), (2, "1001")),
            (format!("[{ROSA},\n}},{ROSA}]"), (2, "1001")),
            (format!("[{ROSA},\n{{\"id\":1],{ROSA}]"), (2, "1001")),
            (format!("[{ROSA},\n{{\"id\":1,\"name\":\"a\"b\"}},{ROSA}]"), (2, "1001")),
            (format!("[{ROSA},\n\"a\"{ROSA}]"), (2, "1001")),
            (format!("[{ROSA},\n\"{}", format!("{ROSA},").repeat(5000)), (2, "1003")),
        ] {
            check(ImportFormat::JsonArray, body, Ok(&[(1, "Rosa"), stop]));
        }
        for body in ["[", "[,{}]"] {
            check(ImportFormat::JsonArray, body, Ok(&[(1, "1001")]));
        }
        for body in ["", "\n", "{}", ROSA, "\u{feff}[]", "null", "\"[]\"", "]", "x[]"] {
            check(ImportFormat::JsonArray, body, Err(1004));
        }
    }
}
