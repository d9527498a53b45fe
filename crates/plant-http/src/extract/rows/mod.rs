//! Plants that arrive row by row, in parts that end anywhere.

mod csv;
mod json_array;
mod ndjson;
mod row;

pub(crate) use self::csv::wrong_header;
pub(crate) use self::json_array::not_an_array;
pub(crate) use self::row::Row;

use plant_domain::{Error, NewPlant};

use self::csv::CsvRows;
use self::json_array::JsonArrayRows;
use self::ndjson::NdJsonRows;
use crate::errors::Failure;
use crate::extract::transfer_format::{ImportFormat, TransferFormat};

/// Makes rows of the parts of a body.
pub(crate) enum Rows {
    NdJson(NdJsonRows),
    Csv(Box<CsvRows>),
    JsonArray(JsonArrayRows),
}

impl Rows {
    pub(crate) fn new(format: ImportFormat) -> Self {
        match format {
            ImportFormat::Rows(TransferFormat::NdJson) => Self::NdJson(NdJsonRows::default()),
            ImportFormat::Rows(TransferFormat::Csv) => Self::Csv(Box::new(CsvRows::new())),
            ImportFormat::JsonArray => Self::JsonArray(JsonArrayRows::default()),
        }
    }

    /// Adds to `rows` those that end in this part. An error means that no row at all can be read.
    pub(crate) fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) -> Result<(), Failure> {
        match self {
            Self::NdJson(reader) => {
                reader.read(part, rows);
                Ok(())
            }
            Self::Csv(reader) => reader.read(part, rows),
            Self::JsonArray(reader) => reader.read(part, rows),
        }
    }

    /// Adds to `rows` the one that the end of the body ends.
    pub(crate) fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        match self {
            Self::NdJson(reader) => {
                reader.finish(rows);
                Ok(())
            }
            Self::Csv(reader) => reader.finish(rows),
            Self::JsonArray(reader) => reader.finish(rows),
        }
    }

    /// Whether no more rows come, whatever follows.
    pub(crate) fn is_stopped(&self) -> bool {
        match self {
            Self::NdJson(_) => false,
            Self::Csv(reader) => reader.is_stopped,
            Self::JsonArray(reader) => reader.is_stopped,
        }
    }
}

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
pub struct RowReader(Rows);

/// The line in which a row begins, and the plant in it, or what is wrong with it. The first line is 1.
pub type ReadRow = (u64, Result<NewPlant, Error>);

impl RowReader {
    /// A reader that has read nothing yet.
    #[must_use]
    pub fn new(format: ImportFormat) -> Self {
        Self(Rows::new(format))
    }

    /// The rows that end in the next part of the body.
    ///
    /// # Errors
    ///
    /// When no row at all can be read.
    pub fn read(&mut self, part: &[u8]) -> Result<Vec<ReadRow>, Error> {
        let mut rows = Vec::new();
        let read = self.0.read(part, &mut rows);
        found(rows, read)
    }

    /// The row that the end of the body ends.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub fn finish(&mut self) -> Result<Vec<ReadRow>, Error> {
        let mut rows = Vec::new();
        let read = self.0.finish(&mut rows);
        found(rows, read)
    }

    /// Whether an import reads nothing behind the last row.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

