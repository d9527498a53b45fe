//! Tables in Markdown that can be read as they are.

use std::fmt::{self, Display, Formatter};

use super::spread::Spread;

/// Rows below a head; all but the first columns are numbers.
#[derive(Debug)]
pub(super) struct Table {
    head: Vec<String>,
    text_columns: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows, whose first `text_columns` columns are texts.
    pub(super) fn new(head: &[&str], text_columns: usize) -> Self {
        Self {
            head: head.iter().copied().map(str::to_owned).collect(),
            text_columns,
            rows: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Appends a row, which has a cell for each column.
    pub(super) fn push(&mut self, row: impl Into<Vec<String>>) {
        self.rows.push(row.into());
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widths = cells.map(|cell| cell.chars().count());
            widths.chain([self.head[column].chars().count()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut write_row = |cells: &mut dyn Iterator<Item = String>| {
            formatter.write_str("|")?;
            for (column, cell) in cells.enumerate() {
                let width = widths[column];
                if column < self.text_columns {
                    write!(formatter, " {cell:<width$} |")?;
                } else {
                    write!(formatter, " {cell:>width$} |")?;
                }
            }
            formatter.write_str("\n")
        };
        write_row(&mut self.head.iter().cloned())?;
        write_row(&mut widths.iter().enumerate().map(|(column, width)| {
            if column < self.text_columns {
                "-".repeat(*width)
            } else {
                "-".repeat(width.saturating_sub(1)) + ":"
            }
        }))?;
        for row in &self.rows {
            write_row(&mut row.iter().cloned())?;
        }
        Ok(())
    }
}

/// A value with its ends behind it.
pub(super) fn with_ends(spread: &Spread, format: impl Fn(f64) -> String) -> String {
    let Spread { median, min, max } = spread;
    format!("{} ({} to {})", format(*median), format(*min), format(*max))
}

/// A whole number, with a comma between thousands.
pub(super) fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for (index, digit) in digits[first..].chars().enumerate() {
        if index % 3 == 0 && !text.is_empty() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds, as milliseconds.
pub(super) fn milliseconds(microseconds: f64) -> String {
    format!("{:.3}", microseconds / 1_000.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The lines of a text, without what only makes columns wide.
    pub(in crate::bench) fn narrow_lines(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_end_together() {
        let mut table = Table::new(&["name", "per second"], 1);
        assert!(table.is_empty());
        table.push(["plantd – all".to_owned(), "7".to_owned()]);
        let expected = "| name         | per second |\n\
                        | ------------ | ---------: |\n\
                        | plantd – all |          7 |\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn thousands_are_parted() {
        for (value, text) in [
            (0.4, "0"),
            (999.0, "999"),
            (999.6, "1,000"),
            (1_000.0, "1,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(whole(value), text);
        }
    }

    #[test]
    fn a_spread_shows_its_median_first() {
        let spread = Spread { median: 2_500.0, min: 1_000.0, max: 3_000.0 };
        assert_eq!(with_ends(&spread, milliseconds), "2.500 (1.000 to 3.000)");
    }
}
