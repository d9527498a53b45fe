//! A JSON array of plants.

use plant_domain::Error;
use serde::de::IgnoredAny;

use crate::errors::{ErrorNumber, Failure};
use crate::extract::json;
use crate::limits::ROW_MAX_BYTES;

use super::row::{IMPORT_STOPS, Lines, ReadRow, RowReader, too_large_to_go_on};

/// Reads the elements of a JSON array. Brackets and quotes tell where an element ends; serde_json reads its content.
///
/// After broken syntax, the end of an element could be missed, and text within a string be taken for a plant. So the
/// first syntax error is reported as a failed row, and nothing after it is read.
#[derive(Default)]
pub(super) struct JsonArrayRows {
    lines: Lines,
    place: Place,
    /// The element that has not ended yet.
    element: Vec<u8>,
    /// The line in which the element begins.
    element_line: u64,
    /// How many brackets and braces are open in the element.
    depth: usize,
    string: JsonString,
    is_stopped: bool,
}

/// Where in the array the next byte is.
#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    #[default]
    BeforeArray,
    ArrayStart,
    Element,
    AfterElement,
    AfterComma,
    AfterArray,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum JsonString {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
}

impl RowReader for JsonArrayRows {
    fn read(&mut self, part: &[u8], rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        for byte in part {
            if self.is_stopped {
                break;
            }
            self.read_byte(*byte, rows)?;
            self.lines.read(*byte);
        }
        Ok(())
    }

    fn finish(&mut self, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        let ends_early = "the body ends before the array does; send all of it, up to the last ]";
        match self.place {
            _ if self.is_stopped => {}
            Place::AfterArray => {}
            Place::BeforeArray => return Err(not_an_array().into()),
            Place::Element => self.stop(self.element_line, ends_early, rows),
            _ => self.stop(self.lines.current(), ends_early, rows),
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

impl JsonArrayRows {
    fn read_byte(&mut self, byte: u8, rows: &mut Vec<ReadRow>) -> Result<(), Error> {
        if self.place == Place::Element {
            // A number, `true`, `false` or `null` ends before the next byte that is not part of it.
            let is_after = self.depth == 0
                && self.string == JsonString::Outside
                && matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b']');
            if !is_after {
                self.read_byte_of_element(byte, rows);
                return Ok(());
            }
            self.end_element(rows);
        }
        if self.is_stopped {
            return Ok(());
        }
        let next = match (self.place, byte) {
            (place, b' ' | b'\t' | b'\n' | b'\r') => Ok(place),
            (Place::BeforeArray, b'[') => Ok(Place::ArrayStart),
            (Place::BeforeArray, _) => return Err(not_an_array().into()),
            (Place::ArrayStart | Place::AfterElement, b']') => Ok(Place::AfterArray),
            (Place::AfterElement, b',') => Ok(Place::AfterComma),
            (Place::AfterElement, _) => Err("a comma is missing between two elements"),
            (Place::AfterComma, b']') => Err("a comma precedes the end of the array; remove it"),
            (Place::ArrayStart | Place::AfterComma, b',') => {
                Err("a comma is where an element is expected; remove it")
            }
            (Place::AfterArray, _) => Err("something follows the end of the array; remove it"),
            (Place::ArrayStart | Place::AfterComma | Place::Element, _) => Ok(Place::Element),
        };
        match next {
            Ok(Place::Element) => {
                self.place = Place::Element;
                self.element_line = self.lines.current();
                (self.depth, self.string) = (0, JsonString::Outside);
                self.read_byte_of_element(byte, rows);
            }
            Ok(place) => self.place = place,
            Err(problem) => self.stop(self.lines.current(), problem, rows),
        }
        Ok(())
    }

    fn read_byte_of_element(&mut self, byte: u8, rows: &mut Vec<ReadRow>) {
        if self.element.len() == ROW_MAX_BYTES {
            self.is_stopped = true;
            rows.push((self.element_line, Err(too_large_to_go_on().into())));
            return;
        }
        self.element.push(byte);
        match (self.string, byte) {
            (JsonString::AfterBackslash, _) => self.string = JsonString::Inside,
            (JsonString::Inside, b'\\') => self.string = JsonString::AfterBackslash,
            (JsonString::Inside, b'"') => self.string = JsonString::Outside,
            (JsonString::Outside, b'"') => self.string = JsonString::Inside,
            (JsonString::Outside, b'{' | b'[') => self.depth += 1,
            (JsonString::Outside, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.end_element(rows);
                }
            }
            _ => {}
        }
    }

    fn end_element(&mut self, rows: &mut Vec<ReadRow>) {
        self.place = Place::AfterElement;
        let mut plant = json::read(&self.element);
        // The end of an element is certain only if the element is JSON.
        if plant.is_err() && serde_json::from_slice::<IgnoredAny>(&self.element).is_err() {
            self.is_stopped = true;
            plant = plant.map_err(|failure| failure.and_say(IMPORT_STOPS));
        }
        rows.push((self.element_line, plant.map_err(Error::from)));
        self.element.clear();
    }

    fn stop(&mut self, line: u64, problem: &str, rows: &mut Vec<ReadRow>) {
        self.is_stopped = true;
        let failure = Failure::new(ErrorNumber::NotJson, problem).and_say(IMPORT_STOPS);
        rows.push((line, Err(failure.into())));
    }
}

fn not_an_array() -> Failure {
    Failure::new(
        ErrorNumber::WrongShape,
        "a JSON body of an import must be an array of plants, such as [{\"id\":1,\"name\":\"Rosa\"}]; for one plant \
         in each line, send application/x-ndjson",
    )
}