fn found(rows: Vec<Row>, read: Result<(), Failure>) -> Result<Vec<ReadRow>, Error> {
    read.map_err(|failure| failure.error())?;
    let to_error = |Row { line, plant }| (line, plant.map_err(|failure| failure.error()));
    Ok(rows.into_iter().map(to_error).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROW_MAX_BYTES;

    /// The lines and the names or error numbers of the rows, which are the same wherever the body is
    /// cut into parts.
    #[track_caller]
    fn check(format: impl Into<ImportFormat>, body: &[u8], expected: Result<&[(u64, &str)], i32>) {
        let format = format.into();
        for part_bytes in [1, 2, 3, 5, 7, body.len().max(1)] {
            let mut reader = Rows::new(format);
            let mut rows = Vec::new();
            let mut read =
                body.chunks(part_bytes).try_for_each(|part| reader.read(part, &mut rows));
            read = read.and_then(|()| reader.finish(&mut rows));
            let rows: Vec<(u64, String)> = rows
                .into_iter()
                .map(|row| match row.plant {
                    Ok(plant) => (row.line, format!("{:?}", plant.plant().name())),
                    Err(failure) => (row.line, (failure.number() as i32).to_string()),
                })
                .collect();
            let rows: Vec<(u64, &str)> =
                rows.iter().map(|(line, text)| (*line, text.as_str())).collect();
            let read = read.map(|()| &rows[..]).map_err(|failure| failure.number() as i32);
            assert_eq!(read, expected, "in parts of {part_bytes}: {:?}", body.escape_ascii());
        }
    }

    #[track_caller]
    fn check_ndjson(body: impl AsRef<[u8]>, expected: &[(u64, &str)]) {
        check(TransferFormat::NdJson, body.as_ref(), Ok(expected));
    }

    /// A body behind the right header.
    #[track_caller]
    fn check_csv(body: impl AsRef<[u8]>, expected: &[(u64, &str)]) {
        for header in ["id,name,tag\n", "\u{feff}id,name,tag\r\n", "\n\"id\",name,\"tag\"\n"] {
            let whole = [header.as_bytes(), body.as_ref()].concat();
            let lines_before = if header.starts_with('\n') { 1 } else { 0 };
            let expected: Vec<(u64, &str)> =
                expected.iter().map(|(line, text)| (line + lines_before, *text)).collect();
            check(TransferFormat::Csv, &whole, Ok(&expected));
        }
    }

    #[test]
    fn ndjson_has_a_plant_in_each_line_that_is_not_blank() {
        check_ndjson("", &[]);
        check_ndjson("\n \r\n\t\n", &[]);
        let rosa = r#"{"id":1,"name":"Rosa"}"#;
        check_ndjson(rosa, &[(1, "\"Rosa\"")]);
        let three = format!("{rosa}\r\n\n  {rosa} \n{rosa}");
        check_ndjson(three, &[(1, "\"Rosa\""), (3, "\"Rosa\""), (4, "\"Rosa\"")]);
    }

    #[test]
    fn what_is_wrong_with_a_line_of_ndjson_keeps_none_of_the_others() {
        let body = "{\n[]\n{\"id\":1,\"name\":\"\"}\n{\"id\":1,\"name\":\"Rosa\"}\n{\"id\":1";
        check_ndjson(body, &[(1, "1001"), (2, "1004"), (3, "1005"), (4, "\"Rosa\""), (5, "1001")]);
    }

    #[test]
    fn a_line_of_ndjson_that_is_too_large_is_skipped() {
        let line = |bytes| {
            let shortest = r#"{"id":1,"name":"Rosa","x":""}"#.len();
            format!(r#"{{"id":1,"name":"Rosa","x":"{}"}}"#, "x".repeat(bytes - shortest))
        };
        let (largest, too_large) = (line(ROW_MAX_BYTES), line(ROW_MAX_BYTES + 1));
        let body = format!("{largest}\n{too_large}\n{largest}\r\n{too_large}\r\n{}", line(40));
        let rosa = "\"Rosa\"";
        check_ndjson(body, &[(1, rosa), (2, "1003"), (3, rosa), (4, "1003"), (5, rosa)]);
    }

    #[test]
    fn csv_cells_are_kept_exactly() {
        let body =
            "1,\"say \"\"Rosa\"\", twice\",\r\n\n2, =Rosa ,x\n-3,5\" pot,\"a,b\"\n4,a\u{2028},";
        check_csv(
            body,
            &[
                (2, r#""say \"Rosa\", twice""#),
                (4, "\" =Rosa \""),
                (5, "\"5\\\" pot\""),
                (6, "\"a\\u{2028}\""),
            ],
        );
    }

    #[test]
    fn what_is_wrong_with_a_row_of_csv_keeps_none_of_the_others() {
        let body = b"1\n1,a\n1,a,b,c\n1,a,b,c,d,e,f,g,h\nx,a,b\n007,a,b\n,a,b\n1,,b\n1,a\xff,b\n\
                     \"1\",\"two\nlines\",b\n9,a,b\n1,\"a\"b,c\n1,\"a\" ,c\n9,a,\"b\"\n";
        let expected = [
            (2, "1004"),
            (3, "1004"),
            (4, "1004"),
            (5, "1004"),
            (6, "1004"),
            (7, "1004"),
            (8, "1004"),
            (9, "1005"),
            (10, "1001"),
            (11, "1005"),
            (13, "\"a\""),
            (14, "1004"),
            (15, "1004"),
            (16, "\"a\""),
        ];
        check_csv(body, &expected);
    }

    #[test]
    fn lines_may_end_in_carriage_returns_alone() {
        check_csv(
            "1,a,\rx,b,\r\r\n\n2,\"c\r\nd\",\r3,e,",
            &[(2, "\"a\""), (3, "1004"), (6, "1005"), (8, "\"e\"")],
        );
    }

    #[test]
    fn a_quote_that_is_open_at_the_end_is_noticed() {
        check_csv("1,a,b\n2,\"a,b\n3,a,b\n", &[(2, "\"a\""), (3, "1004")]);
        check_csv("1,a,\"b\"", &[(2, "\"a\"")]);
    }

    #[test]
    fn a_row_of_csv_that_is_too_large_ends_the_import() {
        let name = |bytes: usize| "x".repeat(bytes);
        let largest = format!("1,a,{}\r\n2,a,b\n", name(ROW_MAX_BYTES - 4));
        check_csv(largest, &[(2, "1005"), (3, "\"a\"")]);
        let too_large = format!("1,a,b\n1,a,{}\n2,a,b\n", name(ROW_MAX_BYTES - 3));
        check_csv(too_large, &[(2, "\"a\""), (3, "1003")]);
        let swallowed = format!("1,\"a,b\n{}", "2,a,b\n".repeat(20_000));
        check_csv(swallowed, &[(2, "1003")]);
    }

    #[test]
    fn csv_without_its_header_is_refused() {
        for body in [
            "",
            "\n\n",
            "1,a,b\n",
            "id,tag\n",
            "name,tag\n",
            "id,name,tag,x\n",
            "id,name,tag,x,y,z,id,name,tag\n",
            "id,name,name\n",
            "tag,id,name,tag\n",
            "ID,name,tag",
            "id, name,tag",
            "id,name,",
            "id,\"name\"x,tag\n",
            "\"id,name,tag\n",
            "\n\u{feff}id,name,tag\n",
            "\u{feff}\u{feff}id,name,tag\n",
            "\u{feff}\n\u{feff}id,name,tag\n",
        ] {
            check(TransferFormat::Csv, body.as_bytes(), Err(1004));
        }
        check(TransferFormat::Csv, b"id,name,tag", Ok(&[]));
    }

    #[test]
    fn the_columns_of_csv_may_come_in_any_order_and_without_tags() {
        for (body, expected) in [
            ("tag,name,id\na,Rosa,1\n,Salix,2\n1,a,b\n", &["Rosa,a", "Salix,", "1004"] as &[_]),
            ("name,id,tag\nRosa,1,a\nSalix,2,\nAcer,3\n", &["Rosa,a", "Salix,", "1004"]),
            ("id,name\n1,Rosa\n2,\"Salix\"\n3,Acer,b\n4\n", &["Rosa,", "Salix,", "1004", "1004"]),
            ("\u{feff}name,id\nRosa,1\nSalix,2\n", &["Rosa,", "Salix,"]),
        ] {
            let mut reader = Rows::new(TransferFormat::Csv.into());
            let mut rows = Vec::new();
            reader.read(body.as_bytes(), &mut rows).unwrap();
            reader.finish(&mut rows).unwrap();
            let found: Vec<String> = rows
                .into_iter()
                .map(|row| match row.plant {
                    Ok(plant) => {
                        let plant = plant.plant();
                        format!("{},{}", plant.name(), plant.tag().unwrap_or_default())
                    }
                    Err(failure) => (failure.number() as i32).to_string(),
                })
                .collect();
            assert_eq!(found, expected, "{body}");
        }
    }

    #[track_caller]
    fn check_array(body: impl AsRef<[u8]>, expected: &[(u64, &str)]) {
        check(ImportFormat::JsonArray, body.as_ref(), Ok(expected));
    }

    const ROSA: &str = r#"{"id":1,"name":"Rosa"}"#;

    #[test]
    fn the_elements_of_a_json_array_are_rows() {
        check_array("[]", &[]);
        check_array(" \r\n[\n\t] \n", &[]);
        let expected = "\"Rosa\"";
        check_array(format!("[{ROSA}]"), &[(1, expected)]);
        let lines = format!("[\n  {ROSA},\r\n\n{ROSA}\n,\r{ROSA}]\n");
        check_array(lines, &[(2, expected), (4, expected), (6, expected)]);
        let spread = "[{\n\"id\" : 1,\n\"name\": \"a]},\\\"[{\\\\\",\n\"x\":[[{}],\"]\"]}\n]";
        check_array(spread, &[(1, r#""a]},\"[{\\""#)]);
    }

    #[test]
    fn what_is_wrong_with_an_element_keeps_none_of_the_others() {
        let wrong = r#"{"id":1,"name":""}"#;
        let body = format!(
            "[1, null ,\"a,]\\\"\",[1,[{ROSA}]],\n{{}},{wrong},{{\"id\":1,\"name\":\"\\ud800\"}},{ROSA}]"
        );
        let shape = (1, "1004");
        check_array(
            body,
            &[shape, shape, shape, shape, (2, "1004"), (2, "1005"), (2, "1001"), (2, "\"Rosa\"")],
        );
    }

    #[test]
    fn nothing_is_read_behind_what_breaks_a_json_array() {
        let rosa = (1, "\"Rosa\"");
        for (body, stop) in [
            (format!("[{ROSA}"), (1, "1001")),
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
            check_array(body, &[rosa, stop]);
        }
        check_array(format!("[,{ROSA}]"), &[(1, "1001")]);
        check_array("[", &[(1, "1001")]);
        for body in ["", "\n", "{}", ROSA, "\u{feff}[]", "null", "\"[]\"", "]", "x[]"] {
            check(ImportFormat::JsonArray, body.as_bytes(), Err(1004));
        }
    }

    #[test]
    fn an_element_may_be_as_large_as_a_line() {
        let element = |bytes: usize| {
            let shortest = r#"{"id":1,"name":"Rosa","x":""}"#.len();
            format!(r#"{{"id":1,"name":"Rosa","x":"{}"}}"#, "x".repeat(bytes - shortest))
        };
        let (largest, too_large) = (element(ROW_MAX_BYTES), element(ROW_MAX_BYTES + 1));
        let body = format!("[{largest},\n {largest}\n, {too_large},\n{largest}]");
        check_array(body, &[(1, "\"Rosa\""), (2, "\"Rosa\""), (3, "1003")]);
    }
}
