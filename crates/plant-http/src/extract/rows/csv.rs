//! CSV (RFC 4180): a header that names the columns, then a record in each row.

use csv_core::ReadRecordResult;
use plant_domain::{NewPlant, PlantId};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::transfer_format::CSV_HEADER;
use crate::limits::ROW_MAX_BYTES;

use super::row::{END_MAY_BE_MISSED, IMPORT_STOPS, Lines, Row, too_large};

/// How many cells of a row are kept: one more than there may be, so that a message can name the one too many.
const CELLS_KEPT: usize = CSV_HEADER.len() + 1;

/// How much of the name of a wrong column a message shows, in characters.
const COLUMN_SHOWN_MAX_CHARACTERS: usize = 64;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A record in each row, behind a header that names the columns. A quoted cell, and so a record, may have several
/// lines.
pub(crate) struct CsvRows {
    reader: csv_core::Reader,
    /// The first bytes of the body, until it can be told whether they are a byte order mark.
    start: Option<Vec<u8>>,
    columns: Option<CsvColumns>,
    pub(super) is_stopped: bool,
    lines: Lines,
    record: CsvRecord,
}

/// Which cell of a record is which.
#[derive(Clone, Copy)]
struct CsvColumns {
    id: usize,
    name: usize,
    tag: Option<usize>,
    count: usize,
}

impl CsvColumns {
    fn read(header: &[&str]) -> Result<Self, Failure> {
        let [id, name, tag] =
            CSV_HEADER.map(|column| header.iter().position(|cell| *cell == column));
        let mut problems = Vec::new();
        for (at, cell) in header.iter().enumerate() {
            let is_repeated = header[..at].contains(cell);
            if is_repeated || !CSV_HEADER.contains(cell) {
                let shown: String = cell.chars().take(COLUMN_SHOWN_MAX_CHARACTERS).collect();
                let problem = if is_repeated { "is repeated" } else { "is unknown" };
                problems.push(format!("{shown:?} {problem}"));
            }
        }
        let missing = [("id", id), ("name", name)].into_iter().filter(|(_, at)| at.is_none());
        problems.extend(missing.map(|(column, _)| format!("{column:?} is missing")));
        match (id, name) {
            (Some(id), Some(name)) if problems.is_empty() => {
                Ok(Self { id, name, tag, count: header.len() })
            }
            _ => Err(wrong_header(&problems.join(", "))),
        }
    }

    /// The names of the columns in their order.
    fn names(self) -> String {
        let mut names: Vec<_> =
            [(Some(self.id), "id"), (Some(self.name), "name"), (self.tag, "tag")]
                .into_iter()
                .filter_map(|(at, name)| Some((at?, name)))
                .collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(",")
    }
}

/// A record as far as it has been read.
struct CsvRecord {
    /// The line that it begins in; `None` before its first byte.
    line: Option<u64>,
    /// How many bytes it has in the body.
    bytes: usize,
    /// The text of the cells, one after the other.
    text: Box<[u8]>,
    text_bytes: usize,
    /// Where the cells end. Those that come after one too many are not kept.
    ends: [usize; CELLS_KEPT],
    cells: usize,
    quotes: Quotes,
}

/// Where in the quotes of a record the reader is. It reads text behind a closing quote as a part of the
/// cell, and would change it in silence.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    CellBegins,
    Unquoted,
    Open,
    Closed,
    /// Text stands behind a closing quote.
    Broken,
}

impl Quotes {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::CellBegins | Self::Closed, b'"') => Self::Open,
            (Self::Open, b'"') => Self::Closed,
            (Self::CellBegins | Self::Unquoted | Self::Closed, b',') => Self::CellBegins,
            (Self::CellBegins, _) => Self::Unquoted,
            (Self::Closed, b'\r' | b'\n') => Self::Closed,
            (Self::Closed, _) => Self::Broken,
            (quotes, _) => quotes,
        }
    }
}

impl CsvRecord {
    fn begin(&mut self, line: u64) {
        self.line = Some(line);
        self.quotes = Quotes::CellBegins;
        (self.bytes, self.text_bytes, self.cells) = (0, 0, 0);
    }

    /// The texts of the cells that are kept.
    fn cells(&self) -> Result<[&str; CELLS_KEPT], Failure> {
        if self.quotes == Quotes::Broken {
            return Err(Failure::new(
                ErrorNumber::WrongShape,
                "text stands behind a closing quote; double the quotes within a quoted cell",
            ));
        }
        let mut begin = 0;
        let mut cells = [""; CELLS_KEPT];
        for (cell, end) in cells.iter_mut().zip(&self.ends[..self.cells]) {
            let text = &self.text[begin..*end];
            *cell = std::str::from_utf8(text)
                .map_err(|_| Failure::new(ErrorNumber::NotJson, "the row is not text in UTF-8"))?;
            begin = *end;
        }
        Ok(cells)
    }

    fn columns(&self) -> Result<CsvColumns, Failure> {
        let cells = self.cells().map_err(|failure| wrong_header(&failure.error().message))?;
        CsvColumns::read(&cells[..self.cells])
    }

