//! `plantd batch`, `plantd history` and `plantd get --revision`.

use std::fs;

use plantd_tests::{
    Client, FINDINGS, FakeServer, IO, Launch, TestServer, batch_body, temporary_folder,
};
use tempfile::TempDir;

/// A file with a batch that creates plant 7 and changes it, and the folder of the file.
fn batch_file() -> (TempDir, String) {
    let folder = temporary_folder();
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
    let command = |arguments: &[&str]| Launch::for_server(server.address(), arguments);
    let (_folder, file) = batch_file();
    assert_eq!(
        command(&["batch", &file]).printed(),
        "{\"status\":200,\"headers\":{\"ETag\":\"\\\"1\\\"\",\"Location\":\"/plants/7\"},\"body\":{\"name\":\"Rosa\"}}\n\
         {\"status\":200,\"headers\":{\"ETag\":\"\\\"2\\\"\"},\"body\":{\"name\":\"Rosa\",\"tag\":\"Rosaceae\"}}\n"
    );
    let changes = command(&["history", "7"]).printed();
    let as_array = format!("[{}]", changes.trim_end().replace('\n', ","));
    assert_eq!(as_array, history(&server.client()));
    let newest = command(&["history", "7", "--limit", "1"]).run(0).stdout();
    assert_eq!(newest.lines().collect::<Vec<_>>(), [changes.lines().next().expect("a change")]);

    let first = command(&["get", "7", "--revision", "1"]).printed();
    assert_eq!(first, "{\"id\":7,\"name\":\"Rosa\"}\n");
    for (arguments, words) in [
        (&["get", "7", "--revision", "3"][..], ["revision 3 of plant 7", "3005"]),
        (&["history", "8"], ["no plant", "3002"]),
        // A refused batch names its request.
        (&["batch", &file], ["requests[0]: a plant with id 7 exists", "3001"]),
    ] {
        command(arguments).assert_refused_in_a_line(FINDINGS, &words);
    }
    assert_eq!(command(&["history", "7"]).printed(), changes, "a refused batch changed something");
    command(&["batch", "missing.json"]).assert_refused(IO, &["cannot read missing.json"]);
}

#[test]
fn a_batch_whose_answer_is_lost_happens_once_when_it_is_repeated_as_the_message_says() {
    let deaf = FakeServer::start(|_, _| ());
    let (_folder, file) = batch_file();
    let lost = Launch::for_server(deaf.address, &["batch", &file]);
    let said = lost.assert_refused(IO, &["the batch may have happened", "--idempotency-key"]);
    let (_, key) = said.split_once("--idempotency-key ").expect("a key");
    let key: String = key.chars().take_while(char::is_ascii_alphanumeric).collect();

    let server = TestServer::start();
    let repeat = ["batch", &file, "--idempotency-key", &key];
    let repeated = Launch::for_server(server.address(), &repeat);
    let first = repeated.run(0).stdout();
    assert_eq!(repeated.run(0).stdout(), first);
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
    let ended = Launch::for_server(server.address(), &["history", "7"]).run(0);
    let (changes, said) = (ended.stdout(), ended.stderr());
    assert!(changes.lines().count() < 3, "{changes}");
    assert!(said.contains("older changes are no longer kept"), "{said}");
}
