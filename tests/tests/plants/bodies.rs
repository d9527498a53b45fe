//! The JSON of POST, PUT and PATCH: which bodies are accepted, and how others are refused.

use plantd_tests::{Client, Format, TestServer, chunk, plant_body, raw_head, raw_request};

use super::{BODY_MAX_BYTES, JSON, MERGE_PATCH, assert_same, body_of, send};

/// The plant with the id in every body here.
const ID: i64 = 7;

const POST: (&str, &str) = ("POST /plants", JSON);
const PUT: (&str, &str) = ("PUT /plants/7", JSON);
const PATCH: (&str, &str) = ("PATCH /plants/7", JSON);
const PATCH_MERGE: (&str, &str) = ("PATCH /plants/7", MERGE_PATCH);
const WRITES: [(&str, &str); 4] = [POST, PUT, PATCH, PATCH_MERGE];

/// Media type parameters that name UTF-8 or its subset ASCII.
pub(crate) const UTF_8_CHARSETS: [&str; 12] = [
    ";charset=utf-8",
    "; charset=UTF-8",
    "; charset=\"utf-8\"",
    ";charset=utf8",
    "; Charset=\"UTF8\"",
    "; charset=us-ascii",
    "; charset=\"US-ASCII\"",
    "; charset=ascii",
    "; charset=ANSI_X3.4-1968",
    "; charset=unicode-1-1-utf-8",
    "; charset=x-unicode20utf8",
    "; charset=unicode11utf8; charset=unicode20utf8",
];

/// Bodies with a syntax error, some with other mistakes too: 1001.
pub(crate) const NOT_JSON: [&[u8]; 31] = [
    b"",
    b" ",
    b"{",
    b"nul",
    b"[1,",
    br#"{"id":7,"name":"Rosa"}}"#,
    br#"{"id":7,"name":"Rosa"} x"#,
    br#"{"id":7,"name":"Rosa"}{"id":7,"name":"Rosa"}"#,
    br#"{"id":7,"name":"Rosa","name":"Rosa"} x"#,
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
    br#"{"id":7,"name":"Rosa","tag":"\ud800\ud800"}"#,
    br#"{"id":"x","name":"\udc00 Rosa"}"#,
    br#"{"id":"\ud800","name":"Rosa"}"#,
    br#"{"id":7,"name":"Rosa","name":"Rosa","name":"\ud800"}"#,
    b"\xef\xbb\xbf\xef\xbb\xbf{\"id\":7,\"name\":\"Rosa\"}",
    b"{\"id\":7,\"name\":\"R\xf6sa\"}",
    b"{\"id\":7,\"name\":\"Rosa\",\"more\":\"\xed\xa0\x80\"}",
];

