//! `Idempotency-Key`: a repeated create or batch is carried out once, and gets the same answer again.

use plantd_tests::{
    Answer, Client, TestServer, batch_body, newest_cursor, plant_body, replacement_body,
};

use super::batch::{request, responses};
use super::{JSON, send};

const KEY: &str = r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#;

#[track_caller]
fn post(client: &Client, path: &str, key: &str, body: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    client.send("POST", path, &headers, body)
}

#[track_caller]
fn create(client: &Client, key: &str, body: &str) -> Answer {
    post(client, "/plants", key, body)
}

#[test]
fn the_same_create_with_the_same_key_is_answered_again_and_any_other_meets_a_taken_id() {
    let server = TestServer::start();
    let client = server.client();
    let body = plant_body(1, "Rosa", Some("R"));
    let first = create(&client, KEY, &body);
    first.assert_plant("Rosa", Some("R"));
    for again in [
        &body,
        // Another spelling of the same plant.
        r#" { "tag" : "R", "name" : "\u0052osa", "id" : 1 } "#,
        r#"{"id":1,"name":"Rosa","tag":"R","more":true}"#,
    ] {
        let answer = create(&client, KEY, again);
        answer.assert_plant("Rosa", Some("R"));
        assert_eq!(answer.header("etag"), first.header("etag"), "{again}");
        assert_eq!(answer.header("location"), first.header("location"), "{again}");
    }
    create(&client, r#""another""#, &body).assert_error(400, 3001);
    create(&client, &KEY.to_uppercase(), &body).assert_error(400, 3001);
    client.create_from(&body).assert_error(400, 3001);
    for (name, tag) in [("Rosa", None), ("rosa", Some("R")), ("Rosa", Some("r")), ("RosaR", None)] {
        create(&client, KEY, &plant_body(1, name, tag)).assert_error(400, 3001);
    }
    client.read(1).assert_new_plant(1, "Rosa", Some("R"));
    // A write would have taken a revision.
    client.create(2, "Abies", None).assert_next_revision_after(&first);
    // The first answer comes again whatever the plant is now.
    client.put(1, &replacement_body("Acer", None)).assert_plant("Acer", None);
    create(&client, KEY, &body).assert_plant("Rosa", Some("R"));
    client.read(1).assert_new_plant(1, "Acer", None);
    create(&client, KEY, &plant_body(2, "Abies", None)).assert_error(400, 3001);
    // A key belongs to its id: with another id, this is a create like any other.
    create(&client, KEY, &plant_body(3, "Abies", None)).assert_plant("Abies", None);
}

#[test]
fn a_key_is_quoted_text_of_1_to_255_characters_and_anything_else_is_1007() {
    let server = TestServer::start();
    let [longest, too_long] = [255, 256].map(|length| format!("\"{}\"", "k".repeat(length)));
    let body = plant_body(0, "Rosa", None);
    let unquoted = ["", "k", "7", "?1", ":aGk=:", "\"", "\"k", "k\"", "'k'", "(\"k\")"];
    let broken = ["\"\"", "\"é\"", "\"k\"x", "\"k\\x\"", &too_long];
    let several = ["\"k\", \"l\"", "\"k\"\r\nidempotency-key: \"k\""];
    for value in [&unquoted[..], &broken, &several].concat() {
        let lines = format!("{JSON}Idempotency-Key: {value}\r\n");
        let message = send(&server, "POST /plants", &lines, &body).assert_error(400, 1007);
        assert!(message.contains("Idempotency-Key"), "{value}: {message}");
        server.client().read(0).assert_error(404, 3002);
    }
    for (id, key) in (0..).zip([r#""k""#, r#""a \"b\" \\""#, r#"" ""#, r#"  "k"  "#, &longest]) {
        let body = plant_body(id, "Rosa", None);
        for _ in 0..2 {
            create(&server.client(), key, &body).assert_plant("Rosa", None);
        }
    }
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
fn the_same_bytes_of_a_batch_with_the_same_key_are_answered_again_whatever_happened_since() {
    let mut server = TestServer::start();
    let first = post(&server.client(), "/batch", KEY, &batch());
    let statuses: Vec<_> = responses(&first).iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, [200, 200, 201, 204]);
    let assert_answered_again = |client: &Client, case: &str| {
        let (plant, cursor) = (client.read(1), newest_cursor(client));
        let again = post(client, "/batch", KEY, &batch());
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
    assert_eq!(post(&client, "/batch", KEY, &batch).status, 200);
    let lines = format!("{JSON}Idempotency-Key: {}\r\n", KEY.to_uppercase());
    for answer in [
        post(&client, "/batch", KEY, &format!("{batch} ")),
        post(&client, "/batch", KEY, &batch.replace("Salix", "salix")),
        post(&client, "/batch", r#""another""#, &batch),
        send(&server, "POST /batch", &lines, &batch),
        send(&server, "POST /batch", JSON, &batch),
    ] {
        let message = answer.assert_error(400, 3001);
        assert!(message.starts_with("requests[0]: "), "{message}");
    }
    let other = batch_body(&[request("PUT", "/plants/3", r#"{"name":"Ilex"}"#).json()]);
    assert_eq!(post(&client, "/batch", KEY, &other).json()["responses"][0]["status"], 201);
    // The key of a batch is not that of a create in it.
    create(&client, KEY, r#"{"id":1,"name":"Rosa"}"#).assert_error(400, 3001);
}

#[test]
fn a_create_in_a_batch_keeps_its_own_key() {
    let server = TestServer::start();
    let client = server.client();
    let body = r#"{"id":1,"name":"Rosa"}"#;
    let key = &[("idempotency-key", r#""k""#)];
    let of_batch = request("POST", "/plants", body).with(key).json();
    let first = client.batch(&[&of_batch]);
    let after = newest_cursor(&client);
    let again = create(&client, r#""k""#, body);
    again.assert_plant("Rosa", None);
    assert_eq!(first.json()["responses"][0]["headers"]["ETag"].as_str(), again.header("etag"));
    assert_eq!(client.batch(&[&of_batch]).json(), first.json());
    assert_eq!(newest_cursor(&client), after);
}
