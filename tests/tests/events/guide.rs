//! The programs in the API guide that keep a copy of the store.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use plantd_tests::{
    Document, Launch, Process, TOKEN, TestServer, Toolbox, hold_port, replacement_body, wait_until,
};
use serde_json::Value;

/// The names and tags of all plants, by their ids as text.
type Plants = BTreeMap<String, (String, Option<String>)>;

/// The plants of the store, by its list.
#[track_caller]
fn plants_of(server: &TestServer) -> Plants {
    let list = server.client().get("/plants?limit=1000").json();
    let plants = list.as_array().expect("an array").iter();
    plants.map(|plant| (plant["id"].to_string(), name_and_tag(plant))).collect()
}

fn name_and_tag(plant: &Value) -> (String, Option<String>) {
    let text = |member: &str| plant[member].as_str().map(str::to_owned);
    (text("name").expect("a name"), text("tag"))
}

/// Asserts that the guide's program in this language keeps a copy equal to the store, across kills of the server and
/// after events were forgotten. The program is stored under this file name; `read_copy` returns its copy, if there is
/// one.
#[track_caller]
fn assert_keeps_a_copy(
    language: &str,
    file: &str,
    folder: &Path,
    start: impl Fn() -> Command,
    read_copy: impl Fn() -> Option<Plants>,
) {
    let (_port, address) = hold_port();
    let launch = Launch::new().environment("PLANTD_LISTEN", address.to_string());
    let mut server = TestServer::start_with(launch.clone());
    // U+2028 ends no line of CSV, although some languages take it for the end of one.
    let name = "Rosa\u{2028}\"alba\"";
    let create = |server: &TestServer, id: i64| {
        let client = server.client();
        client.create(id, name, Some("Rosaceae")).assert_plant(name, Some("Rosaceae"));
        client.put(id + 1, &replacement_body("Salix, alba", None)).assert_made("Salix, alba", None);
        client.create(id + 2, "Abies\u{2028}alba", None).assert_plant("Abies\u{2028}alba", None);
    };
    let change = |server: &TestServer, id: i64| {
        let client = server.client();
        client.put(id, &replacement_body("Acer", None)).assert_plant("Acer", None);
        client.delete(id + 1).assert_no_content();
    };
    let first = i64::MIN;
    create(&server, first);
    let blocks = Document::read("docs/api.md").part("Events").blocks(language);
    let program = blocks.concat().replace("127.0.0.1:8080", &address.to_string());
    fs::write(folder.join(file), program).expect("a file can be written");
    let run = || Process::spawn(start().current_dir(folder).env("PLANTS_TOKEN", TOKEN));
    let mut copying = run();
    let wait_for_equality = |server: &TestServer, copying: &mut Process| {
        let plants = plants_of(server);
        wait_until("the copy to be equal to the store", || {
            assert!(
                copying.is_running(),
                "the program has ended: {}{}",
                copying.stdout(),
                copying.stderr()
            );
            read_copy().is_some_and(|copy| copy == plants)
        });
    };
    wait_for_equality(&server, &mut copying);
    let ids = [first, 100, i64::MAX - 2];
    for (last, id) in ids.into_iter().zip(&ids[1..]) {
        server.kill();
        server.restart();
        change(&server, last);
        create(&server, *id);
        wait_for_equality(&server, &mut copying);
    }
    copying.kill();
    server.kill();
    server.restart_with(launch.arguments(["--keep-events", "1", "--keep-events-for", "0s"]));
    (100..110).for_each(|id| create(&server, 10 * id));
    change(&server, 1000);
    let mut copying = run();
    wait_for_equality(&server, &mut copying);
    create(&server, 3000);
    wait_for_equality(&server, &mut copying);
}

#[test]
fn the_program_in_python_keeps_a_copy_across_kills_and_forgotten_events() {
    const SHOW: &str = "import json, sqlite3; print(json.dumps(list(\
        sqlite3.connect('file:copy.db?mode=ro', uri=True).execute('SELECT id, name, tag FROM plants'))))";
    let tools = Toolbox::python();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let python = |argument: &str| {
        let mut command = tools.command("python");
        command.arg(argument).current_dir(folder.path());
        command
    };
    let read_copy = || {
        let shown = python("-c").arg(SHOW).output().expect("the program can be started");
        let rows: Value = serde_json::from_slice(&shown.stdout).ok()?;
        let text = |cell: &Value| cell.as_str().map(str::to_owned);
        let rows = rows.as_array().expect("rows").iter();
        Some(
            rows.map(|row| (row[0].to_string(), (text(&row[1]).expect("a name"), text(&row[2]))))
                .collect(),
        )
    };
    assert_keeps_a_copy(
        "python",
        "keep_copy.py",
        folder.path(),
        || python("keep_copy.py"),
        read_copy,
    );
}

#[test]
fn the_program_in_javascript_keeps_a_copy_across_kills_and_forgotten_events() {
    let tools = Toolbox::node();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let packages = tools.folder().join("node_modules");
    std::os::unix::fs::symlink(packages, folder.path().join("node_modules")).expect("a link");
    let node = || {
        let mut command = tools.command("node");
        command.arg("keep-copy.mjs");
        command
    };
    let read_copy = || {
        let copy = fs::read(folder.path().join("copy.json")).ok()?;
        let copy: Value = serde_json::from_slice(&copy).expect("the copy is replaced as a whole");
        let plants = copy["plants"].as_object().expect("plants").iter();
        Some(plants.map(|(id, plant)| (id.clone(), name_and_tag(plant))).collect())
    };
    assert_keeps_a_copy("js", "keep-copy.mjs", folder.path(), node, read_copy);
}
