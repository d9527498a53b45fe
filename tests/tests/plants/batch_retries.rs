//! `Idempotency-Key` of a whole batch: a repeated batch is carried out once, and gets the same answer again.

use plantd_tests::{Answer, Client, TestServer, batch_body, newest_cursor, replacement_body};

use super::batch::{request, responses};
use super::{JSON, send};

const KEY: &str = r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#;

#[track_caller]
fn send_with_key(client: &Client, key: &str, body: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    client.send("POST", "/batch", &headers, body)
}

/// Creates 1, changes 1, creates and deletes 2.
fn batch() -> String {
    batch_body(&[
        request("POST", "/plants", r#"{"id":1,"name":"Rosa"}"#).json(),
        request("PATCH", "/plants/1", r#"{"tag":"Rosaceae"}"#).json(),
        request("PUT", "/plants/2", r#"{"name":"Salix"}"#).json(),
        request("DELETE", "/plants/2", "").json(),
    ])
}

#[test]
fn the_same_bytes_with_the_same_key_are_answered_again_whatever_happened_since() {
    let mut server = TestServer::start();
    let first = send_with_key(&server.client(), KEY, &batch());
    let statuses: Vec<_> = responses(&first).iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, [200, 200, 201, 204]);
    let assert_answered_again = |client: &Client, case: &str| {
        let (plant, cursor) = (client.read(1), newest_cursor(client));
        let again = send_with_key(client, KEY, &batch());
        assert_eq!((again.status, again.json()), (200, first.json()), "{case}");
        assert_eq!((client.read(1).body, newest_cursor(client)), (plant.body, cursor), "{case}");
    };
    assert_answered_again(&server.client(), "at once");
    server.client().put(1, &replacement_body("Acer", None)).assert_plant("Acer", None);
    assert_answered_again(&server.client(), "after a change");
    server.client().delete(1).assert_no_content();
    assert_answered_again(&server.client(), "after a deletion");
    server.kill();
    server.restart();
    assert_answered_again(&server.client(), "after a crash");
}

#[test]
fn other_bytes_another_key_or_no_key_make_another_batch() {
    let server = TestServer::start();
    let client = server.client();
    let batch = batch();
    assert_eq!(send_with_key(&client, KEY, &batch).status, 200);
    let lines = format!("{JSON}Idempotency-Key: {}\r\n", KEY.to_uppercase());
    for answer in [
        send_with_key(&client, KEY, &format!("{batch} ")),
        send_with_key(&client, KEY, &batch.replace("Salix", "salix")),
        send_with_key(&client, r#""another""#, &batch),
        send(&server, "POST /batch", &lines, &batch),
        send(&server, "POST /batch", JSON, &batch),
    ] {
        let message = answer.assert_error(400, 3001);
        assert!(message.starts_with("requests[0]: "), "{message}");
    }
    let other = batch_body(&[request("PUT", "/plants/3", r#"{"name":"Ilex"}"#).json()]);
    assert_eq!(send_with_key(&client, KEY, &other).json()["responses"][0]["status"], 201);
    // The key of a batch is not that of a create in it.
    let created = [("content-type", "application/json"), ("idempotency-key", KEY)];
    let create = client.send("POST", "/plants", &created, r#"{"id":1,"name":"Rosa"}"#);
    create.assert_error(400, 3001);
}

#[test]
fn a_create_in_a_batch_keeps_its_own_key() {
    let server = TestServer::start();
    let client = server.client();
    let body = r#"{"id":1,"name":"Rosa"}"#;
    let create = format!(
        r#"{{"method":"POST","path":"/plants","headers":{{"idempotency-key":"\"k\""}},"body":{body}}}"#
    );
    let first = client.batch(&[&create]);
    let after = newest_cursor(&client);
    let alone = [("content-type", "application/json"), ("idempotency-key", r#""k""#)];
    let again = client.send("POST", "/plants", &alone, body);
    again.assert_plant("Rosa", None);
    assert_eq!(first.json()["responses"][0]["headers"]["ETag"].as_str(), again.header("etag"));
    assert_eq!(client.batch(&[&create]).json(), first.json());
    assert_eq!(newest_cursor(&client), after);
}
