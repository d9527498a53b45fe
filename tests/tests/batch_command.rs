//! `plantd batch`, `plantd history` and `plantd get --revision`: what they print, and their exit codes.

use std::fs;
use std::net::SocketAddr;

use plantd_tests::{Client, FakeServer, IO, Launch, TestServer, batch_body};

const FINDINGS: i32 = 1;

/// The command for the server at this address.
fn command(address: SocketAddr, arguments: &[&str]) -> Launch {
    let url = format!("http://{address}");
    Launch::new().arguments(arguments.iter().copied()).arguments(["--url", &url])
}

/// What the command prints, and what it says on standard error.
#[track_caller]
fn printed(launch: &Launch) -> (String, String) {
    let mut process = launch.spawn();
    process.assert_exit_code(0);
    (process.stdout(), process.stderr())
}

/// A file with a batch that creates plant 7 and changes it, and the folder of the file.
fn batch_file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("batch.json");
    let requests = [
        r#"{"method":"POST","path":"/plants","body":{"id":7,"name":"Rosa"}}"#,
        r#"{"method":"PATCH","path":"/plants/7","body":{"tag":"Rosaceae"}}"#,
    ];
    fs::write(&path, batch_body(&requests)).expect("writes");
    (folder, path.to_str().expect("UTF-8").to_owned())
}

#[track_caller]
fn history(client: &Client) -> String {
    let history = client.get("/plants/7/history");
    assert_eq!(history.status, 200, "{history:?}");
    String::from_utf8(history.body).expect("UTF-8")
}

#[test]
fn the_answers_of_a_batch_and_the_changes_of_a_plant_are_printed_on_a_line_each() {
    let server = TestServer::start();
    let (_folder, file) = batch_file();
    let (answers, said) = printed(&command(server.address(), &["batch", &file]));
    assert_eq!(said, "");
    assert_eq!(
        answers,
        "{\"status\":200,\"headers\":{\"ETag\":\"\\\"1\\\"\",\"Location\":\"/plants/7\"},\"body\":{\"name\":\"Rosa\"}}\n\
         {\"status\":200,\"headers\":{\"ETag\":\"\\\"2\\\"\"},\"body\":{\"name\":\"Rosa\",\"tag\":\"Rosaceae\"}}\n"
    );
    let (changes, said) = printed(&command(server.address(), &["history", "7"]));
    assert_eq!(said, "");
    let as_array = format!("[{}]", changes.trim_end().replace('\n', ","));
    assert_eq!(as_array, history(&server.client()));
    let (newest, _) = printed(&command(server.address(), &["history", "7", "--limit", "1"]));
    assert_eq!(newest.lines().collect::<Vec<_>>(), [changes.lines().next().expect("a change")]);

    let get = ["get", "7", "--revision", "1"];
    assert_eq!(printed(&command(server.address(), &get)).0, "{\"id\":7,\"name\":\"Rosa\"}\n");
    let get = ["get", "7", "--revision", "3"];
    command(server.address(), &get).assert_refused(FINDINGS, &["revision 3 of plant 7", "3005"]);
    command(server.address(), &["history", "8"]).assert_refused(FINDINGS, &["no plant", "3002"]);
}

#[test]
fn a_refused_batch_names_its_request_and_changes_nothing() {
    let server = TestServer::start();
    let client = server.client();
    client.create(7, "Salix", None).assert_plant("Salix", None);
    let (_folder, file) = batch_file();
    let refused = command(server.address(), &["batch", &file]);
    refused.assert_refused(FINDINGS, &["requests[0]: ", "plant with id 7 exists", "3001"]);
    client.read(7).assert_new_plant(7, "Salix", None);
    let missing = command(server.address(), &["batch", "missing.json"]);
    missing.assert_refused(IO, &["cannot read missing.json"]);
}

#[test]
fn a_batch_whose_answer_is_lost_happens_once_when_it_is_repeated_as_the_message_says() {
    let deaf = FakeServer::start(|_, _| ());
    let (_folder, file) = batch_file();
    let lost = command(deaf.address, &["batch", &file]);
    let said = lost.assert_refused(IO, &["the batch may have happened", "--idempotency-key"]);
    let (_, key) = said.split_once("--idempotency-key ").expect("a key");
    let key: String = key.chars().take_while(char::is_ascii_alphanumeric).collect();

    let server = TestServer::start();
    let repeated = command(server.address(), &["batch", &file, "--idempotency-key", &key]);
    let (first, _) = printed(&repeated);
    assert_eq!(printed(&repeated).0, first);
    assert_eq!(history(&server.client()).matches("\"revision\"").count(), 2);
}

#[test]
fn a_history_whose_older_changes_are_forgotten_says_so() {
    let mut server = TestServer::start_with(Launch::new().keep_only_events("1"));
    let client = server.client();
    client.create(7, "Rosa", None).assert_plant("Rosa", None);
    for name in ["Salix", "Acer"] {
        assert_eq!(client.put(7, &format!("{{\"name\":\"{name}\"}}")).status, 200);
    }
    // A store forgets when it closes, at the latest.
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    let (changes, said) = printed(&command(server.address(), &["history", "7"]));
    assert!(changes.lines().count() < 3, "{changes}");
    assert!(said.contains("older changes are no longer kept"), "{said}");
}
