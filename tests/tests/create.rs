//! `POST /plants`: what it answers, and what it refuses.

use plantd_tests::{
    Answer, Connection, Format, TOKEN, TestServer, create_request, plant_body, raw_request,
};

/// The largest body that is read, in bytes.
const BODY_MAX_BYTES: usize = 65_536;

/// An id that nothing in this file creates, so that what was refused can be seen to be absent.
const REFUSED_ID: i64 = 7;

const JSON: &str = "Content-Type: application/json\r\n";

/// Sends a create whose headers beside the token and the length are these.
#[track_caller]
fn send(connection: &mut Connection, headers: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    connection.send([head.as_bytes(), body].concat());
    connection.receive()
}

/// A valid body of exactly this many bytes.
fn body_of(id: i64, bytes: usize) -> String {
    let shortest = format!(r#"{{"id":{id},"name":"Rosa","note":""}}"#).len();
    format!(r#"{{"id":{id},"name":"Rosa","note":"{}"}}"#, "x".repeat(bytes - shortest))
}

fn chunked(bytes: usize, body: &str) -> Vec<u8> {
    let mut message = format!(
        "POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n{JSON}\
         Transfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in body.as_bytes().chunks(bytes) {
        message.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        message.extend_from_slice(chunk);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"0\r\n\r\n");
    message
}

#[test]
fn a_create_answers_200_with_name_and_tag_and_nothing_else() {
    let server = TestServer::start();
    let answer = server.client().create(1, "Rosa canina", Some("Rosaceae"));
    answer.assert_plant("Rosa canina", Some("Rosaceae"));
    assert_eq!(answer.header("location"), Some("/plants/1"));
    assert!(answer.revision() > 0, "{answer:?}");
}

#[test]
fn a_plant_without_a_tag_is_answered_without_the_member() {
    let server = TestServer::start();
    let client = server.client();
    client.create_from(r#"{"id":1,"name":"Rosa"}"#).assert_plant("Rosa", None);
    client.create_from(r#"{"id":2,"name":"Rosa","tag":null}"#).assert_plant("Rosa", None);
    client.read(1).assert_new_plant(1, "Rosa", None);
    client.read(2).assert_new_plant(2, "Rosa", None);
}

#[test]
fn the_entity_tag_of_a_create_is_that_of_the_read_and_differs_from_plant_to_plant() {
    let server = TestServer::start();
    let client = server.client();
    let (first, second) = (client.create(1, "Rosa", None), client.create(2, "Rosa", None));
    assert!(second.revision() > first.revision(), "{first:?} {second:?}");
    assert_eq!(client.read(1).header("etag"), first.header("etag"));
    assert_eq!(client.read(2).header("etag"), second.header("etag"));
}

#[test]
fn an_id_that_is_taken_is_refused_and_nothing_changes() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    let before = client.read(1);
    for (name, tag) in [("Rosa", Some("Rosaceae")), ("Rosa", None), ("Abies", Some("Pinaceae"))] {
        let message = client.create(1, name, tag).assert_error(400, 3001);
        assert!(message.contains("id"), "{message}");
        let after = client.read(1);
        after.assert_new_plant(1, "Rosa", Some("Rosaceae"));
        assert_eq!(after.header("etag"), before.header("etag"));
    }
}

#[test]
fn every_int64_is_an_id() {
    let server = TestServer::start();
    let client = server.client();
    let ids = [i64::MIN, i64::MIN + 1, -1, 0, 1, 9_007_199_254_740_993, i64::MAX - 1, i64::MAX];
    for id in ids {
        let name = format!("plant {id}");
        let answer = client.create(id, &name, None);
        answer.assert_plant(&name, None);
        assert_eq!(answer.header("location"), Some(format!("/plants/{id}").as_str()));
    }
    for id in ids {
        client.read(id).assert_new_plant(id, &format!("plant {id}"), None);
        client.create(id, "another", None).assert_error(400, 3001);
    }
}

#[test]
fn texts_are_kept_exactly_as_they_were_sent() {
    let server = TestServer::start();
    let client = server.client();
    let longest = "𝒑".repeat(255);
    let texts = [
        "a",
        " begins and ends with a space ",
        "Ä×ö – “quoted” 'n \"plain\" \\ / , ;",
        "e\u{301} is not é",
        "İstanbul ẞ ǅ",
        "植物 растение نبات",
        "🌱👩\u{200d}🌾🏳\u{fe0f}\u{200d}🌈",
        "\u{feff}\u{200b}zero width",
        "\u{2028}x\u{2029}\u{a0}",
        "\u{fffd}\u{ffff}\u{10ffff}\u{e000}",
        "<script>&amp;%41+",
        "null",
        &longest,
    ];
    for (id, text) in (0..).zip(texts) {
        client.create(id, text, Some(text)).assert_plant(text, Some(text));
        client.read(id).assert_new_plant(id, text, Some(text));
    }
}

#[test]
fn a_valid_body_is_taken_whatever_its_spelling() {
    let server = TestServer::start();
    let client = server.client();
    for (id, body) in (1..).zip([
        "\r\n\t {\n\"tag\" : \"R\" ,\"name\" : \"Rosa\" ,\"id\": 1 }\t\r\n",
        r#"{"\u0069d":2,"n\u0061me":"\u0052osa","tag":"\u0052"}"#,
        r#"{"id":3,"name":"Rosa","tag":"R","more":{"id":8,"name":[1e999,null]},"Name":1,"":2}"#,
        r#"{"id":4,"name":"Rosa","tag":"R","height":1,"height":2}"#,
    ]) {
        let answer = client.create_from(body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.assert_plant("Rosa", Some("R"));
        client.read(id).assert_new_plant(id, "Rosa", Some("R"));
    }
}

#[test]
fn the_media_type_of_json_is_taken_in_every_case_and_with_its_charset() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for (id, content_type) in (1..).zip([
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        "application/json; charset=\"utf-8\"",
        "application/json; profile=x",
    ]) {
        let headers = format!("content-TYPE: {content_type}\r\n");
        let answer = send(&mut connection, &headers, plant_body(id, "Rosa", None).as_bytes());
        assert_eq!(answer.status, 200, "{content_type}: {answer:?}");
        answer.assert_plant("Rosa", None);
    }
}

/// What is sent, the error number, and what the message must hold.
type Refusal<'a> = (&'a str, &'a [u8], i32, &'a [&'a str]);

/// Every refusal has the error body, and leaves the plant uncreated.
#[track_caller]
fn check(refusals: &[Refusal<'_>]) {
    let server = TestServer::start();
    for (headers, body, number, words) in refusals {
        let shown = String::from_utf8_lossy(body);
        // A refusal may close the connection: that is no part of the contract.
        let answer = send(&mut server.connect(), headers, body);
        assert_eq!(answer.status, 400, "{headers:?} {shown}: {answer:?}");
        assert_eq!(answer.json()["error"], *number, "{headers:?} {shown}: {answer:?}");
        let message = answer.assert_error(400, *number);
        for word in *words {
            assert!(message.contains(word), "{shown}: {message:?} does not name {word:?}");
        }
        server.client().read(REFUSED_ID).assert_error(404, 3002);
    }
    server.client().create(REFUSED_ID, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn what_is_not_json_to_its_end_is_1001_whatever_else_is_wrong() {
    let bodies: [&[u8]; 26] = [
        b"",
        b" ",
        b"{",
        b"nul",
        b"[1,",
        br#"{"id":7,"name":"Rosa"}}"#,
        br#"{"id":7,"name":"Rosa"} x"#,
        br#"{"id":7,"name":"Rosa"}{"id":7,"name":"Rosa"}"#,
        br#"{"id":7,"name":"Rosa",}"#,
        br#"{"id":7 "name":"Rosa"}"#,
        br#"{"id":07,"name":"Rosa"}"#,
        br#"{"id":+7,"name":"Rosa"}"#,
        br#"{"id":7.,"name":"Rosa"}"#,
        br#"{"id":NaN,"name":"Rosa"}"#,
        br#"{'id':7,'name':'Rosa'}"#,
        br#"{"id":"7","name":4,"more":tru}"#,
        br#"{"id":7,"id":8,"name":""#,
        b"{\"id\":7,\"name\":\"Ro\nsa\"}",
        b"{\"id\":7,\"name\":\"Rosa\",\"ta\ng\":1}",
        b"{\"id\":7,\"name\":\"Rosa\",\"\x1f\":1}",
        br#"{"id":7,"name":"Ro\xsa"}"#,
        br#"{"id":7,"name":"\ud800"}"#,
        br#"{"id":7,"name":"Rosa","tag":"\udc00x"}"#,
        b"\xef\xbb\xbf{\"id\":7,\"name\":\"Rosa\"}",
        b"{\"id\":7,\"name\":\"R\xf6sa\"}",
        b"{\"id\":7,\"name\":\"Rosa\",\"more\":\"\xed\xa0\x80\"}",
    ];
    check(&bodies.map(|body| (JSON, body, 1001, &["JSON"] as &[&str])));
}

#[test]
fn another_content_type_is_1002() {
    let body = plant_body(REFUSED_ID, "Rosa", None);
    let headers = [
        "",
        "Content-Type:\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: text/json\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/jsonx\r\n",
        "Content-Type: application/merge-patch+json\r\n",
        "Content-Type: application/json; charset=latin1\r\n",
        "Content-Type: application/json, application/json\r\n",
        "Content-Type: application/json\r\nContent-Type: application/json\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        "Content-Type: \u{e4}pplication/json\r\n",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
    ];
    let words: &[&str] = &["ontent"];
    check(&headers.map(|headers| (headers, body.as_bytes(), 1002, words)));
}

#[test]
fn json_of_another_shape_is_1004_and_the_message_names_each_member() {
    let refusals: [(&str, &[&str]); 28] = [
        ("null", &["object"]),
        ("7", &["object"]),
        (r#""id""#, &["object"]),
        ("[]", &["object"]),
        (r#"[7,"Rosa",null]"#, &["object"]),
        (r#"[{"id":7,"name":"Rosa"}]"#, &["object"]),
        ("{}", &["id", "name"]),
        (r#"{"id":7}"#, &["name"]),
        (r#"{"name":"Rosa"}"#, &["id"]),
        (r#"{"ID":7,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":7,"id":7,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":7,"name":"Rosa","name":"Rosa"}"#, &["name"]),
        (r#"{"id":7,"name":"Rosa","tag":null,"tag":null}"#, &["tag"]),
        (r#"{"id":7,"name":"Rosa","n\u0061me":"Rosa"}"#, &["name"]),
        (r#"{"id":7.0,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":7e0,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":1e999,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":"7","name":"Rosa"}"#, &["id"]),
        (r#"{"id":null,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":true,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":9223372036854775808,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":-9223372036854775809,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":7,"name":null}"#, &["name"]),
        (r#"{"id":7,"name":7}"#, &["name"]),
        (r#"{"id":7,"name":["Rosa"]}"#, &["name"]),
        (r#"{"id":7,"name":"Rosa","tag":7}"#, &["tag"]),
        (r#"{"id":7,"name":"Rosa","tag":{}}"#, &["tag"]),
        (r#"{"id":1.5,"tag":[]}"#, &["id", "name", "tag"]),
    ];
    check(&refusals.map(|(body, words)| (JSON, body.as_bytes(), 1004, words)));
}

#[test]
fn a_name_or_tag_that_breaks_a_rule_is_1005_and_the_message_names_each() {
    let too_long = "é".repeat(256);
    let texts =
        ["", " ", "\u{3000}\u{2003}\u{a0}", "a\nb", "a\0", "\u{7f}a", "a\u{85}b", &too_long];
    for text in texts {
        let (name, tag, both) = (
            plant_body(REFUSED_ID, text, None),
            plant_body(REFUSED_ID, "Rosa", Some(text)),
            plant_body(REFUSED_ID, text, Some(text)),
        );
        check(&[
            (JSON, name.as_bytes(), 1005, &["name"]),
            (JSON, tag.as_bytes(), 1005, &["tag"]),
            (JSON, both.as_bytes(), 1005, &["name", "tag"]),
        ]);
    }
}

#[test]
fn a_query_parameter_is_1006() {
    let server = TestServer::start();
    let client = server.client();
    let body = plant_body(REFUSED_ID, "Rosa", None);
    for query in ["?x=1", "?dry_run", "?id=7", "?a=1&a=1"] {
        let headers = [("content-type", "application/json")];
        let answer = client.send("POST", &format!("/plants{query}"), &headers, &body);
        answer.assert_error(400, 1006);
        client.read(REFUSED_ID).assert_error(404, 3002);
    }
}

#[test]
fn a_body_of_the_largest_size_is_taken() {
    let server = TestServer::start();
    let body = body_of(1, BODY_MAX_BYTES);
    assert_eq!(body.len(), BODY_MAX_BYTES);
    server.client().create_from(&body).assert_plant("Rosa", None);

    let mut connection = server.connect();
    connection.send(chunked(1000, &body_of(2, BODY_MAX_BYTES)));
    connection.receive().assert_plant("Rosa", None);
    connection.send(chunked(BODY_MAX_BYTES, &body_of(3, BODY_MAX_BYTES)));
    connection.receive().assert_plant("Rosa", None);
}

#[test]
fn a_body_over_the_largest_size_is_1003() {
    let server = TestServer::start();
    let body = body_of(REFUSED_ID, BODY_MAX_BYTES + 1);
    let messages = [
        create_request(&body).into_bytes(),
        chunked(1000, &body),
        chunked(BODY_MAX_BYTES + 1, &body),
        create_request(&body_of(REFUSED_ID, 400_000)).into_bytes(),
    ];
    for message in messages {
        let mut connection = server.connect();
        // The server may answer, and close, before it has taken all.
        let _ = connection.try_send(message);
        let message = connection.receive().assert_error(400, 1003);
        assert!(message.contains("65536"), "the message does not tell the limit: {message}");
        server.client().read(REFUSED_ID).assert_error(404, 3002);
    }
}

#[test]
fn a_body_that_is_said_to_be_too_large_is_refused_before_it_comes() {
    let server = TestServer::start();
    for length in ["65537", "1099511627776"] {
        let mut connection = server.connect();
        connection.send(format!(
            "POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n{JSON}\
             Content-Length: {length}\r\n\r\n"
        ));
        connection.receive().assert_error(400, 1003);
    }
}

/// Where serde_json finds what is wrong with a text, as messages say it.
#[track_caller]
fn place_of_error(text: &str) -> String {
    let error = serde_json::from_str::<serde_json::Value>(text).expect_err("it is no JSON");
    match (error.line(), error.column()) {
        (1, column) => format!(" at column {column}"),
        (line, column) => format!(" at line {line} column {column}"),
    }
}

#[test]
fn the_line_and_the_column_of_what_is_no_json_are_those_of_the_body() {
    let server = TestServer::start();
    let wrong = [
        r#"{"id":1,"name":"\ud83d"}"#,
        r#"{"id":1,"name":"Rosa \ud83d x","tag":"R"}"#,
        r#"{"name":"Rosa","id":"\ud83d"}"#,
        r#"{"id":1,"name":"é","tag":"x\udc00"}"#,
        r#"{"id":1,"name":"Rosa","name":"\ud800"}"#,
        r#"{"id":1,"name":"\ud800","name":"\ud800"}"#,
        r#"{"id":1,"name":"Rosa",}"#,
        r#"{"id":1,"name":"Rosa""#,
    ];
    let in_lines = wrong.map(|body| body.replace(',', ",\n  "));
    let mut cases: Vec<(Vec<u8>, String)> = Vec::new();
    for body in wrong.into_iter().chain(in_lines.iter().map(String::as_str)) {
        cases.push((body.into(), place_of_error(body)));
    }
    cases.push((b"{\"id\":1,\"name\":\"\xff\"}".into(), " at column 17".to_owned()));
    cases.push((b"{\n\"id\":1,\"name\":\"\xff\"}".into(), " at line 2 column 16".to_owned()));
    for (body, place) in &cases {
        for request in ["POST /plants", "PUT /plants/1", "PATCH /plants/1"] {
            let mut connection = server.connect();
            connection.send(raw_request(request, JSON, body));
            let message = connection.receive().assert_error(400, 1001);
            assert!(message.ends_with(place), "{message} {place} {}", body.escape_ascii());
        }
        if body.contains(&b'\n') {
            continue;
        }
        // The line of a row is told beside the message.
        let rows = [b"\n", body.as_slice(), b"\n"].concat();
        let report = server.client().import(Format::Ndjson, "", &rows).json();
        assert_eq!(report["errors"][0]["line"], 2, "{report}");
        let message = report["errors"][0]["message"].as_str().expect("a message");
        assert!(message.ends_with(place), "{message} {place} {}", body.escape_ascii());
    }
}
