//! The roots of our crates: each forbids unsafe code by itself, whatever a manifest says.

use std::fs;

use anyhow::Context as _;
use cargo_metadata::{Metadata, TargetKind};

/// What stands in each root, on a line of its own.
const ATTRIBUTE: &str = "#![forbid(unsafe_code)]";

/// What is delivered, shown, or run to build it. The lint of the manifest is enough for tests.
const KINDS: [TargetKind; 4] =
    [TargetKind::Lib, TargetKind::Bin, TargetKind::Example, TargetKind::CustomBuild];

/// The file that a crate begins with.
#[derive(Debug)]
pub(super) struct CrateRoot {
    path: String,
    text: String,
}

/// The roots of all crates of a workspace, but for its tests.
pub(super) fn read(metadata: &Metadata) -> anyhow::Result<Vec<CrateRoot>> {
    let packages = metadata.workspace_packages();
    let targets = packages.iter().flat_map(|package| &package.targets);
    targets
        .filter(|target| target.kind.iter().any(|kind| KINDS.contains(kind)))
        .map(|target| {
            let path = target.src_path.to_string();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            Ok(CrateRoot { path, text })
        })
        .collect()
}

/// The roots that do not forbid unsafe code.
pub(super) fn violations(roots: &[CrateRoot]) -> Vec<String> {
    let allow_unsafe = roots.iter().filter(|root| !root.text.lines().any(|line| line == ATTRIBUTE));
    allow_unsafe
        .map(|root| {
            format!(
                "{} does not forbid unsafe code: put `{ATTRIBUTE}` under its first comment",
                root.path
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cargo_metadata::MetadataCommand;

    fn found(text: &str) -> Vec<String> {
        violations(&[CrateRoot { path: "src/lib.rs".to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn a_root_that_forbids_unsafe_code_is_fine() {
        let text = "//! What it is.\n\n#![forbid(unsafe_code)]\n\nmod plant;\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn a_root_that_allows_denies_or_only_mentions_it_is_found() {
        for text in ["mod plant;\n", "#![deny(unsafe_code)]\n", "// #![forbid(unsafe_code)]\n"] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].starts_with("src/lib.rs does not forbid unsafe code"));
        }
    }

    #[test]
    fn libraries_programs_examples_and_build_scripts_have_roots_and_tests_need_none() {
        let folder = tempfile::tempdir().unwrap();
        let roots = ["build.rs", "examples/e.rs", "src/bin/b/main.rs", "src/lib.rs", "src/main.rs"];
        for path in roots.into_iter().chain(["src/module.rs", "tests/t.rs"]) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let manifest = folder.path().join("Cargo.toml");
        fs::write(&manifest, "package = { name = 'garden', edition = '2024' }\nworkspace = {}\n")
            .unwrap();
        let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap();
        let mut found = violations(&read(&metadata).unwrap());
        found.sort();
        assert_eq!(found.len(), roots.len(), "{found:?}");
        for (violation, root) in found.iter().zip(roots) {
            assert!(violation.contains(&format!("/{root} does not forbid")), "{violation}");
        }
    }
}
