//! Plants that arrive row by row, in parts that end anywhere.

use anyhow::{anyhow, ensure};
use csv_core::ReadRecordResult;
use plant_domain::{NewPlant, PlantId, UncheckedNewPlant};
use serde::de::IgnoredAny;

use crate::errors::{ErrorNumber, Failure};
use crate::extract::transfer_format::{CSV_HEADER, ImportFormat, TransferFormat};
use crate::extract::wire::read_new_plant;

/// The largest row that is read, in bytes, without what ends it.
pub const ROW_MAX_BYTES: usize = 64 * 1024;

/// How many cells of a CSV row are kept: one more than there may be, so that a message can name the one too many.
const CELLS_KEPT: usize = CSV_HEADER.len() + 1;

/// How much of the name of a wrong column a message shows, in characters.
const COLUMN_SHOWN_MAX_CHARACTERS: usize = 64;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// One row that holds something.
#[derive(Debug)]
pub(crate) struct Row {
    /// The line in which the row begins; the first line is 1.
    pub(crate) line: u64,
    /// What it says, if that is a plant.
    pub(crate) plant: Result<NewPlant, Failure>,
}

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

/// Counts the rows of a body as an import counts them, so that a client can compare them with the report.
///
/// ```
/// use plant_http::{RowCounter, TransferFormat};
///
/// let mut counter = RowCounter::new(TransferFormat::Csv.into());
/// counter.read(b"id,name,tag\n1,Rosa,\n\n2,Sa");
/// counter.read(b"lix,\nnot a plant");
/// assert_eq!(counter.finish(), 3);
/// ```
pub struct RowCounter {
    /// `None` when no more rows are read, whatever follows.
    rows: Option<Rows>,
    count: u64,
}

impl RowCounter {
    /// A counter that has read nothing yet.
    #[must_use]
    pub fn new(format: ImportFormat) -> Self {
        Self { rows: Some(Rows::new(format)), count: 0 }
    }

    /// Reads the next part of the body.
    pub fn read(&mut self, part: &[u8]) {
        self.count(|rows, found| rows.read(part, found));
    }

    /// How many rows there are in all of what was read.
    #[must_use]
    pub fn finish(mut self) -> u64 {
        self.count(Rows::finish);
        self.count
    }

    fn count(&mut self, read: impl FnOnce(&mut Rows, &mut Vec<Row>) -> Result<(), Failure>) {
        let Some(rows) = &mut self.rows else { return };
        let mut found = Vec::new();
        let is_last = read(rows, &mut found).is_err() || rows.is_stopped();
        self.count += found.len() as u64;
        if is_last {
            self.rows = None;
        }
    }
}

/// Makes sure that each row of an export is a plant, with a greater id than the one before it.
///
/// ```
/// use plant_http::{ExportCheck, TransferFormat};
///
/// let mut check = ExportCheck::new(TransferFormat::Csv);
/// check.read(b"id,name,tag\n1,Rosa,\n3,Sa")?;
/// check.read(b"lix,\n")?;
/// check.finish()?;
/// assert_eq!((check.plants(), check.last()), (2, Some(3.into())));
///
/// assert!(check.read(b"2,Acer,\n").is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct ExportCheck {
    rows: Rows,
    /// Those that are not checked yet.
    found: Vec<Row>,
    ends_with_line: bool,
    plants: u64,
    last: Option<PlantId>,
}

impl ExportCheck {
    /// A check that has read nothing yet.
    #[must_use]
    pub fn new(format: TransferFormat) -> Self {
        let rows = Rows::new(format.into());
        Self { rows, found: Vec::new(), ends_with_line: true, plants: 0, last: None }
    }

    /// Reads the next part of the export.
    ///
    /// # Errors
    ///
    /// When a row is no plant, or its id is not greater than the one before.
    pub fn read(&mut self, part: &[u8]) -> anyhow::Result<()> {
        if let Some(byte) = part.last() {
            self.ends_with_line = *byte == b'\n';
        }
        let read = self.rows.read(part, &mut self.found);
        self.check(read)
    }

    /// The export is at its end.
    ///
    /// # Errors
    ///
    /// As those of [`read`](Self::read), and when it ends within a row.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        ensure!(self.ends_with_line, "it ends within a row, after {} whole ones", self.plants);
        let read = self.rows.finish(&mut self.found);
        self.check(read)
    }

    /// How many plants there are in what was read.
    #[must_use]
    pub const fn plants(&self) -> u64 {
        self.plants
    }

    /// The id of the last of them.
    #[must_use]
    pub const fn last(&self) -> Option<PlantId> {
        self.last
    }

    fn check(&mut self, read: Result<(), Failure>) -> anyhow::Result<()> {
        for Row { line, plant } in self.found.drain(..) {
            let plant = plant.map_err(|failure| anyhow!("line {line} is no plant: {failure}"))?;
            let id = plant.id();
            if let Some(last) = self.last.replace(id) {
                ensure!(last < id, "line {line} has the plant {id} behind the plant {last}");
            }
            self.plants += 1;
        }
        read.map_err(|failure| anyhow!("{failure}"))
    }
}