/// JSON without the shape of a plant or a patch, and the words of the message: 1004.
pub(crate) const OTHER_SHAPE: [(&str, &[&str]); 24] = [
    ("null", &["object"]),
    ("7", &["object"]),
    (r#""id""#, &["object"]),
    ("[]", &["object"]),
    (r#"[7,"Rosa",null]"#, &["object"]),
    (r#"[{"id":7,"name":"Rosa"}]"#, &["object"]),
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
    (r#"{"id":1.5,"name":7,"tag":[]}"#, &["id", "name", "tag"]),
];

/// Bodies without a name, which only a patch may omit. A replacement may omit the id.
pub(crate) const WITHOUT_A_NAME: [(&str, &[&str]); 3] = [
    (r#"{"id":7}"#, &["name"]),
    (r#"{"id":7,"Name":"Rosa"}"#, &["name"]),
    (r#"{"id":1.5,"tag":[]}"#, &["id", "name", "tag"]),
];
pub(crate) const WITHOUT_AN_ID: [(&str, &[&str]); 3] = [
    ("{}", &["id", "name"]),
    (r#"{"name":"Rosa"}"#, &["id"]),
    (r#"{"ID":7,"name":"Rosa"}"#, &["id"]),
];

/// Texts that are neither a name nor a tag: 1005.
pub(crate) fn broken_texts() -> [String; 8] {
    let short = ["", " ", "\u{3000}\u{2003}\u{a0}", "a\nb", "a\0", "\u{7f}a", "a\u{85}b"];
    let too_long = "é".repeat(256);
    std::array::from_fn(|at| short.get(at).copied().unwrap_or(&too_long).to_owned())
}

/// An array so deeply nested that a recursive parser would overflow its stack.
fn nested() -> String {
    "[".repeat(30_000) + &"]".repeat(30_000)
}

/// Asserts that each request refuses each body with this error and a message with these words, and changes nothing,
/// whether plant 7 exists or not.
#[track_caller]
fn check<Body: AsRef<[u8]>>(requests: &[(&str, &str)], number: i32, refusals: &[(Body, &[&str])]) {
    let server = TestServer::start();
    let client = server.client();
    for is_there in [false, true] {
        if is_there {
            client.create(ID, "Old", Some("old")).assert_plant("Old", Some("old"));
        }
        let before = client.read(ID);
        assert_eq!(before.status, if is_there { 200 } else { 404 });
        for (body, words) in refusals {
            for (request_line, lines) in requests {
                let case = format!("{request_line} {lines:?} {}", body.as_ref().escape_ascii());
                let answer = send(&server, request_line, lines, body);
                assert_eq!(answer.status, 400, "{case}: {answer:?}");
                assert_eq!(answer.json()["error"], number, "{case}: {answer:?}");
                let message = answer.assert_error(400, number);
                for word in *words {
                    assert!(message.contains(word), "{case}: {message:?} does not name {word:?}");
                }
                assert_same(&before, &client.read(ID), &case);
            }
        }
    }
}

#[test]
fn a_body_that_is_not_json_to_its_end_is_1001_even_with_other_mistakes() {
    check(&WRITES, 1001, &NOT_JSON.map(|body| (body, &["JSON"] as &[&str])));
    check(&WRITES, 1001, &[("[".repeat(60_000), &["JSON"])]);
}

#[test]
fn another_content_type_is_1002() {
    let others = ["", "text/plain", "text/json", "application/x-www-form-urlencoded"];
    let alike = ["application/jsonx", "application/x-ndjson", "\u{e4}pplication/json"];
    let patches = ["application/json-patch+json", "application/merge-patch"];
    let longer = ["application/merge-patch+jsonx", "application/json; charset=latin1"];
    let encodings = [
        "application/json; charset=utf-16",
        "application/json; charset=\"windows-1252\"",
        "application/json; charset=utf-8; charset=utf-7",
        "application/json; charset=",
        "application/json; charset=utf-80",
    ];
    let several = [
        "application/json, application/json",
        "application/json, application/merge-patch+json",
        "application/json\r\nContent-Type: application/json",
        "application/json\r\nContent-Type: text/plain",
        "application/json\r\nContent-Type: application/merge-patch+json",
    ];
    let types = [&others[..], &alike, &patches, &longer, &encodings, &several].concat();
    let mut wrong: Vec<String> =
        types.into_iter().map(|value| format!("Content-Type: {value}\r\n")).collect();
    wrong.push(String::new());
    let mut requests = vec![(POST.0, MERGE_PATCH), (PUT.0, MERGE_PATCH)];
    for (request_line, _) in [POST, PUT, PATCH] {
        requests.extend(wrong.iter().map(|lines| (request_line, lines.as_str())));
    }
    let body = plant_body(ID, "Rosa", None);
    check(&requests, 1002, &[(&body, &["ontent"])]);
    let codings = ["gzip", "identity, gzip", "\r\nContent-Encoding: br"];
    let codings = codings.map(|codings| format!("{JSON}Content-Encoding: {codings}\r\n"));
    let compressed = [POST, PUT, PATCH].map(|(request_line, _)| request_line);
    let compressed = compressed.map(|it| codings.each_ref().map(|lines| (it, lines.as_str())));
    check(&compressed.concat(), 1002, &[(&body, &["compressed"])]);
}

#[test]
fn json_of_another_shape_is_1004_and_the_message_names_each_member() {
    check(&WRITES, 1004, &OTHER_SHAPE);
    check(&WRITES, 1004, &[(nested(), &["object"])]);
    check(&[POST, PUT], 1004, &WITHOUT_A_NAME);
    check(&[POST], 1004, &WITHOUT_AN_ID);
    check(&[PUT], 1004, &[("{}", &["name"]), (r#"{"tag":"x"}"#, &["name"])]);
}

#[test]
fn a_value_that_breaks_a_rule_is_1005_and_the_message_names_each_value() {
    let (mut plants, mut other_ids, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    for text in broken_texts() {
        plants.push((plant_body(ID, &text, None), &["name"] as &[&str]));
        plants.push((plant_body(ID, "Rosa", Some(&text)), &["tag"]));
        plants.push((plant_body(ID, &text, Some(&text)), &["name", "tag"]));
        let all: &[&str] = &["id", "name", "tag"];
        other_ids.push((plant_body(2, &text, Some(&text)), all));
        patches.push((serde_json::json!({ "tag": text }).to_string(), &["tag"] as &[&str]));
    }
    // The id in a change must be that of the path.
    for id in [0, -1, 2, 10, 70, i64::MIN, i64::MAX] {
        other_ids.push((plant_body(id, "Rosa", None), &["id"]));
    }
    check(&WRITES, 1005, &plants);
    check(&WRITES[1..], 1005, &other_ids);
    check(&[PATCH, PATCH_MERGE], 1005, &patches);
}

/// Creates the plant for a change, but not for a create.
fn prepare(client: &Client, request_line: &str) {
    client.delete(ID);
    if request_line != POST.0 {
        client.create(ID, "Old", None).assert_plant("Old", None);
    }
}

#[test]
fn a_body_of_the_largest_size_is_taken_and_a_larger_one_is_1003() {
    let server = TestServer::start();
    let client = server.client();
    for bytes in [BODY_MAX_BYTES, BODY_MAX_BYTES + 1, 400_000] {
        let body = body_of(ID, bytes);
        for (request_line, lines) in WRITES {
            let chunked = format!("{lines}Transfer-Encoding: chunked\r\n");
            let mut in_chunks = raw_head(request_line, &chunked).into_bytes();
            in_chunks.extend(body.as_bytes().chunks(1000).chain([&[][..]]).flat_map(chunk));
            for message in [raw_request(request_line, lines, &body), in_chunks] {
                prepare(&client, request_line);
                let before = client.read(ID);
                let mut connection = server.connect();
                // The server may answer and close the connection before it has read the whole body.
                let _ = connection.try_send(message);
                let answer = connection.receive();
                if bytes == BODY_MAX_BYTES {
                    answer.assert_plant("Rosa", None);
                } else {
                    let message = answer.assert_error(400, 1003);
                    assert!(message.contains("65536"), "no limit in {message}");
                    assert_same(&before, &client.read(ID), request_line);
                }
            }
        }
    }
}

#[test]
fn a_body_with_an_oversized_content_length_is_refused_before_it_arrives() {
    let server = TestServer::start();
    for (request_line, lines) in WRITES {
        for length in ["65537", "1099511627776"] {
            let lines = format!("{lines}Content-Length: {length}\r\n");
            server.answer_to(raw_head(request_line, &lines)).assert_error(400, 1003);
        }
    }
}

#[test]
fn a_valid_body_is_accepted_in_any_spelling() {
    let server = TestServer::start();
    let client = server.client();
    for body in [
        "\r\n\t {\n\"tag\" : \"R\" ,\"name\" : \"Rosa\" ,\"id\": 7 }\t\r\n",
        // A byte order mark before the body is skipped.
        "\u{feff}{\"id\":7,\"name\":\"Rosa\",\"tag\":\"R\"}",
        r#"{"\u0069d":7,"n\u0061me":"\u0052osa","tag":"\u0052"}"#,
        r#"{"id":7,"name":"Rosa","tag":"R","more":{"id":8,"name":[1e999,null]},"Name":1,"":2}"#,
        r#"{"id":7,"name":"Rosa","tag":"R","height":1,"height":2}"#,
        r#"{"id":7,"name":"Rosa","tag":"R","note":"\ud800","\ud800":1}"#,
        &format!(r#"{{"id":7,"name":"Rosa","tag":"R","note":{}}}"#, nested()),
    ] {
        for (request_line, lines) in WRITES {
            prepare(&client, request_line);
            let answer = send(&server, request_line, lines, body);
            assert_eq!(answer.status, 200, "{request_line} {body}: {answer:?}");
            answer.assert_plant("Rosa", Some("R"));
            client.read(ID).assert_new_plant(ID, "Rosa", Some("R"));
        }
    }
}

#[test]
fn a_media_type_is_taken_in_every_case_and_with_its_charset_and_empty_codings_are_none() {
    let server = TestServer::start();
    let codings = ["", " ", "identity", "Identity, ,identity", "\r\nContent-Encoding: identity"];
    let codings = codings.map(|codings| format!("{JSON}Content-Encoding: {codings}\r\n"));
    let mut accepted: Vec<_> = codings.into_iter().map(|lines| (POST.0, lines)).collect();
    let json = ["application/json", "Application/JSON"];
    let patches = ["application/merge-patch+json", "Application/Merge-Patch+JSON"];
    for (request_line, media_types) in
        [(POST.0, json), (PUT.0, json), (PATCH.0, json), (PATCH.0, patches)]
    {
        for media_type in media_types {
            for charset in ["", "; profile=x"].iter().chain(&UTF_8_CHARSETS) {
                let lines = format!("content-TYPE: {media_type}{charset}\r\n");
                accepted.push((request_line, lines));
            }
        }
    }
    for (request_line, lines) in accepted {
        prepare(&server.client(), request_line);
        let answer = send(&server, request_line, &lines, plant_body(ID, "Rosa", None));
        assert_eq!(answer.status, 200, "{request_line} {lines:?}: {answer:?}");
        answer.assert_plant("Rosa", None);
    }
}

/// The place of the error in a text according to serde_json, in the words of a message.
#[track_caller]
fn place_of_error(text: &str) -> String {
    let error = serde_json::from_str::<serde_json::Value>(text).expect_err("it is no JSON");
    match (error.line(), error.column()) {
        (1, column) => format!(" at column {column}"),
        (line, column) => format!(" at line {line} column {column}"),
    }
}

#[test]
fn a_syntax_error_is_reported_at_its_line_and_column_in_the_body() {
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
        for (request_line, lines) in WRITES {
            let message = send(&server, request_line, lines, body).assert_error(400, 1001);
            assert!(message.ends_with(place), "{message} {place} {}", body.escape_ascii());
        }
        if body.contains(&b'\n') {
            continue;
        }
        // The report has the line of the row as a member of its own.
        let rows = [b"\n", body.as_slice(), b"\n"].concat();
        let report = server.client().import(Format::Ndjson, "", &rows).json();
        assert_eq!(report["errors"][0]["line"], 2, "{report}");
        let message = report["errors"][0]["message"].as_str().expect("a message");
        assert!(message.ends_with(place), "{message} {place} {}", body.escape_ascii());
    }
}
