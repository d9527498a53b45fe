//! The numbers of the decision records in `docs/decisions`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;

/// The names of the Markdown files in `folder`, in order; none if there is no such folder.
pub(super) fn file_names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot list {}", folder.display()));
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The gaps and repeats in the numbers of `file_names`, which are in order.
pub(super) fn violations(file_names: &[String]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut previous: Option<u32> = None;
    for name in file_names.iter().filter(|name| *name != "README.md") {
        let Some(number) = number(name) else {
            violations.push(format!(
                "docs/decisions/{name} has no number: name it `NNNN-what-was-decided.md`"
            ));
            continue;
        };
        let expected = previous.map_or(1, |previous| previous + 1);
        if previous == Some(number) {
            violations.push(format!(
                "docs/decisions/{name} has the number of another record: give it the next free one"
            ));
        } else if number != expected {
            violations.push(format!(
                "docs/decisions/{name} comes where {expected:04} should: renumber it, or bring \
                 back the record that is missing"
            ));
        }
        previous = Some(number);
    }
    violations
}

/// The number of a record `NNNN-title.md`.
fn number(file_name: &str) -> Option<u32> {
    let (digits, title) = file_name.split_once('-')?;
    let is_number = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && title != ".md" { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        violations(&names)
    }

    #[test]
    fn records_in_a_row_are_fine_and_so_is_a_readme() {
        let names = ["0001-one.md", "0002-two.md", "0003-three.md", "README.md"];
        assert_eq!(found(&names), Vec::<String>::new());
    }

    #[test]
    fn a_gap_is_found_once() {
        let found = found(&["0001-one.md", "0003-three.md", "0004-four.md"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/decisions/0003-three.md comes where 0002 should"));
    }

    #[test]
    fn a_row_that_does_not_begin_at_one_is_found() {
        assert_eq!(found(&["0002-two.md"]).len(), 1);
        assert_eq!(found(&["0000-zero.md", "0001-one.md"]).len(), 1);
    }

    #[test]
    fn a_repeat_is_found() {
        let found = found(&["0001-one.md", "0001-uno.md", "0002-two.md"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/decisions/0001-uno.md has the number of another"));
    }

    #[test]
    fn a_name_without_number_is_found() {
        assert_eq!(found(&["0001-one.md", "2-two.md"]).len(), 1);
        assert_eq!(found(&["notes.md"]).len(), 1);
        assert_eq!(found(&["0001-.md"]).len(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_holds_no_records() {
        let folder = tempfile::tempdir().unwrap();
        let names = file_names(&folder.path().join("decisions")).unwrap();
        assert_eq!(names, Vec::<String>::new());
    }
}