fn too_large() -> Failure {
    Failure::new(
        ErrorNumber::BodyTooLarge,
        format!("the row is too large; it may have {ROW_MAX_BYTES} bytes"),
    )
}

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
    fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) {
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

    fn finish(&mut self, rows: &mut Vec<Row>) {
        self.end_line(rows);
    }

    fn end_line(&mut self, rows: &mut Vec<Row>) {
        self.lines += 1;
        let row = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if self.is_too_large || row.len() > ROW_MAX_BYTES {
            rows.push(Row { line: self.lines, plant: Err(too_large()) });
        } else if !row.trim_ascii().is_empty() {
            rows.push(Row { line: self.lines, plant: plant_of_json(row) });
        }
        self.line.clear();
        self.is_too_large = false;
    }
}

fn plant_of_json(text: &[u8]) -> Result<NewPlant, Failure> {
    Ok(NewPlant::try_from(read_new_plant(text)?)?)
}

/// The elements of a JSON array. Brackets and quotes tell where an element ends; serde_json reads what is in it.
///
/// Where the syntax is broken, the end of an element could be missed, and text within a string be taken for a plant.
/// So the first syntax error is reported as a failed row, and nothing behind it is read.
#[derive(Default)]
pub(crate) struct JsonArrayRows {
    lines: Lines,
    place: ArrayPlace,
    /// The element that has not ended yet.
    element: Vec<u8>,
    /// The line that the element begins in.
    element_line: u64,
    is_stopped: bool,
}

/// Where in the array the reader is.
#[derive(Clone, Copy, Default, PartialEq)]
enum ArrayPlace {
    #[default]
    BeforeArray,
    /// Behind the opening bracket.
    Start,
    /// Within an element, and so many brackets and braces.
    Element {
        depth: usize,
        string: JsonString,
    },
    BehindElement,
    BehindComma,
    BehindArray,
}

#[derive(Clone, Copy, PartialEq)]
enum JsonString {
    Outside,
    Inside,
    /// Behind a backslash.
    Escape,
}

impl JsonArrayRows {
    fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) -> Result<(), Failure> {
        for byte in part {
            if self.is_stopped {
                break;
            }
            self.read_byte(*byte, rows)?;
            self.lines.read(*byte);
        }
        Ok(())
    }

    fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
        match self.place {
            _ if self.is_stopped => {}
            ArrayPlace::BehindArray => {}
            ArrayPlace::BeforeArray => return Err(not_an_array()),
            ArrayPlace::Element { .. } => self.stop(self.element_line, ENDS_EARLY, rows),
            _ => self.stop_here(ENDS_EARLY, rows),
        }
        Ok(())
    }

    /// The line that the next byte is in.
    fn line(&self) -> u64 {
        self.lines.ended + 1
    }

    fn read_byte(&mut self, byte: u8, rows: &mut Vec<Row>) -> Result<(), Failure> {
        if let ArrayPlace::Element { depth, string } = self.place {
            // What is neither an object nor an array nor a string has no end of its own.
            let is_behind = depth == 0
                && string == JsonString::Outside
                && matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b']');
            if !is_behind {
                self.read_byte_of_element(byte, depth, string, rows);
                return Ok(());
            }
            self.end_element(rows);
        }
        match (self.place, byte) {
            _ if self.is_stopped => {}
            (_, b' ' | b'\t' | b'\n' | b'\r') => {}
            (ArrayPlace::BeforeArray, b'[') => self.place = ArrayPlace::Start,
            (ArrayPlace::BeforeArray, _) => return Err(not_an_array()),
            (ArrayPlace::Start | ArrayPlace::BehindElement, b']') => {
                self.place = ArrayPlace::BehindArray
            }
            (ArrayPlace::BehindElement, b',') => self.place = ArrayPlace::BehindComma,
            (ArrayPlace::BehindElement, _) => self.stop_here(MISSING_COMMA, rows),
            (ArrayPlace::BehindComma, b']') => self.stop_here(COMMA_BEFORE_END, rows),
            (ArrayPlace::Start | ArrayPlace::BehindComma, b',') => {
                self.stop_here(COMMA_FOR_ELEMENT, rows);
            }
            (ArrayPlace::BehindArray, _) => self.stop_here(BEHIND_ARRAY, rows),
            (ArrayPlace::Start | ArrayPlace::BehindComma | ArrayPlace::Element { .. }, _) => {
                self.element_line = self.line();
                self.read_byte_of_element(byte, 0, JsonString::Outside, rows);
            }
        }
        Ok(())
    }

    fn read_byte_of_element(
        &mut self,
        byte: u8,
        depth: usize,
        string: JsonString,
        rows: &mut Vec<Row>,
    ) {
        if self.element.len() == ROW_MAX_BYTES {
            self.is_stopped = true;
            let failure = too_large().and_say(&format!("{IMPORT_STOPS}, {END_MAY_BE_MISSED}"));
            rows.push(Row { line: self.element_line, plant: Err(failure) });
            return;
        }
        self.element.push(byte);
        let (depth, string) = match (string, byte) {
            (JsonString::Escape, _) => (depth, JsonString::Inside),
            (JsonString::Inside, b'\\') => (depth, JsonString::Escape),
            (JsonString::Inside, b'"') => (depth, JsonString::Outside),
            (JsonString::Outside, b'"') => (depth, JsonString::Inside),
            (JsonString::Outside, b'{' | b'[') => (depth + 1, string),
            (JsonString::Outside, b'}' | b']') => (depth.saturating_sub(1), string),
            _ => (depth, string),
        };
        self.place = ArrayPlace::Element { depth, string };
        if depth == 0 && string == JsonString::Outside && matches!(byte, b'}' | b']') {
            self.end_element(rows);
        }
    }

    fn end_element(&mut self, rows: &mut Vec<Row>) {
        self.place = ArrayPlace::BehindElement;
        let mut plant = plant_of_json(&self.element);
        // Only the end of what is JSON is certain.
        if plant.is_err() && serde_json::from_slice::<IgnoredAny>(&self.element).is_err() {
            self.is_stopped = true;
            plant = plant.map_err(|failure| failure.and_say(IMPORT_STOPS));
        }
        rows.push(Row { line: self.element_line, plant });
        self.element.clear();
    }

    /// Stops in the line that the next byte is in.
    fn stop_here(&mut self, problem: &str, rows: &mut Vec<Row>) {
        self.stop(self.line(), problem, rows);
    }

    fn stop(&mut self, line: u64, problem: &str, rows: &mut Vec<Row>) {
        self.is_stopped = true;
        let failure = Failure::new(ErrorNumber::NotJson, problem).and_say(IMPORT_STOPS);
        rows.push(Row { line, plant: Err(failure) });
    }
}