    fn plant(&self, columns: CsvColumns) -> Result<NewPlant, Failure> {
        if self.cells != columns.count && self.quotes != Quotes::Broken {
            return Err(Failure::new(
                ErrorNumber::WrongShape,
                format!("a row must have {} cells: {}", columns.count, columns.names()),
            ));
        }
        let cells = self.cells()?;
        let id: PlantId = cells[columns.id]
            .parse()
            .map_err(|refusal| Failure::new(ErrorNumber::WrongShape, format!("id: {refusal}")))?;
        let name = cells[columns.name].to_owned();
        let tag = columns.tag.map(|tag| cells[tag].to_owned()).filter(|tag| !tag.is_empty());
        Ok(NewPlant::new(id, name, tag)?)
    }
}

impl CsvRows {
    pub(super) fn new() -> Self {
        let mut reader = csv_core::Reader::new();
        // The reader takes a byte order mark away that begins the first bytes that it gets, but knows
        // it only as a whole, and those bytes need not begin the body. So they are others.
        let _ = reader.read_record(b"\n", &mut [], &mut []);
        Self {
            reader,
            start: Some(Vec::new()),
            columns: None,
            is_stopped: false,
            lines: Lines::default(),
            record: CsvRecord {
                line: None,
                bytes: 0,
                text: vec![0; ROW_MAX_BYTES].into(),
                text_bytes: 0,
                ends: [0; CELLS_KEPT],
                cells: 0,
                quotes: Quotes::CellBegins,
            },
        }
    }

    pub(super) fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) -> Result<(), Failure> {
        match &mut self.start {
            None => self.read_records(part, rows),
            Some(start) => {
                start.extend_from_slice(part);
                if start.len() < BYTE_ORDER_MARK.len() {
                    return Ok(());
                }
                let start = self.start.take().unwrap_or_default();
                self.read_records(start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start), rows)
            }
        }
    }

    pub(super) fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        if let Some(start) = self.start.take() {
            self.read_records(&start, rows)?;
        }
        // A line end ends the last record, unless it stands within quotes.
        self.read_records(b"\n", rows)?;
        if let Some(line) = self.record.line
            && !self.is_stopped
        {
            let message = "a quote is open at the end; close it, and double those within";
            let open_quote = Failure::new(ErrorNumber::WrongShape, message);
            self.fail_record(line, open_quote, rows)?;
        }
        match self.columns {
            Some(_) => Ok(()),
            None => Err(wrong_header("there is none")),
        }
    }

    fn read_records(&mut self, mut part: &[u8], rows: &mut Vec<Row>) -> Result<(), Failure> {
        while !part.is_empty() && !self.is_stopped {
            let line = match self.record.line {
                Some(line) => line,
                None => {
                    if let [end @ (b'\n' | b'\r'), rest @ ..] = part {
                        self.lines.read(*end);
                        part = rest;
                        continue;
                    }
                    let line = self.lines.ended + 1;
                    self.record.begin(line);
                    line
                }
            };
            let CsvRecord { bytes, text, text_bytes, ends, cells, .. } = &mut self.record;
            let mut ends_not_kept = [0; CELLS_KEPT];
            let (result, read, written, ended) = self.reader.read_record(
                part,
                &mut text[*text_bytes..],
                if *cells < CELLS_KEPT { &mut ends[*cells..] } else { &mut ends_not_kept },
            );
            let (done, rest) = part.split_at(read);
            part = rest;
            *bytes += read;
            *text_bytes += written;
            *cells = CELLS_KEPT.min(*cells + ended);
            for byte in done {
                self.lines.read(*byte);
                self.record.quotes = self.record.quotes.after(*byte);
            }

            let ends_line = done.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r'));
            let is_whole = matches!(result, ReadRecordResult::Record);
            let row_bytes = self.record.bytes - usize::from(is_whole && ends_line);
            if row_bytes > ROW_MAX_BYTES || matches!(result, ReadRecordResult::OutputFull) {
                // What is open here may be a quote, which would take in all that follows.
                self.is_stopped = true;
                let failure = too_large().and_say(&format!("{IMPORT_STOPS}, {END_MAY_BE_MISSED}"));
                self.fail_record(line, failure, rows)?;
            } else if is_whole {
                match self.columns {
                    Some(columns) => rows.push(Row { line, plant: self.record.plant(columns) }),
                    None => self.columns = Some(self.record.columns()?),
                }
                self.record.line = None;
            }
        }
        Ok(())
    }

    /// Ends a record that cannot be read to its end.
    fn fail_record(
        &mut self,
        line: u64,
        failure: Failure,
        rows: &mut Vec<Row>,
    ) -> Result<(), Failure> {
        self.record.line = None;
        if self.columns.is_none() {
            return Err(wrong_header(&failure.error().message));
        }
        rows.push(Row { line, plant: Err(failure) });
        Ok(())
    }
}

pub(crate) fn wrong_header(problem: &str) -> Failure {
    Failure::new(
        ErrorNumber::WrongShape,
        format!(
            "the first line of a CSV body must name its columns: {}, in any order, where tag may be left out; \
             {problem}",
            CSV_HEADER.join(",")
        ),
    )
}
