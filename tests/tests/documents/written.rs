//! The parts of documents that the program writes.

use std::{env, fs};

use plantd_tests::{Document, Part, repository};

/// The variable that asks for new parts instead of a comparison.
const WRITE: &str = "PLANTD_WRITE_REFERENCE";

/// Compares parts of a document with what the program says, or writes them. `text` makes the text of a part.
#[track_caller]
pub(crate) fn assert_written(path: &str, headings: &[&str], text: impl Fn(&Part) -> String) {
    let mut document = Document::read(path);
    let stored = document.to_string();
    for heading in headings {
        let text = text(document.part(heading));
        document = document.with_part(heading, text);
    }
    let written = document.to_string();
    if env::var_os(WRITE).is_some() {
        fs::write(repository(path), written).expect("it is written");
    } else {
        let is_same = stored == written;
        assert!(is_same, "{path} is stale: set {WRITE} in the environment and run this test again");
    }
}
