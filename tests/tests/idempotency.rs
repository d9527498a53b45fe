//! `Idempotency-Key`: a create that is sent again is answered again, and done once.

use plantd_tests::{Answer, Client, TOKEN, TestServer, create_request, plant_body};

const KEY: &str = r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#;

#[track_caller]
fn create(client: &Client, key: &str, body: &str) -> Answer {
    client.create_with(&[("idempotency-key", key)], body)
}

/// Sends a create whose key headers are these lines.
#[track_caller]
fn create_with_lines(server: &TestServer, lines: &str, body: &str) -> Answer {
    let request = create_request(body);
    let mut connection = server.connect();
    connection.send(request.replacen("Content-Type:", &format!("{lines}Content-Type:"), 1));
    connection.receive()
}

#[test]
fn the_same_create_with_the_same_key_is_answered_again_and_nothing_is_written() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", Some("Rosaceae"));
    let first = create(&server.client(), KEY, &body);
    first.assert_plant("Rosa", Some("Rosaceae"));
    for _ in 0..2 {
        let client = server.client();
        for _ in 0..3 {
            let again = create(&client, KEY, &body);
            again.assert_plant("Rosa", Some("Rosaceae"));
            assert_eq!(again.header("etag"), first.header("etag"));
            assert_eq!(again.header("location"), first.header("location"));
        }
        server.kill();
        server.restart();
    }
    // Had one of them been written, it would have taken a revision.
    let next = server.client().create(2, "Abies", None);
    next.assert_next_revision_after(&first);
}

#[test]
fn the_same_plant_spelled_otherwise_is_the_same_create() {
    let server = TestServer::start();
    let client = server.client();
    let first = create(&client, KEY, r#"{"id":1,"name":"Rosa"}"#);
    first.assert_plant("Rosa", None);
    for body in [
        r#" { "name" : "Rosa", "id" : 1 } "#,
        r#"{"id":1,"name":"\u0052osa","tag":null}"#,
        r#"{"id":1,"name":"Rosa","more":true}"#,
    ] {
        let again = create(&client, KEY, body);
        again.assert_plant("Rosa", None);
        assert_eq!(again.header("etag"), first.header("etag"), "{body}");
    }
}

#[test]
fn another_key_or_none_meets_an_id_that_is_taken() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    create(&server.client(), KEY, &body).assert_plant("Rosa", None);
    for _ in 0..2 {
        let client = server.client();
        create(&client, r#""another""#, &body).assert_error(400, 3001);
        create(&client, &KEY.to_uppercase(), &body).assert_error(400, 3001);
        client.create_from(&body).assert_error(400, 3001);
        assert_eq!(server.terminate().code(), Some(0));
        server.restart();
    }
}

#[test]
fn a_key_that_comes_after_a_create_without_one_meets_an_id_that_is_taken() {
    let server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    server.client().create_from(&body).assert_plant("Rosa", None);
    create(&server.client(), KEY, &body).assert_error(400, 3001);
}

#[test]
fn the_same_key_for_another_plant_meets_an_id_that_is_taken() {
    let server = TestServer::start();
    let client = server.client();
    create(&client, KEY, &plant_body(1, "Rosa", Some("R"))).assert_plant("Rosa", Some("R"));
    for (name, tag) in [("Rosa", None), ("rosa", Some("R")), ("Rosa", Some("r")), ("RosaR", None)] {
        create(&client, KEY, &plant_body(1, name, tag)).assert_error(400, 3001);
    }
    client.read(1).assert_new_plant(1, "Rosa", Some("R"));
    // A key is bound to its id: with another one it is a create like any other.
    create(&client, KEY, &plant_body(2, "Abies", None)).assert_plant("Abies", None);
}

#[test]
fn a_key_is_text_of_1_to_255_characters() {
    let server = TestServer::start();
    let client = server.client();
    let longest = format!("\"{}\"", "k".repeat(255));
    for (id, key) in (1..).zip([r#""k""#, r#""a \"b\" \\""#, r#"" ""#, r#"  "k"  "#, &longest]) {
        let body = plant_body(id, "Rosa", None);
        create(&client, key, &body).assert_plant("Rosa", None);
        create(&client, key, &body).assert_plant("Rosa", None);
    }
}

#[test]
fn a_key_that_is_none_is_1007_and_nothing_is_created() {
    let server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let too_long = format!("\"{}\"", "k".repeat(256));
    for value in [
        "",
        "k",
        "7",
        "?1",
        ":aGk=:",
        "\"",
        "\"\"",
        "\"k",
        "k\"",
        "\"é\"",
        "\"k\"x",
        "\"k\\x\"",
        "'k'",
        "(\"k\")",
        "\"k\", \"l\"",
        &too_long,
    ] {
        let line = format!("Idempotency-Key: {value}\r\n");
        let message = create_with_lines(&server, &line, &body).assert_error(400, 1007);
        assert!(message.contains("Idempotency-Key"), "{value}: {message}");
    }
    let lines = "Idempotency-Key: \"k\"\r\nidempotency-key: \"k\"\r\n";
    create_with_lines(&server, lines, &body).assert_error(400, 1007);
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn of_the_same_creates_with_the_same_key_at_once_all_succeed_and_one_is_written() {
    const CLIENTS: usize = 32;
    let server = TestServer::start();
    let request = create_request(&plant_body(1, "Rosa", None));
    let keyed = format!("Authorization: Bearer {TOKEN}\r\nIdempotency-Key: {KEY}\r\n");
    let request = request.replacen(&format!("Authorization: Bearer {TOKEN}\r\n"), &keyed, 1);
    let mut connections: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send(&request);
    }
    let answers: Vec<Answer> = connections.iter_mut().map(|one| one.receive()).collect();
    for answer in &answers {
        answer.assert_plant("Rosa", None);
        assert_eq!(answer.header("etag"), answers[0].header("etag"));
    }
    let next = server.client().create(2, "Abies", None);
    next.assert_next_revision_after(&answers[0]);
}
