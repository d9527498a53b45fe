//! `Idempotency-Key`: a repeated create gets the same answer again, and is carried out once.

use plantd_tests::{
    Answer, Client, Connection, TestServer, plant_body, raw_request, replacement_body,
};

use super::{JSON, assert_same, send};

const KEY: &str = r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#;

#[track_caller]
fn create(client: &Client, key: &str, body: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    client.send("POST", "/plants", &headers, body)
}

#[test]
fn the_same_create_with_the_same_key_is_answered_again_and_nothing_is_written() {
    let mut server = TestServer::start();
    let first = create(&server.client(), KEY, r#"{"id":1,"name":"Rosa"}"#);
    first.assert_plant("Rosa", None);
    for _ in 0..2 {
        for body in [
            r#"{"id":1,"name":"Rosa"}"#,
            // The same plant in other words.
            r#" { "name" : "Rosa", "id" : 1 } "#,
            r#"{"id":1,"name":"\u0052osa","tag":null}"#,
            r#"{"id":1,"name":"Rosa","more":true}"#,
        ] {
            let again = create(&server.client(), KEY, body);
            again.assert_plant("Rosa", None);
            assert_eq!(again.header("etag"), first.header("etag"), "{body}");
            assert_eq!(again.header("location"), first.header("location"), "{body}");
        }
        server.kill();
        server.restart();
    }
    // If one of them had been written, it would have taken a revision.
    server.client().create(2, "Abies", None).assert_next_revision_after(&first);
}

#[test]
fn another_key_another_plant_or_none_meets_an_id_that_is_taken() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", Some("R"));
    create(&server.client(), KEY, &body).assert_plant("Rosa", Some("R"));
    let other = plant_body(2, "Rosa", None);
    server.client().create_from(&other).assert_plant("Rosa", None);
    for _ in 0..2 {
        let client = server.client();
        create(&client, r#""another""#, &body).assert_error(400, 3001);
        create(&client, &KEY.to_uppercase(), &body).assert_error(400, 3001);
        client.create_from(&body).assert_error(400, 3001);
        for (name, tag) in
            [("Rosa", None), ("rosa", Some("R")), ("Rosa", Some("r")), ("RosaR", None)]
        {
            create(&client, KEY, &plant_body(1, name, tag)).assert_error(400, 3001);
        }
        client.read(1).assert_new_plant(1, "Rosa", Some("R"));
        // This one was created without a key.
        create(&client, KEY, &other).assert_error(400, 3001);
        assert_eq!(server.terminate().code(), Some(0));
        server.restart();
    }
    // A key is bound to its id: with another id it is a create like any other.
    create(&server.client(), KEY, &plant_body(3, "Abies", None)).assert_plant("Abies", None);
}

#[test]
fn a_create_that_is_sent_again_is_answered_as_it_was_sent_until_the_plant_is_deleted() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", Some("Rosaceae"));
    let first = create(&server.client(), KEY, &body);
    first.assert_plant("Rosa", Some("Rosaceae"));
    for (method, change, name, tag) in [
        ("PUT", replacement_body("Abies", None), "Abies", None),
        ("PATCH", r#"{"tag":"x"}"#.to_owned(), "Abies", Some("x")),
        ("PUT", replacement_body("Picea", Some("x")), "Picea", Some("x")),
        ("PATCH", r#"{"tag":null}"#.to_owned(), "Picea", None),
    ] {
        let client = server.client();
        let headers = [("content-type", "application/json")];
        client.send(method, "/plants/1", &headers, &change).assert_plant(name, tag);
        let before = client.read(1);
        before.assert_new_plant(1, name, tag);
        create(&client, KEY, &body).assert_plant("Rosa", Some("Rosaceae"));
        create(&client, r#""another""#, &body).assert_error(400, 3001);
        client.create_from(&body).assert_error(400, 3001);
        create(&client, KEY, &plant_body(1, name, tag)).assert_error(400, 3001);
        assert_same(&before, &client.read(1), &change);
        server.kill();
        server.restart();
    }
    server.client().delete(1).assert_no_content();
    server.kill();
    server.restart();
    let client = server.client();
    client.read(1).assert_error(404, 3002);
    let anew = create(&client, KEY, &body);
    anew.assert_plant("Rosa", Some("Rosaceae"));
    assert!(anew.revision() > first.revision() + 1, "{first:?} {anew:?}");
    // The digest went with the plant; a plant that a PUT makes has none.
    client.delete(1).assert_no_content();
    client.put(1, &body).assert_made("Rosa", Some("Rosaceae"));
    create(&client, KEY, &body).assert_error(400, 3001);
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

#[test]
fn of_the_same_creates_with_the_same_key_at_once_all_succeed_and_one_is_written() {
    const CLIENTS: usize = 32;
    let server = TestServer::start();
    let lines = format!("{JSON}Idempotency-Key: {KEY}\r\n");
    let request = raw_request("POST /plants", &lines, plant_body(1, "Rosa", None));
    let mut connections: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send(&request);
    }
    let answers: Vec<Answer> = connections.iter_mut().map(Connection::receive).collect();
    for answer in &answers {
        answer.assert_plant("Rosa", None);
        assert_eq!(answer.header("etag"), answers[0].header("etag"));
    }
    server.client().create(2, "Abies", None).assert_next_revision_after(&answers[0]);
}
