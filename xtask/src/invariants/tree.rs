//! What must not be in the dependency tree of a crate, however deep.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, Metadata, NodeDep};

/// Package names; a `*` at the end stands for any rest.
type Names = &'static [&'static str];

const ASYNC_RUNTIMES: Names = &[
    "async-*",
    "futures",
    "futures-*",
    "glommio",
    "mio",
    "monoio",
    "polling",
    "smol",
    "tokio",
    "tokio-*",
];

const HTTP: Names = &[
    "actix",
    "actix-*",
    "axum",
    "axum-*",
    "curl",
    "h2",
    "http",
    "http-*",
    "httparse",
    "hyper",
    "hyper-*",
    "isahc",
    "poem",
    "reqwest",
    "rocket",
    "salvo",
    "tide",
    "tiny_http",
    "tower",
    "tower-*",
    "ureq",
    "warp",
];

const STORAGE: Names = &[
    "diesel",
    "fjall",
    "heed",
    "libsqlite3-sys",
    "librocksdb-sys",
    "lmdb*",
    "mongodb",
    "mysql*",
    "persy",
    "postgres",
    "redb",
    "redis",
    "rocksdb",
    "rusqlite",
    "sea-orm",
    "sled",
    "sqlx",
    "sqlx-*",
    "tokio-postgres",
];

/// A crate, what must not be in its tree, and what to do about it.
struct Ban {
    package: &'static str,
    forbidden: &'static [Names],
    advice: &'static str,
}

/// What holds with all features.
const BANS: [Ban; 4] = [
    Ban {
        package: "plant-domain",
        forbidden: &[ASYNC_RUNTIMES, HTTP, STORAGE],
        advice: "the domain knows no async runtime, no HTTP and no storage, so move what needs \
                 it to plant-store or plant-http",
    },
    Ban { package: "plant-store", forbidden: &[HTTP], advice: STORES_KNOW_NO_HTTP },
    Ban { package: "plant-postgres", forbidden: &[HTTP], advice: STORES_KNOW_NO_HTTP },
    Ban {
        package: "plant-http",
        forbidden: &[PROGRAM],
        advice: "only the program needs it, so move what needs it to plantd",
    },
];

const STORES_KNOW_NO_HTTP: &str = "a store knows no HTTP, so move what needs it to plant-http";

/// What a program needs, and a library leaves to the program.
const PROGRAM: Names =
    &["clap", "env_logger", "humantime", "indicatif", "rustls-native-certs", "tempfile", "ureq"];

/// What holds where nobody asks for features.
const DEFAULT_BANS: [Ban; 1] = [Ban {
    package: "plantd",
    forbidden: &[&["fail"]],
    advice: "fault points are for tests, so keep the feature `__fault-points` out of every default",
}];

/// What every package of the resolved graph is built from: its normal and build dependencies,
/// on all platforms.
///
/// Features are those of a build of the whole workspace. When a tree holds
/// more than the manifest of its crate asks for, another member has switched it on.
#[derive(Debug)]
pub(super) struct DependencyTree {
    /// By package identity, since one name can be there in several versions.
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    name: String,
    dependencies: Vec<String>,
}

impl DependencyTree {
    pub(super) fn of(metadata: &Metadata) -> anyhow::Result<Self> {
        let resolve = metadata.resolve.as_ref().context("cargo metadata gave no resolved graph")?;
        let names: BTreeMap<_, _> = metadata
            .packages
            .iter()
            .map(|package| (&package.id, package.name.to_string()))
            .collect();
        let mut nodes = BTreeMap::new();
        for node in &resolve.nodes {
            let name = names
                .get(&node.id)
                .with_context(|| format!("cargo metadata does not describe {}", node.id))?;
            let dependencies = node.deps.iter().filter(|dependency| is_built(dependency));
            nodes.insert(
                node.id.repr.clone(),
                Node {
                    name: name.clone(),
                    dependencies: dependencies
                        .map(|dependency| dependency.pkg.repr.clone())
                        .collect(),
                },
            );
        }
        Ok(Self { nodes })
    }

    /// For every forbidden package that `root` reaches, the names on a shortest way to it.
    fn ways_to_forbidden(&self, root: &str, forbidden: &[Names]) -> Vec<Vec<&str>> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut queue: VecDeque<(&str, Vec<&str>)> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.name == root)
            .map(|(id, _)| (id.as_str(), Vec::new()))
            .collect();
        while let Some((id, mut way)) = queue.pop_front() {
            let Some(node) = self.nodes.get(id) else {
                continue;
            };
            if !seen.insert(id) {
                continue;
            }
            way.push(&node.name);
            if matches_any(&node.name, forbidden) {
                // What lies behind it comes and goes with it.
                found.push(way);
                continue;
            }
            for dependency in &node.dependencies {
                queue.push_back((dependency, way.clone()));
            }
        }
        found
    }
}

