//! The programs in the guide that keep a copy of the store.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use plantd_tests::{
    Document, Launch, Process, TOKEN, TestServer, Toolbox, hold_port, plant_body, wait_until,
};
use serde_json::Value;

/// The names and tags of all plants, by their ids as text.
type Plants = BTreeMap<String, (String, Option<String>)>;

/// The store, by its own list.
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

/// Asserts that the program in this language, in a file of this name, keeps a copy that is equal to the store, although the server is killed, and
/// although it forgets events while the program is away. `read_copy` returns the copy in the folder, if it is there.
#[track_caller]
fn assert_keeps_a_copy(
    language: &str,
    name: &str,
    folder: &Path,
    start: impl Fn() -> Command,
    read_copy: impl Fn() -> Option<Plants>,
) {
    let (_port, address) = hold_port();
    let launch = Launch::new().environment("PLANTD_LISTEN", address.to_string());
    let mut server = TestServer::start_with(launch.clone());
    let change = |server: &TestServer, id: i64| {
        let client = server.client();
        client
            .create(id, "Rosa \"alba\"", Some("Rosaceae"))
            .assert_plant("Rosa \"alba\"", Some("Rosaceae"));
        client.put(id + 1, &plant_body(id + 1, "Salix, alba", None));
        client.delete(id - 1);
    };
    change(&server, i64::MIN + 10);
    let blocks = Document::read("docs/api.md").part("Events").blocks(language);
    let program = blocks.concat().replace("127.0.0.1:8080", &address.to_string());
    fs::write(folder.join(name), program).expect("it can be written");
    let run = || Process::spawn(start().current_dir(folder).env("PLANTS_TOKEN", TOKEN));
    let mut copying = run();
    let wait_for_equality = |server: &TestServer, copying: &mut Process| {
        let plants = plants_of(server);
        wait_until("the copy to be equal to the store", || {
            assert!(copying.is_running(), "it has ended: {}{}", copying.stdout(), copying.stderr());
            read_copy().is_some_and(|copy| copy == plants)
        });
    };
    wait_for_equality(&server, &mut copying);
    for id in [100, 102, i64::MAX - 10] {
        server.kill();
        server.restart();
        change(&server, id);
        wait_for_equality(&server, &mut copying);
    }
    copying.kill();
    server.kill();
    server.restart_with(launch.arguments(["--keep-events", "1", "--keep-events-for", "0s"]));
    (200..210).for_each(|id| change(&server, 10 * id));
    let mut copying = run();
    wait_for_equality(&server, &mut copying);
    change(&server, 3000);
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
        let shown = python("-c").arg(SHOW).output().expect("it can be started");
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
        let copy: Value = serde_json::from_slice(&copy).expect("it is replaced as a whole");
        let plants = copy["plants"].as_object().expect("plants").iter();
        Some(plants.map(|(id, plant)| (id.clone(), name_and_tag(plant))).collect())
    };
    assert_keeps_a_copy("js", "keep-copy.mjs", folder.path(), node, read_copy);
}
