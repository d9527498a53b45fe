//! `cargo xtask test`: everything that proves the product, from a fresh machine on.

use std::path::Path;
use std::process::Command;

use test_postgres::{Cluster, SHARED_URL};

use crate::deny::CargoDeny;
use crate::{cargo, packages, tools};

/// What tests need beside what a user gets by default. Not among them is what would change the program
/// that they run: fault points are in a program of their own, which the tests build that need it.
const FEATURES: &str = "plant-store/conformance,plant-http/__internal";

/// The variable in the environment that says where the plants are of the servers in the black-box tests.
const STORE: &str = "PLANTD_TESTS_STORE";

/// The black-box tests of what a store does, whichever it is. Those that are not among them look at the
/// folder of a server, or at what has nothing to do with its plants.
const TESTS_OF_ANY_STORE: [&str; 15] = [
    "audit",
    "change",
    "clients",
    "create",
    "export",
    "idempotency",
    "import",
    "import_export_command",
    "list",
    "openapi",
    "paths",
    "preconditions",
    "real_plants",
    "route_walk",
    "schemathesis",
];

/// What chooses other targets than the tests in `tests/`; the rest of `cargo test`'s flags leave them in.
const OTHER_TARGETS: [&str; 7] =
    ["--lib", "--bin", "--bins", "--example", "--examples", "--bench", "--doc"];

/// Brings the tools that tests need, builds the server and runs all tests; those of what a store does a
/// second time, with PostgreSQL as the store.
///
/// `arguments` go to `cargo test` as they are.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let workspace = cargo::workspace()?;
    tools::ensure(&[
        tools::STRACE,
        tools::CURL,
        tools::OPENSSL,
        tools::MOUNT,
        tools::UNSHARE,
        tools::POSTGRESQL,
        tools::NGINX,
        tools::PYTHON,
        tools::NODE,
        tools::NPM,
        tools::CHROMIUM,
    ])?;
    packages::PYTHON.ensure(&workspace)?;
    packages::NODE.ensure(&workspace)?;
    // xtask's own tests run it.
    CargoDeny::ensure(&workspace)?;
    // The black-box tests run the program itself, and `cargo test` of another package
    // does not build it.
    cargo::run(cargo::command(&workspace.workspace_root).args([
        "build",
        "--workspace",
        "--features",
        FEATURES,
        "--bin",
        "plantd",
    ]))?;
    // One for all, in which each test has a schema of its own.
    let cluster = Cluster::start();
    let root = workspace.workspace_root.as_std_path();
    cargo::run(test(root, &cluster).args(arguments))?;
    let Some(arguments) = arguments_for_any_store(arguments) else {
        return Ok(());
    };
    cargo::run(test(root, &cluster).env(STORE, "postgres").args(arguments))
}

/// The same words in all runs, so that nothing is built twice.
fn test(workspace_root: &Path, cluster: &Cluster) -> Command {
    let mut test = cargo::command(workspace_root);
    test.args(["test", "--workspace", "--features", FEATURES]).env(SHARED_URL, cluster.url());
    test
}

/// The arguments for the run on another store: they choose the tests of [`TESTS_OF_ANY_STORE`], or those
/// of them that the developer has chosen. None if there are no such tests.
fn arguments_for_any_store(arguments: &[String]) -> Option<Vec<String>> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (ours, of_the_tests) = arguments.split_at(end);
    let (mut chosen, mut rest, mut is_chosen) = (Vec::new(), Vec::new(), false);
    let mut words = ours.iter();
    while let Some(word) = words.next() {
        let (flag, value) = word.split_once('=').map_or((&**word, None), |(f, v)| (f, Some(v)));
        if flag == "--test" {
            is_chosen = true;
            chosen.extend(value.or_else(|| words.next().map(String::as_str)));
        } else if OTHER_TARGETS.contains(&flag) {
            is_chosen = true;
            // What follows is the name of such a target.
            if !flag.ends_with('s') && flag != "--lib" && flag != "--doc" && value.is_none() {
                words.next();
            }
        } else {
            rest.push(word.clone());
        }
    }
    let is_wanted = |test: &&str| !is_chosen || chosen.contains(test);
    let tests: Vec<&str> = TESTS_OF_ANY_STORE.into_iter().filter(is_wanted).collect();
    let selection = tests.iter().flat_map(|test| ["--test", test]).map(str::to_owned);
    (!tests.is_empty()).then(|| selection.chain(rest).chain(of_the_tests.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &str) -> Option<String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        arguments_for_any_store(&words).map(|arguments| arguments.join(" "))
    }

    #[test]
    fn all_tests_of_any_store_run_on_another_one_unless_some_are_chosen() {
        let all = arguments("").unwrap();
        for test in TESTS_OF_ANY_STORE {
            assert!(all.contains(&format!("--test {test}")), "{test}: {all}");
        }
        assert_eq!(arguments("name -- --nocapture").unwrap(), format!("{all} name -- --nocapture"));
        assert_eq!(
            arguments("--test list --test tls --release --test=create -- a --test b").unwrap(),
            "--test create --test list --release -- a --test b"
        );
    }

    #[test]
    fn where_none_of_them_is_chosen_nothing_runs_on_another_store() {
        for words in ["--test tls", "--lib", "--doc -- name", "--bin create", "--bins --examples"] {
            assert_eq!(arguments(words), None, "{words}");
        }
    }

    #[test]
    fn the_tests_of_any_store_are_there_and_no_other_package_has_one_of_the_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let packages = [
            "crates/plant-domain",
            "crates/plant-http",
            "crates/plant-postgres",
            "crates/plant-store",
            "crates/plantd",
            "tests",
            "tests/postgres",
        ];
        for test in TESTS_OF_ANY_STORE {
            let file = format!("tests/{test}.rs");
            let with_it = packages.iter().filter(|package| root.join(package).join(&file).exists());
            assert_eq!(with_it.collect::<Vec<_>>(), [&"tests"], "{test}");
        }
    }
}
