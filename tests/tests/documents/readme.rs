//! The commands and the programs in `README.md` work after the first start, as the README shows them.

use std::fs;
use std::os::unix::fs::symlink;

use plantd_tests::{
    Document, Launch, Shell, TestServer, Toolbox, default_of, program, repository, run_tool,
    set_mode, temporary_folder,
};

/// The headings of the parts with commands.
const TRY: &str = "Try it";
const PROGRAMS: &str = "Use it from a program";
const START_OVER: &str = "Stop, and start over";

fn document() -> Document {
    Document::read("README.md")
}

/// The only code block of a part in a language.
#[track_caller]
fn block(part: &str, language: &str) -> String {
    let blocks = document().part(part).blocks(language);
    let [block] = <[String; 1]>::try_from(blocks).expect("one block");
    block
}

/// A server after its first start, in a folder that has what the commands use of a checkout.
fn first_start() -> TestServer {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, &default_of("--data"), |_| {});
    let folder = server.data().parent().expect("a folder");
    symlink(repository("tests"), folder.join("tests")).expect("a link can be made");
    // The commands rely on the default address, and this server has a free port.
    let script = format!("exec {} \"$@\" --url http://{}\n", program().display(), server.address());
    let path = folder.join("target/release/plantd");
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(&path, format!("#!/bin/sh\n{script}")).expect("writes");
    set_mode(&path, 0o755);
    server
}

#[test]
fn every_command_and_program_of_the_readme_works_after_the_first_start() {
    let mut server = first_start();
    let folder = server.data().parent().expect("a folder").to_owned();
    let shell = Shell::new(&folder, server.address());
    let python = format!("python3 - <<'END'\n{}END", block(PROGRAMS, "python"));
    let node = format!("node --input-type=module - <<'END'\n{}END", block(PROGRAMS, "ts"));
    let curl = block(PROGRAMS, "sh");
    let commands = block(TRY, "sh");

    // Each example works without those before it, and again after them.
    for example in [&python, &node, &curl, &commands, &python, &node, &curl, &commands] {
        shell.run(example);
    }

    let token = fs::read_to_string(folder.join("plantd-data/first-run-token")).expect("reads");
    let client = server.client().with_token(token.trim_end());
    client.read(100_001).assert_new_plant(100_001, "Rosa canina", Some("Rosaceae"));
    client.read(100_002).assert_new_plant(100_002, "Salix alba", Some("Salicaceae"));
    client.read(100_003).assert_new_plant(100_003, "Acer campestre", Some("Sapindaceae"));
    client.read(1).assert_new_plant(1, "shrubby Indian mallow", Some("Malvaceae"));
    let outputs = shell.outputs([python.as_str(), node.as_str(), curl.as_str()]);
    for (output, name) in outputs.iter().zip(["Salix alba", "Acer campestre", "Rosa canina"]) {
        assert!(output.contains(name), "{output}");
    }

    assert_eq!(server.terminate().code(), Some(0));
    shell.run(&block(START_OVER, "sh"));
    server.restart();
    server.client().with_token(token.trim_end()).read(1).assert_error(401, 2002);
    let token = fs::read_to_string(folder.join("plantd-data/first-run-token")).expect("reads");
    server.client().with_token(token.trim_end()).read(1).assert_error(404, 3002);
}

#[test]
fn the_program_for_node_is_typescript() {
    let folder = temporary_folder();
    let tools = Toolbox::node();
    symlink(tools.folder().join("node_modules"), folder.path().join("node_modules")).unwrap();
    fs::write(folder.path().join("plants.mts"), block(PROGRAMS, "ts")).expect("writes");
    let words = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"];
    run_tool(tools.command("tsc").args(words).arg("plants.mts").current_dir(folder.path()));
}
