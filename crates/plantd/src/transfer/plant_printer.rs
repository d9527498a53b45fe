//! Prints plants on standard output: as a table for a person at a terminal, as NDJSON for anything else.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use plant_domain::{NewPlant, NewPlantRef, PlantRef};
use plant_http::transfer::TransferFormat;
use unicode_width::UnicodeWidthStr as _;

use crate::client::remote::printable;
use crate::exit::Stop;
use crate::print::CANNOT_PRINT;
use crate::transfer::output::Output;

/// The widest that the column of names becomes. A longer name moves only the tag of its own plant.
const NAMES_MAX_WIDTH: usize = 60;

pub(super) struct PlantPrinter {
    output: Output,
    table: Option<Table>,
    is_at_terminal: bool,
}

impl PlantPrinter {
    /// Prints a table, unless the user wants JSON or there is no terminal.
    pub(super) fn open(is_json: bool) -> Result<Self, Stop> {
        let output = Output::standard().context(CANNOT_PRINT)?;
        let is_at_terminal = io::stdout().is_terminal();
        let table = (is_at_terminal && !is_json).then(Table::default);
        Ok(Self { output, table, is_at_terminal })
    }

    pub(super) const fn is_at_terminal(&self) -> bool {
        self.is_at_terminal
    }

    /// Prints plants, below those before.
    pub(super) fn print(&mut self, plants: &[NewPlant]) -> Result<(), Stop> {
        let mut text = Vec::new();
        let plants = plants.iter().map(NewPlant::borrowed);
        match &mut self.table {
            Some(table) => text = table.rows(plants.collect()).into_bytes(),
            None => TransferFormat::NdJson.write_rows(plants, &mut text)?,
        }
        let printed = self.output.write_all(&text).and_then(|()| self.output.flush());
        Ok(printed.context(CANNOT_PRINT)?)
    }
}

/// The columns of a table whose rows come in parts. The columns never become narrower, so that a part lines up with those
/// before unless it holds a wider text.
#[derive(Default)]
struct Table {
    has_header: bool,
    id_width: usize,
    name_width: usize,
}

impl Table {
    /// The rows of these plants, below a header if they are the first.
    fn rows(&mut self, plants: Vec<NewPlantRef<'_>>) -> String {
        let plants = plants.into_iter();
        let rows = plants.map(|NewPlantRef { id, plant: PlantRef { name, tag } }| {
            [id.to_string(), printable(name), printable(tag.unwrap_or_default())]
        });
        let mut rows: Vec<[String; 3]> = rows.collect();
        if !rows.is_empty() && !self.has_header {
            rows.insert(0, ["ID", "NAME", "TAG"].map(str::to_owned));
            self.has_header = true;
        }
        for [id, name, _] in &rows {
            self.id_width = self.id_width.max(id.len());
            self.name_width = self.name_width.max(name.width().min(NAMES_MAX_WIDTH));
        }
        rows.iter().map(|row| self.row(row)).collect()
    }

    fn row(&self, [id, name, tag]: &[String; 3]) -> String {
        // The standard library pads by characters, of which some take two columns and some none.
        let padding = " ".repeat(self.name_width.saturating_sub(name.width()));
        let row = format!("{id:>0$}  {name}{padding}  {tag}", self.id_width);
        row.trim_end_matches(' ').to_owned() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(id: i64, name: &str, tag: Option<&str>) -> NewPlant {
        NewPlant::new(id, name, tag.map(str::to_owned)).expect("a valid plant")
    }

    fn rows(table: &mut Table, plants: &[NewPlant]) -> String {
        table.rows(plants.iter().map(NewPlant::borrowed).collect())
    }

    #[test]
    fn wide_and_combining_characters_keep_the_tags_in_one_column() {
        let plants = [
            plant(1, "Rosa", Some("A")),
            plant(-20, "植物", Some("B")),
            plant(3, "Rose\u{301}\u{200b}", Some("C")),
            plant(4, "x", None),
        ];
        let table = rows(&mut Table::default(), &plants);
        let expected =
            " ID  NAME  TAG\n  1  Rosa  A\n-20  植物  B\n  3  Rose\u{301}\u{200b}  C\n  4  x\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn a_later_part_has_no_header_and_keeps_the_columns() {
        let mut table = Table::default();
        assert_eq!(rows(&mut table, &[]), "");
        let first = rows(&mut table, &[plant(100, "Salix alba", None)]);
        assert_eq!(first, " ID  NAME        TAG\n100  Salix alba\n");
        assert_eq!(rows(&mut table, &[plant(1, "Rosa", Some("A"))]), "  1  Rosa        A\n");
    }

    #[test]
    fn a_very_long_name_moves_only_its_own_tag() {
        let long = "x".repeat(200);
        let plants = [plant(1, &long, Some("A")), plant(2, "Rosa", Some("B"))];
        let table = rows(&mut Table::default(), &plants);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], format!(" 1  {long}  A"));
        assert_eq!(lines[2].len(), " 2  ".len() + NAMES_MAX_WIDTH + "  B".len());
    }

    #[test]
    fn no_text_reverses_or_breaks_its_line() {
        let plants = [plant(1, "a\u{202e}b\u{2028}c", Some("\u{2066}d"))];
        let table = rows(&mut Table::default(), &plants);
        assert!(table.ends_with(" 1  a\u{fffd}b\u{fffd}c  \u{fffd}d\n"), "{table:?}");
    }
}
