//! A JSON array of plants.

use serde::de::IgnoredAny;

use crate::errors::{ErrorNumber, Failure};
use crate::extract::json;
use crate::limits::ROW_MAX_BYTES;

use super::row::{END_MAY_BE_MISSED, IMPORT_STOPS, Lines, Row, too_large};

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
    pub(super) is_stopped: bool,
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
    pub(super) fn read(&mut self, part: &[u8], rows: &mut Vec<Row>) -> Result<(), Failure> {
        for byte in part {
            if self.is_stopped {
                break;
            }
            self.read_byte(*byte, rows)?;
            self.lines.read(*byte);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), Failure> {
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
        let mut plant = json::read(&self.element);
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

pub(crate) fn not_an_array() -> Failure {
    Failure::new(
        ErrorNumber::WrongShape,
        "a JSON body of an import must be an array of plants, such as [{\"id\":1,\"name\":\"Rosa\"}]; for one plant \
         in each line, send application/x-ndjson",
    )
}
