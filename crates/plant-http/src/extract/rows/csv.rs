//! CSV (RFC 4180): a header that names the columns, then a plant in each record.
//!
//! The `csv` crate reads from something that blocks, takes text after a closing quote as part of the cell, and does not
//! report a quote that is open at the end. So this module implements the few states of the format; a fuzz target
//! compares the records with those of the `csv` crate.

use plant_domain::{COLUMNS, Error, MEMBERS, NewPlant, OPTIONAL_MEMBERS, PlantId, PlantRef};

use crate::errors::{ErrorNumber, Failure};
use crate::limits::ROW_MAX_BYTES;

use super::row::{Lines, ReadRow, RowReader, too_large_to_go_on};

/// How many cells of a record are kept: one more than there may be, to notice one too many.
const CELLS_KEPT: usize = COLUMNS.len() + 1;

/// How much of the name of a wrong column a message shows, in characters.
const COLUMN_SHOWN_MAX_CHARACTERS: usize = 64;

#[derive(Default)]
pub(super) struct CsvRows {
    /// The names of the columns in their order; `None` before the header has ended.
    columns: Option<Vec<&'static str>>,
    is_stopped: bool,
    lines: Lines,
    /// The line in which the record begins; `None` between records.
    record_line: Option<u64>,
    record: Record,
}

/// A record as far as it has been read.
#[derive(Default)]
struct Record {
    /// How many bytes it has in the body.
    bytes: usize,
    place: Place,
    /// A closing quote has text after it.
    has_text_after_quote: bool,
    cells: Vec<Vec<u8>>,
    cell: Vec<u8>,
}

/// Where in a record the next byte is.
#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    #[default]
    CellStart,
    Unquoted,
    Quoted,
    /// After a quote within a quoted cell: the cell's end, or the first half of a doubled quote.
    AfterQuote,
}

impl Record {
    /// Reads a byte that does not end the record.
    fn read(&mut self, byte: u8) {
        self.bytes += 1;
        match (self.place, byte) {
            (Place::Quoted, b'"') => self.place = Place::AfterQuote,
            (Place::CellStart, b'"') => self.place = Place::Quoted,
            (Place::AfterQuote, b'"') => {
                self.cell.push(byte);
                self.place = Place::Quoted;
            }
            (Place::Quoted, _) => self.cell.push(byte),
            (_, b',') => self.end_cell(),
            (place, _) => {
                self.has_text_after_quote |= place == Place::AfterQuote;
                self.cell.push(byte);
                self.place = Place::Unquoted;
            }
        }
    }

    fn end_cell(&mut self) {
        self.place = Place::CellStart;
        let cell = std::mem::take(&mut self.cell);
        if self.cells.len() < CELLS_KEPT {
            self.cells.push(cell);
        }
    }

    /// The texts of the cells that are kept.
    fn cells(&self) -> Result<Vec<&str>, Failure> {
        if self.has_text_after_quote {
            return Err(Failure::new(
                ErrorNumber::WrongShape,
                "text follows a closing quote; double the quotes within a quoted cell",
            ));
        }
        let not_utf_8 = |_| Failure::new(ErrorNumber::NotJson, "the row is not UTF-8; convert it");
        self.cells.iter().map(|cell| std::str::from_utf8(cell).map_err(not_utf_8)).collect()
    }

    fn columns(&self) -> Result<Vec<&'static str>, Failure> {
        let header = self.cells().map_err(|failure| wrong_header(&failure.error().message))?;
        let mut columns = Vec::new();
        let mut problems = Vec::new();
        for cell in header {
            let shown: String = cell.chars().take(COLUMN_SHOWN_MAX_CHARACTERS).collect();
            match COLUMNS.into_iter().find(|column| *column == cell) {
                None => problems.push(format!("{shown:?} is unknown")),
                Some(column) if columns.contains(&column) => {
                    problems.push(format!("{shown:?} is repeated"));
                }
                Some(column) => columns.push(column),
            }
        }
        let needed = COLUMNS.into_iter().filter(|column| !OPTIONAL_MEMBERS.contains(column));
        let missing = needed.filter(|column| !columns.contains(column));
        problems.extend(missing.map(|column| format!("{column:?} is missing")));
        if problems.is_empty() { Ok(columns) } else { Err(wrong_header(&problems.join(", "))) }
    }

    fn plant(&self, columns: &[&str]) -> Result<NewPlant, Failure> {
        let cells = self.cells()?;
        if cells.len() != columns.len() {
            return Err(Failure::new(
                ErrorNumber::WrongShape,
                format!("a row must have {} cells: {}", columns.len(), columns.join(",")),
            ));
        }
        let cell = |column: &str| {
            let at = columns.iter().position(|it| *it == column);
            at.map_or("", |at| cells[at])
        };
        let id: PlantId = cell("id")
            .parse()
            .map_err(|refusal| Failure::new(ErrorNumber::WrongShape, format!("id: {refusal}")))?;
        let texts = MEMBERS.map(|member| Some(cell(member)).filter(|it| !it.is_empty()));
        Ok(PlantRef::of_texts(texts).to_plant()?.with_id(id))
    }
}

impl RowReader for CsvRows {
    fn read(&mut self, part: &[u8], rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        if self.is_stopped {
            return Ok(());
        }
        for byte in part {
            let is_line_end = matches!(byte, b'\n' | b'\r') && self.record.place != Place::Quoted;
            if !is_line_end {
                self.record_line.get_or_insert(self.lines.current());
                self.record.read(*byte);
                if self.record.bytes > ROW_MAX_BYTES {
                    self.is_stopped = true;
                    return self.fail(too_large_to_go_on(), rows);
                }
            } else if let Some(line) = self.record_line.take() {
                self.record.end_cell();
                let record = std::mem::take(&mut self.record);
                match &self.columns {
                    None => self.columns = Some(record.columns()?),
                    Some(columns) => {
                        let plant = record.plant(columns);
                        rows.push((line, plant.map_err(Error::from)));
                    }
                }
            }
            self.lines.read(*byte);
        }
        Ok(())
    }

    fn finish(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        // A line end ends the last record, unless it is within quotes.
        self.read(b"\n", rows)?;
        if self.record_line.is_some() && !self.is_stopped {
            let message = "a quote is open at the end; close it, and double those within";
            self.fail(Failure::new(ErrorNumber::WrongShape, message), rows)?;
        }
        match self.columns {
            Some(_) => Ok(()),
            None => Err(wrong_header("there is none").into()),
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

impl CsvRows {
    /// Ends a record whose end cannot be found.
    fn fail(&mut self, failure: Failure, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        if self.columns.is_none() {
            return Err(wrong_header(&failure.error().message).into());
        }
        let line = self.record_line.take().unwrap_or(self.lines.current());
        rows.push((line, Err(failure.into())));
        Ok(())
    }
}

pub(crate) fn wrong_header(problem: &str) -> Failure {
    Failure::new(
        ErrorNumber::WrongShape,
        format!(
            "the first line of a CSV body must name its columns: {}, in any order, where {} may be left out; \
             {problem}",
            COLUMNS.join(","),
            OPTIONAL_MEMBERS.join(" or ")
        ),
    )
}
