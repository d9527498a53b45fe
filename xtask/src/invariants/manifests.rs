//! What the members inherit from the workspace: lints and dependencies.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::Metadata;
use toml::{Table, Value};

const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The manifests of the workspace.
#[derive(Debug)]
pub(super) struct Manifests {
    workspace: Table,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    manifest: Table,
}

impl Manifests {
    pub(super) fn read(metadata: &Metadata) -> anyhow::Result<Self> {
        let workspace = read(metadata.workspace_root.join("Cargo.toml").as_std_path())?;
        let members = metadata
            .workspace_packages()
            .iter()
            .map(|package| {
                Ok(Member {
                    name: package.name.to_string(),
                    manifest: read(package.manifest_path.as_std_path())?,
                })
            })
            .collect::<anyhow::Result<Vec<Member>>>()?;
        Ok(Self { workspace, members })
    }
}

pub(super) fn read(path: &Path) -> anyhow::Result<Table> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("cannot parse {}", path.display()))
}

/// The places where a manifest goes its own way.
pub(super) fn violations(manifests: &Manifests) -> Vec<String> {
    let mut violations = Vec::new();
    if !forbids_unsafe_code(&manifests.workspace) {
        violations.push(
            "the workspace allows unsafe code: put `unsafe_code = \"forbid\"` into \
             [workspace.lints.rust] of the root Cargo.toml"
                .to_owned(),
        );
    }
    let mut used = BTreeSet::new();
    for Member { name, manifest } in &manifests.members {
        if at(manifest, &["lints", "workspace"]) != Some(&Value::Boolean(true)) {
            violations.push(format!(
                "{name} has lints of its own: its Cargo.toml has to say `workspace = true` in \
                 [lints]"
            ));
        }
        for (dependency, specification) in dependencies(manifest) {
            used.insert(dependency);
            if specification.get("workspace") != Some(&Value::Boolean(true)) {
                violations.push(format!(
                    "{name} has its own version of {dependency}: name the version in \
                     [workspace.dependencies] of the root Cargo.toml, and write \
                     `{dependency}.workspace = true` in the package"
                ));
            }
        }
    }
    let offered =
        at(&manifests.workspace, &["workspace", "dependencies"]).and_then(Value::as_table);
    for dependency in offered.into_iter().flat_map(Table::keys) {
        if !used.contains(dependency.as_str()) {
            violations.push(format!(
                "no package uses {dependency}: take it out of [workspace.dependencies] of the \
                 root Cargo.toml"
            ));
        }
    }
    violations
}

fn forbids_unsafe_code(workspace: &Table) -> bool {
    let lint = at(workspace, &["workspace", "lints", "rust", "unsafe_code"]);
    let level = lint.and_then(|lint| lint.get("level").or(Some(lint)));
    level.and_then(Value::as_str) == Some("forbid")
}

/// All dependencies of a package: of all kinds, and of all platforms.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let platform_tables = platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(platform_tables)
        .flat_map(|table| DEPENDENCY_TABLES.map(|kind| table.get(kind)))
        .filter_map(|dependencies| dependencies.and_then(Value::as_table))
        .flatten()
        .map(|(name, specification)| (name.as_str(), specification))
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "
        [workspace.lints.rust]
        unsafe_code = 'forbid'
        [workspace.dependencies]
        serde = '1'
    ";

    const MEMBER: &str = "
        [lints]
        workspace = true
        [dependencies]
        serde.workspace = true
    ";

    fn found(workspace: &str, member: &str) -> Vec<String> {
        violations(&Manifests {
            workspace: workspace.parse().unwrap(),
            members: vec![Member {
                name: "plant-domain".to_owned(),
                manifest: member.parse().unwrap(),
            }],
        })
    }

    #[test]
    fn a_member_that_inherits_everything_is_fine() {
        assert_eq!(found(WORKSPACE, MEMBER), Vec::<String>::new());
    }

    #[test]
    fn a_member_without_the_lints_of_the_workspace_is_found() {
        let found = found(WORKSPACE, &MEMBER.replace("[lints]", "[elsewhere]"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("plant-domain has lints of its own"));
    }

    #[test]
    fn a_workspace_that_only_denies_unsafe_code_is_found() {
        let found = found(&WORKSPACE.replace("forbid", "deny"), MEMBER);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("the workspace allows unsafe code"));
    }

    #[test]
    fn a_lint_level_in_a_table_counts_too() {
        let workspace = WORKSPACE.replace("'forbid'", "{ level = 'forbid', priority = 1 }");
        assert_eq!(found(&workspace, MEMBER), Vec::<String>::new());
    }

    #[test]
    fn a_version_in_a_member_is_found_in_every_table() {
        for table in
            ["[build-dependencies]", "[dev-dependencies]", "[target.'cfg(unix)'.dependencies]"]
        {
            for version in ["'3'", "{ version = '3' }"] {
                let found = found(WORKSPACE, &format!("{MEMBER}{table}\ntempfile = {version}"));
                assert_eq!(found.len(), 1, "{table} {version}");
                assert!(found[0].starts_with("plant-domain has its own version of tempfile"));
            }
        }
    }

    #[test]
    fn a_dependency_that_nothing_uses_is_found() {
        let found = found(&format!("{WORKSPACE}tempfile = '3'"), MEMBER);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("no package uses tempfile"));
    }

    #[test]
    fn a_dependency_of_one_platform_counts_as_used() {
        let member = format!("{MEMBER}[target.'cfg(unix)'.dependencies]\nnix.workspace = true");
        let found = found(&format!("{WORKSPACE}nix = '1'"), &member);
        assert_eq!(found, Vec::<String>::new());
    }
}
