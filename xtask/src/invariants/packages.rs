//! What the packages that are published show to those who find them.

use std::fs;

use anyhow::Context as _;
use cargo_metadata::{Metadata, Package, TargetKind};

/// The texts that each package carries. They lie in the root of the workspace, and a package has only what
/// is in its own folder.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// A package that is published.
#[derive(Debug)]
pub(super) struct Published {
    name: String,
    /// What its manifest leaves out.
    missing: Vec<&'static str>,
    /// The licenses whose text it does not have as the workspace has it.
    other_licenses: Vec<&'static str>,
}

/// Whether it may go to crates.io at all.
pub(crate) fn is_published(package: &Package) -> bool {
    package.publish.is_none()
}

/// The packages of the workspace that are published.
pub(super) fn read(metadata: &Metadata) -> anyhow::Result<Vec<Published>> {
    let mut texts = Vec::new();
    for name in LICENSES {
        let path = metadata.workspace_root.join(name);
        let text = fs::read(&path).with_context(|| format!("cannot read {path}"))?;
        texts.push((name, text));
    }
    let published =
        metadata.workspace_packages().into_iter().filter(|package| is_published(package));
    let read = |package: &Package| {
        let has_text = |(name, text): &&(_, Vec<u8>)| {
            fs::read(package.manifest_path.with_file_name(name)).is_ok_and(|found| found == *text)
        };
        Published {
            name: package.name.to_string(),
            missing: missing(package),
            other_licenses: texts
                .iter()
                .filter(|text| !has_text(text))
                .map(|(name, _)| *name)
                .collect(),
        }
    };
    Ok(published.map(read).collect())
}

/// What a manifest leaves out. Cargo asks for less than people who look for a crate do.
fn missing(package: &Package) -> Vec<&'static str> {
    let is_library = package.targets.iter().any(|target| target.kind.contains(&TargetKind::Lib));
    let said = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("readme", package.readme.is_some()),
        // docs.rs shows libraries.
        ("documentation", package.documentation.is_some() || !is_library),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        ("rust-version", package.rust_version.is_some()),
    ];
    said.into_iter().filter(|(_, is_said)| !is_said).map(|(name, _)| name).collect()
}

/// What is missing in the packages.
pub(super) fn violations(packages: &[Published]) -> Vec<String> {
    let mut violations = Vec::new();
    for Published { name, missing, other_licenses } in packages {
        for entry in missing {
            violations.push(format!(
                "{name} is published without `{entry}`: say it in [package] of its Cargo.toml, or \
                 `publish = false`"
            ));
        }
        for license in other_licenses {
            violations.push(format!(
                "{name} does not carry {license} as the workspace has it: run `ln -sf \
                 ../../{license} {license}` in its folder"
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use cargo_metadata::MetadataCommand;

    use super::*;

    const SAID: &str = "
        description = 'A garden'
        license = 'MIT OR Apache-2.0'
        readme = 'README.md'
        documentation = 'https://docs.rs/garden'
        keywords = ['garden']
        categories = ['science']
        rust-version = '1.95'
    ";

    /// A workspace with one package, `garden`, which has the texts of the licenses.
    fn workspace(said: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("garden");
        fs::create_dir_all(package.join("src")).unwrap();
        for (path, text) in [
            (folder.path().join("Cargo.toml"), "workspace.members = ['garden']\n"),
            (package.join("src/lib.rs"), ""),
            (
                package.join("Cargo.toml"),
                &format!("[package]\nname = 'garden'\nversion = '0.1.0'\nedition = '2024'\n{said}"),
            ),
        ] {
            fs::write(path, text).unwrap();
        }
        for name in LICENSES {
            fs::write(folder.path().join(name), "Do as you like.\n").unwrap();
            symlink(Path::new("..").join(name), package.join(name)).unwrap();
        }
        folder
    }

    fn found(folder: &Path) -> Vec<String> {
        let mut command = MetadataCommand::new();
        let metadata = command.manifest_path(folder.join("Cargo.toml")).no_deps().exec().unwrap();
        violations(&read(&metadata).unwrap())
    }

    #[test]
    fn a_package_that_says_everything_is_fine() {
        assert_eq!(found(workspace(SAID).path()), Vec::<String>::new());
    }

    #[test]
    fn each_entry_that_is_left_out_is_found_where_it_is_published() {
        let found_all = found(workspace("").path());
        let entries: Vec<&str> =
            SAID.lines().filter_map(|line| line.trim().split(' ').next()).collect();
        let entries: Vec<&str> = entries.into_iter().filter(|entry| !entry.is_empty()).collect();
        assert_eq!(found_all.len(), entries.len(), "{found_all:?}");
        for entry in entries {
            let violation = format!("garden is published without `{entry}`: ");
            assert!(found_all.iter().any(|found| found.starts_with(&violation)), "{found_all:?}");
        }
        assert_eq!(found(workspace("publish = false").path()), Vec::<String>::new());
    }

    #[test]
    fn a_license_that_is_missing_or_has_another_text_is_found() {
        let folder = workspace(SAID);
        let package = folder.path().join("garden");
        fs::remove_file(package.join("LICENSE-MIT")).unwrap();
        fs::remove_file(package.join("LICENSE-APACHE")).unwrap();
        // What a checkout makes of a link where there are none.
        fs::write(package.join("LICENSE-APACHE"), "../LICENSE-APACHE").unwrap();
        let found = found(folder.path());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("garden does not carry LICENSE-APACHE as the workspace has it")
        );
        assert!(found[1].starts_with("garden does not carry LICENSE-MIT as the workspace has it"));
    }
}
