//! The figures in `docs/performance.md`: between marks, amid prose that is written by hand.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

const PATH: &str = "docs/performance.md";
/// Where its plots are.
pub(super) const PLOTS_FOLDER: &str = "docs/performance";
const END: &str = "<!-- end -->";

/// Puts new figures between the marks of a name, in the document of the workspace.
pub(super) fn refresh(root: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    let path = root.join(PATH);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {PATH}"))?;
    let text = refreshed(&text, name, content).with_context(|| format!("cannot change {PATH}"))?;
    fs::write(&path, text).with_context(|| format!("cannot write {PATH}"))
}

fn refreshed(text: &str, name: &str, content: &str) -> anyhow::Result<String> {
    let start = format!("<!-- measured: {name} -->");
    let advice =
        || format!("it needs a line `{start}`, and a line `{END}` somewhere behind it: write both");
    let (before, rest) = text.split_once(&format!("{start}\n")).with_context(advice)?;
    let (old, after) = rest.split_once(END).with_context(advice)?;
    ensure!(!old.contains("<!-- measured:"), advice());
    Ok(format!("{before}{start}\n\n{}\n\n{END}{after}", content.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Prose.\n\n<!-- measured: one -->\nold\n<!-- end -->\n\nMore prose.\n\n\
                        <!-- measured: two -->\n<!-- end -->\n";

    #[test]
    fn new_figures_take_the_place_of_the_old_ones_and_all_else_stays() {
        let expected = "Prose.\n\n<!-- measured: one -->\n\nnew\n\n<!-- end -->\n\nMore prose.\n\n\
                        <!-- measured: two -->\n<!-- end -->\n";
        let once = refreshed(TEXT, "one", "new\n").unwrap();
        assert_eq!(once, expected);
        assert_eq!(refreshed(&once, "one", "new\n").unwrap(), expected);
    }

    #[test]
    fn a_place_that_was_empty_is_filled() {
        let text = refreshed(TEXT, "two", "new").unwrap();
        assert!(text.ends_with("<!-- measured: two -->\n\nnew\n\n<!-- end -->\n"), "{text}");
        assert!(text.contains("\nold\n"));
    }

    #[test]
    fn missing_marks_are_an_error_that_names_them() {
        let error = refreshed(TEXT, "three", "new").unwrap_err().to_string();
        assert!(error.contains("`<!-- measured: three -->`"), "{error}");
        assert!(refreshed("<!-- measured: one -->\nold\n", "one", "new").is_err());
    }

    #[test]
    fn an_end_that_belongs_to_another_name_is_not_taken() {
        let text = "<!-- measured: one -->\nprose\n<!-- measured: two -->\n<!-- end -->\n";
        assert!(refreshed(text, "one", "new").is_err());
    }
}
