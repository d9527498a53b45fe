//! `Idempotency-Key`: a repeated create is carried out once, and gets the same answer again.

use plantd_tests::{Answer, Client, TestServer, plant_body, replacement_body};

use super::{JSON, send};

const KEY: &str = r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#;

#[track_caller]
fn create(client: &Client, key: &str, body: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    client.send("POST", "/plants", &headers, body)
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
