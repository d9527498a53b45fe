//! Clients that generators of others make of `docs/openapi.json` do with a server all that there is to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plantd_tests::{TOKEN, TestServer, Toolbox, copy_folder};
use serde_json::Value;

/// A file or folder of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Runs a command that says where something is wrong.
#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed ({}):\n{said}", output.status);
}

/// Runs a program that uses a store, with an empty one.
#[track_caller]
fn run_with_server(program: &mut Command) {
    let server = TestServer::start();
    program.env("PLANTD_URL", format!("http://{}", server.address())).env("PLANTD_TOKEN", TOKEN);
    run(program);
}

/// The operations of the document, as Python names them.
fn operations() -> BTreeSet<String> {
    let document = fs::read(repository("docs/openapi.json")).expect("the document is there");
    let document: Value = serde_json::from_slice(&document).expect("it is JSON");
    let paths = document["paths"].as_object().expect("it has paths");
    let operations = paths.values().flat_map(|path| path.as_object().expect("operations").values());
    operations
        .map(|operation| {
            let id = operation["operationId"].as_str().expect("it has an id");
            let letter = |letter: char| match letter {
                'A'..='Z' => format!("_{}", letter.to_ascii_lowercase()),
                _ => letter.to_string(),
            };
            id.chars().map(letter).collect()
        })
        .collect()
}

/// The operations of a client in Python: each is a file in the folder of its tag.
fn generated_operations(client: &Path) -> BTreeSet<String> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("it can be listed");
        entries.map(|entry| entry.expect("it is there").path()).collect::<Vec<_>>()
    };
    let tags = entries(&client.join("api")).into_iter().filter(|path| path.is_dir());
    let names = tags
        .flat_map(|tag| entries(&tag))
        .map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("__")).collect()
}

#[test]
fn a_client_generated_for_python_does_all_that_there_is_to_do() {
    let tools = Toolbox::python();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let sources = repository("tests/clients/python");
    let client = folder.path().join("plant_store");
    // A warning is an operation or a member that the client does not have.
    let mut generate = tools.command("openapi-python-client");
    generate.args(["generate", "--meta", "none", "--fail-on-warning", "--path"]);
    generate.arg(repository("docs/openapi.json")).arg("--output-path").arg(&client);
    run(generate.arg("--config").arg(sources.join("generator.yaml")));
    assert_eq!(generated_operations(&client), operations());

    let walk = sources.join("walk.py");
    // What is generated is looked at for its types, and not for whether it keeps to them. What mypy keeps of
    // another run may be of another client.
    let mut check = tools.command("mypy");
    check.args(["--strict", "--follow-imports", "silent", "--cache-dir", "/dev/null"]);
    run(check.arg(&walk).env("MYPYPATH", folder.path()));

    let mut walk_through = tools.command("python");
    walk_through.arg(&walk).env("PYTHONPATH", folder.path());
    // Without its assertions it would claim nothing.
    run_with_server(walk_through.env_remove("PYTHONOPTIMIZE"));
}

#[test]
fn a_client_generated_for_typescript_does_all_that_there_is_to_do() {
    let tools = Toolbox::node();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = folder.path().join("client");
    copy_folder(&repository("tests/clients/typescript"), &folder);
    std::os::unix::fs::symlink(tools.folder().join("node_modules"), folder.join("node_modules"))
        .expect("a link can be made");
    let document = repository("docs/openapi.json");
    let node = || {
        let mut node = Command::new("node");
        node.current_dir(&folder);
        node
    };

    let mut generate = tools.command("openapi-typescript");
    run(generate.arg(&document).arg("-o").arg(folder.join("plant-store.ts")));
    run(node().arg("generate-exact.mjs").arg(&document).arg("plant-store-exact.ts"));
    run(tools.command("tsc").arg("-p").arg(&folder));
    run_with_server(node().arg("out/walk.js"));
}
