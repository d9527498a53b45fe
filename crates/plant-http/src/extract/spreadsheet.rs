//! CSV that people open in a spreadsheet program.
//!
//! Such a program takes a cell for a formula if it begins in a certain way, and a formula may send what the sheet holds to
//! strangers, or start programs. So an apostrophe stands before such a cell, as OWASP's "CSV Injection" advises, and the text is
//! no longer the one of the plant. A byte order mark says that the file is UTF-8.

use std::io::{self, Write};
use std::iter;

use csv::{QuoteStyle, Terminator, WriterBuilder};
use plant_domain::NewPlantRef;

/// What a formula begins with: OWASP's list without the control characters, which no plant has, and with the full-width forms
/// that programs in East Asia take too.
const FORMULA_BEGINNINGS: [char; 8] =
    ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// In locales that separate cells with semicolons, a spreadsheet program splits at each of them, also within quotes.
const OTHER_SEPARATOR: char = ';';

/// Writes each plant as a row. An id is a number, and stays as it is.
pub(super) fn write_rows<'a>(
    plants: impl IntoIterator<Item = NewPlantRef<'a>>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut builder = WriterBuilder::new();
    builder.terminator(Terminator::CRLF).quote_style(QuoteStyle::NonNumeric);
    let mut writer = builder.from_writer(output);
    for NewPlantRef { id, plant } in plants {
        let texts = plant.texts().map(|text| guarded(text.unwrap_or_default()));
        writer.write_record(iter::once(id.to_string()).chain(texts))?;
    }
    writer.flush()
}

/// The text with an apostrophe before all that could be taken for a formula.
fn guarded(text: &str) -> String {
    let cells = text.split(OTHER_SEPARATOR).map(|cell| {
        // A quote behind the separator may begin a quoted cell there.
        let text = cell.trim_start_matches(|letter: char| letter == '"' || letter.is_whitespace());
        let is_formula = text.starts_with(FORMULA_BEGINNINGS);
        if is_formula { format!("'{cell}") } else { cell.to_owned() }
    });
    cells.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_formula_has_an_apostrophe_before_it_and_nothing_else_changes() {
        for (text, shown) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            (" =1", "' =1"),
            ("Rosa;=1;@x", "Rosa;'=1;'@x"),
            ("Rosa; -x", "Rosa;' -x"),
            ("Rosa;\"=1;x", "Rosa;'\"=1;x"),
            ("\" =1", "'\" =1"),
        ] {
            assert_eq!(guarded(text), shown);
        }
        for text in ["", "Rosa", "Rosa = 1", "a-b", "'x", "Rosa; x", "1,=2", "\u{2212}1"] {
            assert_eq!(guarded(text), text);
        }
    }
}
