//! The direction of dependencies between the crates of the workspace.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata};

/// Each crate of the product with all crates that it may be built upon.
///
/// `plant-http` does without `plant-postgres`, so that it serves any repository.
const LAYERS: [(&str, &[&str]); 5] = [
    ("plant-domain", &[]),
    ("plant-store", &["plant-domain"]),
    ("plant-postgres", &["plant-domain", "plant-store"]),
    ("plant-http", &["plant-domain", "plant-store"]),
    ("plantd", &["plant-domain", "plant-store", "plant-postgres", "plant-http"]),
];

/// A package of the workspace with what it uses from the workspace.
#[derive(Debug)]
pub(super) struct Member {
    name: String,
    /// Whether it lies in `crates/`, which is to say that it is part of the product.
    is_product: bool,
    uses: Vec<Use>,
}

#[derive(Debug)]
struct Use {
    name: String,
    /// Whether it is used for tests, examples and benches only.
    is_development: bool,
}

/// The packages of the workspace, with their dependencies upon each other.
pub(super) fn members(metadata: &Metadata) -> Vec<Member> {
    let packages = metadata.workspace_packages();
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let product_folder = metadata.workspace_root.join("crates");
    packages
        .iter()
        .map(|package| Member {
            name: package.name.to_string(),
            is_product: package.manifest_path.starts_with(&product_folder),
            uses: package
                .dependencies
                .iter()
                .filter(|dependency| names.contains(dependency.name.as_str()))
                .map(|dependency| Use {
                    name: dependency.name.clone(),
                    is_development: dependency.kind == DependencyKind::Development,
                })
                .collect(),
        })
        .collect()
}

/// The uses that go against the order of the layers.
pub(super) fn violations(members: &[Member]) -> Vec<String> {
    let mut violations = Vec::new();
    let product: BTreeSet<&str> = members
        .iter()
        .filter(|member| member.is_product)
        .map(|member| member.name.as_str())
        .collect();
    for member in members.iter().filter(|member| member.is_product) {
        let name = &member.name;
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
            violations.push(format!(
                "{name} has no place in the order of the crates: give it one in LAYERS in \
                 xtask/src/invariants/layers.rs"
            ));
            continue;
        };
        for used in &member.uses {
            if !product.contains(used.name.as_str()) {
                violations.push(format!(
                    "{name} depends on {}, which is not part of the product: take that \
                     dependency out, also if it is for tests only",
                    used.name
                ));
            } else if !used.is_development && !allowed.contains(&used.name.as_str()) {
                violations.push(format!(
                    "{name} depends on {}, which LAYERS in xtask/src/invariants/layers.rs does not let \
                     it: move what it needs from there into {name} or below",
                    used.name
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, is_product: bool, uses: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            is_product,
            uses: uses
                .iter()
                .map(|name| Use { name: (*name).to_owned(), is_development: false })
                .collect(),
        }
    }

    fn workspace(domain_uses: &[&str], store_uses: &[&str]) -> Vec<Member> {
        vec![
            member("plant-domain", true, domain_uses),
            member("plant-store", true, store_uses),
            member("plant-postgres", true, &["plant-domain", "plant-store"]),
            member("plant-http", true, &["plant-domain", "plant-store"]),
            member("plantd", true, &["plant-http", "plant-postgres"]),
            member("plantd-tests", false, &["plant-http"]),
            member("xtask", false, &[]),
        ]
    }

    #[test]
    fn dependencies_that_lead_downward_are_fine() {
        assert_eq!(violations(&workspace(&[], &["plant-domain"])), Vec::<String>::new());
    }

    #[test]
    fn dependencies_that_lead_upward_or_sideways_are_found() {
        let mut members = workspace(&["plant-store"], &["plant-domain", "plant-http"]);
        members[3] = member("plant-http", true, &["plant-postgres"]);
        let found = violations(&members);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("plant-domain depends on plant-store, which LAYERS"));
        assert!(found[1].starts_with("plant-store depends on plant-http, which LAYERS"));
        assert!(found[2].starts_with("plant-http depends on plant-postgres, which LAYERS"));
    }

    #[test]
    fn a_store_that_uses_http_in_its_tests_only_is_fine() {
        let mut members = workspace(&[], &["plant-http"]);
        members[1].uses[0].is_development = true;
        assert_eq!(violations(&members), Vec::<String>::new());
    }

    #[test]
    fn a_product_that_uses_the_tests_is_found_also_in_its_tests() {
        let mut members = workspace(&[], &["plantd-tests"]);
        members[1].uses[0].is_development = true;
        let found = violations(&members);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("plant-store depends on plantd-tests, which is not part"));
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let mut members = workspace(&[], &[]);
        members.push(member("plant-extra", true, &[]));
        let found = violations(&members);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("plant-extra has no place"));
    }
}
