//! The tests that documents name as the ones that show a claim.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// The document, and where the tests are that it names.
const DOCUMENT: &str = "docs/security.md";
const TESTS: &str = "tests/tests";

/// The tests that the document names and that are not there.
pub(super) fn violations(workspace_root: &Path) -> anyhow::Result<Vec<String>> {
    let path = workspace_root.join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let tests = tests(&workspace_root.join(TESTS))?;
    Ok(missing(&text, &tests))
}

fn missing(text: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let named: BTreeSet<&str> = text.split('`').filter(|word| is_test_name(word)).collect();
    if named.is_empty() {
        return vec![format!("{DOCUMENT} names no test: say `file::test` for each claim")];
    }
    named
        .into_iter()
        .filter(|name| !tests.contains(*name))
        .map(|name| format!("{DOCUMENT} names {name}, and there is no such test in {TESTS}"))
        .collect()
}

/// Whether it is `file::test`, where neither is a placeholder.
fn is_test_name(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    word != "file::test"
        && word.split_once("::").is_some_and(|(file, test)| is_name(file) && is_name(test))
}

/// All tests in a folder and the folders in it, each as `file::test`.
fn tests(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()));
    for entry in entries? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(tests(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let file = path.file_stem().unwrap_or_default().to_string_lossy();
            found.extend(test_names(&text).map(|test| format!("{file}::{test}")));
        }
    }
    Ok(found)
}

/// The functions in a text that are marked as tests.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let behind_marks = text.split("#[test]\n").skip(1);
    behind_marks.filter_map(|rest| rest.split_once("fn ")?.1.split_once('(').map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "A claim.\n\n- `list::it_holds`\n- `file::test` is a test, `--flag` none.\n";

    fn found(text: &str, tests: &[&str]) -> Vec<String> {
        missing(text, &tests.iter().map(|test| (*test).to_owned()).collect())
    }

    #[test]
    fn a_test_that_a_document_names_is_there() {
        assert_eq!(found(TEXT, &["list::it_holds"]), [""; 0]);
        let missing = found(TEXT, &["list::it_still_holds", "other::it_holds"]);
        assert!(missing.len() == 1 && missing[0].contains("list::it_holds"), "{missing:?}");
    }

    #[test]
    fn a_document_without_tests_shows_nothing() {
        assert_eq!(found("A claim.", &["list::it_holds"]).len(), 1);
    }

    #[test]
    fn only_a_function_that_is_marked_is_a_test() {
        let text =
            "fn one() {}\n#[test]\nfn two() {}\n    #[test]\n    fn three() {}\nfn four() {}";
        assert_eq!(test_names(text).collect::<Vec<_>>(), ["two", "three"]);
    }
}