fn is_built(dependency: &NodeDep) -> bool {
    dependency
        .dep_kinds
        .iter()
        .any(|info| matches!(info.kind, DependencyKind::Normal | DependencyKind::Build))
}

fn matches_any(name: &str, lists: &[Names]) -> bool {
    lists.iter().flat_map(|names| names.iter()).any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    })
}

/// The packages that are forbidden with all features, each with the way to it.
pub(super) fn violations(tree: &DependencyTree) -> Vec<String> {
    violations_of(&BANS, tree)
}

/// The packages that are forbidden with default features, each with the way to it.
pub(super) fn violations_by_default(tree: &DependencyTree) -> Vec<String> {
    violations_of(&DEFAULT_BANS, tree)
}

fn violations_of(bans: &[Ban], tree: &DependencyTree) -> Vec<String> {
    bans.iter()
        .flat_map(|ban| {
            tree.ways_to_forbidden(ban.package, ban.forbidden).into_iter().map(|way| {
                let way = way.join(" → ");
                format!("the tree of {} holds {way}: {}", ban.package, ban.advice)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(edges: &[(&str, &[&str])]) -> DependencyTree {
        let mut nodes = BTreeMap::new();
        let mut add = |name: &str, dependencies: &[&str]| {
            let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
            let name = name.to_owned();
            nodes.insert(name.clone(), Node { name, dependencies });
        };
        for (_, dependencies) in edges {
            for dependency in *dependencies {
                add(dependency, &[]);
            }
        }
        for (name, dependencies) in edges {
            add(name, dependencies);
        }
        DependencyTree { nodes }
    }

    #[test]
    fn a_tree_without_forbidden_packages_is_fine() {
        let tree = tree(&[
            ("plant-domain", &["serde", "uuid"]),
            ("plant-store", &["plant-domain", "sled", "tokio"]),
            ("plant-http", &["plant-store", "actix-web"]),
        ]);
        assert_eq!(violations(&tree), Vec::<String>::new());
    }

    #[test]
    fn a_direct_dependency_of_the_domain_on_tokio_is_found() {
        let found = violations(&tree(&[("plant-domain", &["serde", "tokio"])]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("the tree of plant-domain holds plant-domain → tokio: "));
    }

    #[test]
    fn a_forbidden_package_far_below_is_found_with_the_way_to_it() {
        let found = violations(&tree(&[
            ("plant-domain", &["harmless"]),
            ("harmless", &["deeper"]),
            ("deeper", &["futures-core"]),
        ]));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("plant-domain → harmless → deeper → futures-core: "));
    }

    #[test]
    fn only_the_head_of_a_forbidden_branch_is_named() {
        let found = violations(&tree(&[
            ("plant-domain", &["reqwest"]),
            ("reqwest", &["hyper"]),
            ("hyper", &["tokio"]),
        ]));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_store_may_hold_storage_but_not_http() {
        let found =
            violations(&tree(&[("plant-store", &["sled", "client"]), ("client", &["actix-http"])]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("the tree of plant-store holds plant-store → client → "));
    }

    #[test]
    fn fault_points_are_found_in_a_default_build_and_allowed_in_one_that_asks_for_them() {
        let tree = tree(&[("plantd", &["plant-store"]), ("plant-store", &["fail"])]);
        let found = violations_by_default(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("plantd → plant-store → fail: "), "{found:?}");
        assert_eq!(violations(&tree), Vec::<String>::new());
    }

    #[test]
    fn what_only_a_program_needs_is_found_in_the_library_and_allowed_in_the_program() {
        let found = violations(&tree(&[("plantd", &["clap"]), ("plant-http", &["ureq"])]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("the tree of plant-http holds plant-http → ureq: "));
    }

    #[test]
    fn a_circle_ends() {
        let found = violations(&tree(&[
            ("plant-domain", &["one"]),
            ("one", &["two"]),
            ("two", &["one", "sled"]),
        ]));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_star_stands_for_any_rest_and_no_star_for_none() {
        assert!(matches_any("tokio-util", &[ASYNC_RUNTIMES]));
        assert!(matches_any("lmdb-rkv", &[STORAGE]));
        assert!(!matches_any("httpdate", &[HTTP]));
        assert!(!matches_any("miow", &[ASYNC_RUNTIMES]));
    }
}
