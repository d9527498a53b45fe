//! A document of this repository: its parts, and their code blocks and tables.

use std::{fmt, fs};

use crate::folder::repository;

/// A document in Markdown, split at its second-level headings.
#[derive(Debug)]
pub struct Document {
    parts: Vec<Part>,
}

/// A heading and the text under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    heading: String,
    text: String,
}

impl Document {
    /// The document with this path in the repository.
    #[track_caller]
    pub fn read(path: &str) -> Self {
        let text = fs::read_to_string(repository(path));
        Self::of(&text.unwrap_or_else(|cause| panic!("{path}: {cause}")))
    }

    fn of(text: &str) -> Self {
        // The text before the first heading belongs to the title.
        let parts = text.split("\n## ").map(|part| {
            let (heading, text) = part.split_once('\n').unwrap_or((part, ""));
            Part { heading: heading.to_owned(), text: text.to_owned() }
        });
        Self { parts: parts.collect() }
    }

    /// All parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The part under this heading.
    #[track_caller]
    pub fn part(&self, heading: &str) -> &Part {
        let part = self.parts.iter().find(|part| part.heading == heading);
        part.unwrap_or_else(|| panic!("there is no part `{heading}`"))
    }

    /// The same document, with this text under this heading.
    #[track_caller]
    pub fn with_part(mut self, heading: &str, text: String) -> Self {
        let part = self.parts.iter_mut().find(|part| part.heading == heading);
        part.unwrap_or_else(|| panic!("there is no part `{heading}`")).text = text;
        self
    }
}

/// The text of the document.
impl fmt::Display for Document {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.iter().map(|Part { heading, text }| format!("{heading}\n{text}"));
        formatter.write_str(&parts.collect::<Vec<_>>().join("\n## "))
    }
}

impl Part {
    /// Its heading.
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// The text under the heading.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The code blocks in a language.
    #[track_caller]
    pub fn blocks(&self, language: &str) -> Vec<String> {
        let opening = format!("```{language}\n");
        let mut blocks = Vec::new();
        let mut rest = self.text.as_str();
        while let Some((_, behind)) = rest.split_once(&opening) {
            let (block, behind) = behind.split_once("```").expect("a block ends");
            blocks.push(block.to_owned());
            rest = behind;
        }
        blocks
    }

    /// The cells of its only table, without the header row.
    #[track_caller]
    pub fn table(&self) -> Vec<Vec<String>> {
        let mut tables = Vec::new();
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("|---") {
                tables.push(lines.by_ref().map_while(cells).collect());
            }
        }
        match <[Vec<Vec<String>>; 1]>::try_from(tables) {
            Ok([table]) => table,
            Err(tables) => panic!("`{}` has {} tables", self.heading, tables.len()),
        }
    }

    /// The text with these rows in its table.
    pub fn with_table(&self, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let (before, table) = self.text.split_once("\n|---").expect("there is a table");
        let (rule, _) = table.split_once('\n').expect("a line ends");
        let (_, after) = table.split_once("|\n\n").expect("an empty line ends the table");
        let rows = rows.into_iter().map(|row| format!("| {} |\n", row.join(" | ")));
        format!("{before}\n|---{rule}\n{}\n{after}", rows.collect::<String>())
    }
}

fn cells(line: &str) -> Option<Vec<String>> {
    let cells = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(cells.split('|').map(|cell| cell.trim().to_owned()).collect())
}
