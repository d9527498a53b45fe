//! Clients that well-known generators make from the document, and the programs in the guide that use them.

use std::fs;
use std::path::Path;
use std::process::Command;

use plantd_tests::{Document, Part, TOKEN, TestServer, Toolbox, copy_folder, repository, run_tool};

/// Runs a program with an empty store.
#[track_caller]
fn run_with_server(program: &mut Command) {
    let server = TestServer::start();
    program.env("PLANTS_URL", format!("http://{}", server.address())).env("PLANTS_TOKEN", TOKEN);
    run_tool(program);
}

/// The part of the guide with this heading.
fn guide(heading: &str) -> Part {
    Document::read("docs/api.md").part(heading).clone()
}

/// Writes the program below this heading of the guide to a file, and runs it with a server.
#[track_caller]
fn run_of_guide(heading: &str, language: &str, path: &Path, start: impl FnOnce() -> Command) {
    let server = TestServer::start();
    let programs = guide(heading).blocks(language);
    // Later blocks continue the program.
    let program = programs.concat().replace("127.0.0.1:8080", &server.address().to_string());
    fs::write(path, program).expect("it can be written");
    run_tool(start().env("PLANTS_TOKEN", TOKEN));
    let plants = server.client().list("").plants().len();
    assert_eq!(plants, programs.len(), "a program of the guide made no plant");
}

#[test]
fn a_client_generated_for_python_has_every_operation_and_walks_through_the_store() {
    let tools = Toolbox::python();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let sources = repository("tests/clients/python");
    let client = folder.path().join("plant_store");
    // A warning means that the client lacks an operation or a member.
    let mut generate = tools.command("openapi-python-client");
    generate.args(["generate", "--meta", "none", "--fail-on-warning", "--path"]);
    generate.arg(repository("docs/openapi.json")).arg("--output-path").arg(&client);
    run_tool(generate.arg("--config").arg(sources.join("generator.yaml")));

    // The guide has the same settings.
    let settings = fs::read_to_string(sources.join("generator.yaml")).expect("they are there");
    let [commands] = <[String; 1]>::try_from(guide("Python").blocks("sh")).expect("one block");
    assert!(commands.contains(settings.split_once('\n').expect("a comment").1), "{commands}");

    let walk = sources.join("walk.py");
    // Checks the walk against the types of the generated code, and not that code. A cache could be of another client.
    let mut check = tools.command("mypy");
    check.args(["--strict", "--follow-imports", "silent", "--cache-dir", "/dev/null"]);
    run_tool(check.arg(&walk).env("MYPYPATH", folder.path()));

    let mut walk_through = tools.command("python");
    walk_through.arg(&walk).env("PYTHONPATH", folder.path());
    // This variable would disable the assertions.
    run_with_server(walk_through.env_remove("PYTHONOPTIMIZE"));

    let first = folder.path().join("first.py");
    run_of_guide("Python", "python", &first, || {
        let mut command = tools.command("python");
        command.arg(&first);
        command
    });
}

#[test]
fn a_client_generated_for_typescript_walks_through_the_store_with_any_id() {
    let tools = Toolbox::node();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = folder.path().join("client");
    copy_folder(&repository("tests/clients/typescript"), &folder);
    std::os::unix::fs::symlink(tools.folder().join("node_modules"), folder.join("node_modules"))
        .expect("a link can be made");
    let document = repository("docs/openapi.json");
    let node = || {
        let mut node = tools.command("node");
        node.current_dir(&folder);
        node
    };

    let mut generate = tools.command("openapi-typescript");
    run_tool(generate.arg(&document).arg("-o").arg(folder.join("plant-store.ts")));
    run_tool(node().arg("generate-exact.mjs").arg(&document).arg("plant-store-exact.ts"));
    run_tool(tools.command("tsc").arg("-p").arg(&folder));
    run_with_server(node().arg("out/walk.js"));

    run_of_guide("TypeScript", "ts", &folder.join("first.mts"), || {
        let mut compile = tools.command("tsc");
        // As the guide says.
        let commands = guide("TypeScript").blocks("sh").concat();
        let line = commands.lines().find_map(|line| line.strip_prefix("npx tsc "));
        compile.args(line.expect("it says how").split_whitespace());
        run_tool(compile.current_dir(&folder));
        let mut first = node();
        first.arg("first.mjs");
        first
    });
}
