//! Each relative link of a document leads to a file that exists, and to a heading that it has.

use std::fs;
use std::path::{Path, PathBuf};

use plantd_tests::repository;

/// The folders whose documents are tested.
const FOLDERS: [&str; 12] = [
    "",
    "docs",
    "docs/decisions",
    "crates/plant-domain",
    "crates/plant-http",
    "crates/plant-http/web/app/lit-html",
    "crates/plant-http/web/docs/swagger-ui",
    "crates/plant-postgres",
    "crates/plant-store",
    "crates/plantd",
    "examples/webhooks",
    "tests/data",
];

fn documents() -> Vec<PathBuf> {
    let files = |folder| fs::read_dir(repository(folder)).expect("a folder of the repository");
    let paths = FOLDERS.into_iter().flat_map(files).map(|file| file.expect("a file").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The text without its code blocks.
fn prose(document: &Path) -> String {
    let text = fs::read_to_string(document).expect("a document in UTF-8");
    text.split("```").step_by(2).collect()
}

/// The anchors of the headings, as forges make them.
fn anchors(document: &Path) -> Vec<String> {
    let prose = prose(document);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        heading.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_of_a_document_leads_somewhere() {
    let mut links = 0;
    for document in documents() {
        let prose = prose(&document);
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = document.parent().expect("a folder");
            let led_to = if file.is_empty() { document.clone() } else { folder.join(file) };
            let from = document.display();
            assert!(led_to.exists(), "{from}: {target} leads nowhere");
            let has_anchor = anchor.is_empty() || anchors(&led_to).iter().any(|it| it == anchor);
            assert!(has_anchor, "{from}: {target} leads to no heading");
        }
    }
    assert!(links > 100, "only {links} links were found");
}
