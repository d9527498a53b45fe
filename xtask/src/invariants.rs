//! Rules of the workspace that no other tool checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::Metadata;

use crate::cargo;

/// The forbidden dependencies of each crate, direct or transitive; a `*` matches the rest of a name.
const LAYERS: [(&str, &str); 5] = [
    // The domain does no I/O, and knows neither HTTP nor storage.
    ("plant-domain", "plant-* tokio* futures* mio actix-* http*"),
    // A store knows no HTTP, and no other store.
    ("plant-store", "plant-http plant-postgres plantd* actix-* http* hyper*"),
    ("plant-postgres", "plant-http plantd* actix-* http* hyper*"),
    // The library serves any repository, and leaves the command line and the log to the program.
    ("plant-http", "plant-postgres plantd* tokio-postgres clap env_logger ureq"),
    // Fault points are for tests, so no default feature may enable them.
    ("plantd", "fail"),
];

/// The document that names tests as evidence, and the folder of those tests.
const SECURITY: &str = "docs/security.md";
const TESTS: &str = "tests/tests";

/// The only file that may name the sled crate, because it guards each call; and the folder of all that could.
const SLED: &str = "tables/database.rs";
const STORE: &str = "crates/plant-store/src";

/// All violations, each a sentence that says what to do.
pub(crate) fn violations(workspace: &Metadata) -> anyhow::Result<Vec<String>> {
    let root = workspace.workspace_root.as_std_path();
    let mut violations = Vec::new();
    for (package, forbidden) in LAYERS {
        let features: &[&str] = if package == "plantd" { &[] } else { &["--all-features"] };
        let mut tree = cargo::command(root);
        tree.args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none"]);
        tree.args(["--format", "{p}", "--package", package]).args(features);
        let packages = cargo::run_for_output(&mut tree)?;
        let names = packages.lines().filter_map(|line| line.split(' ').next());
        let names: BTreeSet<&str> = names.filter(|name| *name != package).collect();
        violations
            .extend(names.into_iter().filter(|name| is_forbidden(name, forbidden)).map(|name| {
            format!(
                "{package} must not be built upon {name} (`cargo tree -p {package} -i {name}`): \
                 xtask/src/invariants.rs says why"
            )
        }));
    }
    for package in workspace.workspace_packages() {
        let manifest = read(package.manifest_path.as_std_path())?;
        if !manifest.contains("[lints]\nworkspace = true\n") {
            violations
                .push(format!("{}: inherit the lints of the workspace", package.manifest_path));
        }
    }
    for file in files_below(&root.join(STORE))? {
        let text = read(&file)?.replace("crate::sled::", "").replace("self::sled::", "");
        let names_sled = text.contains("::sled::") || text.contains("use sled::");
        if names_sled && !file.ends_with(SLED) {
            let file = file.display();
            violations.push(format!("{file} calls sled: {SLED} alone does, behind its guards"));
        }
    }
    let tests = test_names(&root.join(TESTS))?;
    let document = read(&root.join(SECURITY))?;
    let missing = named_tests(&document).filter(|name| !tests.contains(*name));
    violations.extend(missing.map(|name| {
        format!("{SECURITY} names the test {name}, which is not in {TESTS}: name the test that shows the claim")
    }));
    Ok(violations)
}

fn is_forbidden(name: &str, patterns: &str) -> bool {
    patterns.split(' ').any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    })
}

/// The names of the form `` `file::test` `` in a document.
fn named_tests(document: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let words = document.split('`').skip(1).step_by(2);
    words.filter(move |word| {
        word.split_once("::").is_some_and(|(file, test)| is_name(file) && is_name(test))
    })
}

/// The tests in a folder and the folders in it, each as `file::test`.
fn test_names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in files_below(folder)? {
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for marked in read(&path)?.split("#[test]\n").skip(1) {
            let name = marked.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
            names.extend(name.map(|(name, _)| format!("{file}::{name}")));
        }
    }
    Ok(names)
}

pub(crate) fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()));
    for entry in entries? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
