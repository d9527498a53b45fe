//! The direction of dependencies between the crates of the workspace.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata};

/// Each crate of the product with all crates that it may be built upon.
const LAYERS: [(&str, &[&str]); 3] = [
    ("plant-domain", &[]),
    ("plant-store", &["plant-domain"]),
    ("plant-http", &["plant-domain", "plant-store"]),
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
    for (layer, _) in LAYERS {
        if !product.contains(layer) {
            violations.push(format!(
                "crates/ holds no package {layer}: bring it back, or take it out of LAYERS in \
                 xtask/src/invariants/layers.rs"
            ));
        }
    }
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
                    "{name} depends on {}, against the order plant-http → plant-store → \
                     plant-domain: move what it needs from there into {name} or below",
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
            member("plant-http", true, &["plant-domain", "plant-store"]),
            member("plantd-tests", false, &["plant-http"]),
            member("xtask", false, &[]),
        ]
    }

    #[test]
    fn the_order_http_store_domain_is_fine() {
        assert_eq!(violations(&workspace(&[], &["plant-domain"])), Vec::<String>::new());
    }

    #[test]
    fn a_domain_that_uses_the_store_is_found() {
        let found = violations(&workspace(&["plant-store"], &[]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("plant-domain depends on plant-store, against the order"));
    }

    #[test]
    fn a_store_that_uses_http_is_found() {
        let found = violations(&workspace(&[], &["plant-domain", "plant-http"]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("plant-store depends on plant-http, against the order"));
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

    #[test]
    fn a_layer_without_a_crate_is_found() {
        let mut members = workspace(&[], &[]);
        members.retain(|member| member.name != "plant-http");
        let found = violations(&members);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/ holds no package plant-http"));
    }
}