const MISSING_COMMA: &str = "a comma is missing between two elements";
const COMMA_BEFORE_END: &str = "a comma stands before the end of the array; remove it";
const COMMA_FOR_ELEMENT: &str = "a comma stands where an element is expected; remove it";
const BEHIND_ARRAY: &str = "something stands behind the end of the array; remove it";
const ENDS_EARLY: &str =
    "the body ends before the array does; see that it is whole, and ends with ]";

/// What is said of a row behind which nothing is read.
const IMPORT_STOPS: &str = "the import stops here, and what was taken before stays";

const END_MAY_BE_MISSED: &str = "for the end of this row may be missed where a quote is open";

pub(crate) fn not_an_array() -> Failure {
    Failure::new(
        ErrorNumber::WrongShape,
        "a JSON body of an import must be an array of plants, such as [{\"id\":1,\"name\":\"Rosa\"}]; for one plant \
         in each line, send application/x-ndjson",
    )
}

/// A record in each row, behind a header that names the columns. A quoted cell, and so a record, may have several
/// lines.
pub(crate) struct CsvRows {
    reader: csv_core::Reader,
    /// The first bytes of the body, until it can be told whether they are a byte order mark.
    start: Option<Vec<u8>>,
    columns: Option<Columns>,
    is_stopped: bool,
    lines: Lines,
    record: Record,
}

/// Which cell of a record is which.
#[derive(Clone, Copy)]
struct Columns {
    id: usize,
    name: usize,
    tag: Option<usize>,
    count: usize,
}

impl Columns {
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

/// Counts lines. A line feed, a carriage return, or both in this order end one.
#[derive(Default)]
struct Lines {
    ended: u64,
    has_return: bool,
}

impl Lines {
    fn read(&mut self, byte: u8) {
        let is_second = byte == b'\n' && self.has_return;
        self.has_return = byte == b'\r';
        self.ended += u64::from(matches!(byte, b'\n' | b'\r') && !is_second);
    }
}

/// A record as far as it has been read.
struct Record {
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

impl Record {
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

    fn columns(&self) -> Result<Columns, Failure> {
        let cells = self.cells().map_err(|failure| wrong_header(&failure.error().message))?;
        Columns::read(&cells[..self.cells])
    }

    fn plant(&self, columns: Columns) -> Result<NewPlant, Failure> {
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
        Ok(NewPlant::try_from(UncheckedNewPlant { id: id.get(), name, tag })?)
    }
}

impl CsvRows {
    fn new() -> Self {
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
            record: Record {
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

    fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) -> Result<(), Failure> {
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

    fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
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
            let Record { bytes, text, text_bytes, ends, cells, .. } = &mut self.record;
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

#[cfg(test)]
mod tests {
    use super::*;

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
