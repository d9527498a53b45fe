//! `PUT`, `PATCH` and `DELETE` of one plant: what they answer, what they leave behind, and what
//! they refuse.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use plantd_tests::{
    Answer, Client, Connection, Counts, Format, NewPlant, TOKEN, TestServer, plant_body, raw_head,
    raw_request, replacement_body, wait_until,
};

/// The largest body that is read, in bytes.
const BODY_MAX_BYTES: usize = 65_536;

/// Each end of int64 and what lies around zero.
const EDGE_IDS: [i64; 7] = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];

const KEY: [(&str, &str); 1] = [("idempotency-key", "\"k\"")];

const JSON: &str = "Content-Type: application/json\r\n";
const MERGE_PATCH: &str = "Content-Type: application/merge-patch+json\r\n";

/// Sends a request for plant 1 whose headers beside the token and the length are these lines.
#[track_caller]
fn send(connection: &mut Connection, method: &str, lines: &str, body: impl AsRef<[u8]>) -> Answer {
    connection.send(raw_request(&format!("{method} /plants/1"), lines, body));
    connection.receive()
}

/// A valid body of exactly this many bytes, whether it is to replace or to patch.
fn body_of(bytes: usize) -> String {
    let shortest = r#"{"name":"Rosa","note":""}"#.len();
    format!(r#"{{"name":"Rosa","note":"{}"}}"#, "x".repeat(bytes - shortest))
}

/// What a refused change left: nothing of it.
struct Unchanged {
    server: TestServer,
    before: Answer,
}

impl Unchanged {
    /// A server with plant 1.
    #[track_caller]
    fn start() -> Self {
        let server = TestServer::start();
        server.client().create(1, "Old", Some("old")).assert_plant("Old", Some("old"));
        let before = server.client().read(1);
        before.assert_new_plant(1, "Old", Some("old"));
        Self { server, before }
    }

    /// Claims that a change of plant 1 is refused so, and returns the message.
    #[track_caller]
    fn check(&self, method: &str, lines: &str, body: impl AsRef<[u8]>, number: i32) -> String {
        let shown = String::from_utf8_lossy(body.as_ref()).into_owned();
        // A refusal may close the connection: that is no part of the contract.
        let answer = send(&mut self.server.connect(), method, lines, body);
        assert_eq!(answer.status, 400, "{method} {lines:?} {shown}: {answer:?}");
        assert_eq!(answer.json()["error"], number, "{method} {lines:?} {shown}: {answer:?}");
        let after = self.server.client().read(1);
        assert_eq!(
            (&after.body, after.header("etag")),
            (&self.before.body, self.before.header("etag")),
            "{method} {lines:?} {shown} changed something"
        );
        answer.assert_error(400, number)
    }
}

#[test]
fn a_put_of_a_new_plant_is_201_and_of_one_that_is_there_200() {
    let server = TestServer::start();
    let client = server.client();
    let made = client.put(1, &replacement_body("Rosa", Some("Rosaceae")));
    made.assert_made("Rosa", Some("Rosaceae"));
    let read = client.read(1);
    read.assert_new_plant(1, "Rosa", Some("Rosaceae"));
    assert_eq!(read.header("etag"), made.header("etag"));

    let replaced = client.put(1, &replacement_body("Abies", Some("Pinaceae")));
    replaced.assert_plant("Abies", Some("Pinaceae"));
    assert!(replaced.revision() > made.revision(), "{made:?} {replaced:?}");
    let read = client.read(1);
    read.assert_new_plant(1, "Abies", Some("Pinaceae"));
    assert_eq!(read.header("etag"), replaced.header("etag"));
}

#[test]
fn a_put_without_a_tag_removes_the_tag() {
    let server = TestServer::start();
    let client = server.client();
    for body in [r#"{"name":"Rosa"}"#, r#"{"name":"Rosa","tag":null}"#] {
        client.put(1, &replacement_body("Rosa", Some("Rosaceae")));
        client.read(1).assert_new_plant(1, "Rosa", Some("Rosaceae"));
        client.put(1, body).assert_plant("Rosa", None);
        client.read(1).assert_new_plant(1, "Rosa", None);
    }
}

#[test]
fn a_put_that_is_sent_again_is_200_and_keeps_its_revision() {
    let mut server = TestServer::start();
    let body = replacement_body("Rosa", Some("Rosaceae"));
    let made = server.client().put(1, &body);
    made.assert_made("Rosa", Some("Rosaceae"));
    for _ in 0..2 {
        for body in [
            &body,
            r#"{"id":1,"name":"Rosa","tag":"Rosaceae"}"#,
            r#" {"tag":"Ros\u0061ceae","name":"\u0052osa","more":[null]} "#,
        ] {
            let again = server.client().put(1, body);
            again.assert_plant("Rosa", Some("Rosaceae"));
            assert_eq!(again.header("etag"), made.header("etag"), "{body}");
        }
        server.kill();
        server.restart();
    }
    // Had one of them been written, it would have taken a revision.
    let next = server.client().create(2, "Abies", None);
    next.assert_next_revision_after(&made);
}

#[test]
fn a_patch_changes_the_members_that_it_has() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    let mut last = client.read(1).revision();
    for (body, name, tag) in [
        (r#"{"tag":"Rosaceae"}"#, "Rosa", Some("Rosaceae")),
        (r#"{"name":"Rosa canina"}"#, "Rosa canina", Some("Rosaceae")),
        (r#"{"tag":null}"#, "Rosa canina", None),
        (r#"{"name":"Abies","tag":"Pinaceae"}"#, "Abies", Some("Pinaceae")),
        (r#"{"name":"Picea","tag":null}"#, "Picea", None),
        (r#"{"id":1,"tag":"\u0078"}"#, "Picea", Some("x")),
        (r#"{"more":{"tag":null},"tag":"y","":1}"#, "Picea", Some("y")),
    ] {
        let patched = client.patch(1, body);
        assert_eq!(patched.status, 200, "{body}: {patched:?}");
        patched.assert_plant(name, tag);
        assert!(patched.revision() > last, "{body}: {patched:?}");
        last = patched.revision();
        let read = client.read(1);
        read.assert_new_plant(1, name, tag);
        assert_eq!(read.revision(), last, "{body}");
    }
}

#[test]
fn a_patch_that_changes_nothing_keeps_the_revision() {
    let server = TestServer::start();
    let client = server.client();
    let first = client.create(1, "Rosa", None);
    for body in [
        "{}",
        r#"{"name":"Rosa"}"#,
        r#"{"tag":null}"#,
        r#"{"id":1}"#,
        r#"{"id":1,"name":"\u0052osa","tag":null}"#,
        r#"{"height":7,"Name":null,"names":[]}"#,
    ] {
        let patched = client.patch(1, body);
        assert_eq!(patched.status, 200, "{body}: {patched:?}");
        patched.assert_plant("Rosa", None);
        assert_eq!(patched.header("etag"), first.header("etag"), "{body}");
    }
    // Had one of them been written, it would have taken a revision.
    let next = client.create(2, "Abies", None);
    next.assert_next_revision_after(&first);
}

#[test]
fn a_patch_is_taken_in_either_of_its_content_types() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let mut connection = server.connect();
    for (number, content_type) in (1..).zip([
        "application/merge-patch+json",
        "application/json",
        "Application/Merge-Patch+JSON",
        "application/merge-patch+json; charset=utf-8",
        "application/json;charset=UTF-8",
    ]) {
        let (lines, name) = (format!("Content-Type: {content_type}\r\n"), format!("Rosa {number}"));
        let answer = send(&mut connection, "PATCH", &lines, format!(r#"{{"name":"{name}"}}"#));
        assert_eq!(answer.status, 200, "{content_type}: {answer:?}");
        answer.assert_plant(&name, None);
    }
}

#[test]
fn a_delete_is_204_and_then_there_is_no_such_plant() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    client.create(2, "Abies", None).assert_plant("Abies", None);
    client.delete(1).assert_no_content();
    client.read(1).assert_error(404, 3002);
    for _ in 0..2 {
        let message = client.delete(1).assert_error(404, 3002);
        assert!(message.contains('1'), "{message}");
    }
    client.patch(1, "{}").assert_error(404, 3002);
    client.read(2).assert_new_plant(2, "Abies", None);
    // The connection is kept, and nothing stands behind an answer.
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    let mut connection = server.connect();
    send(&mut connection, "DELETE", "", "").assert_no_content();
    send(&mut connection, "DELETE", "", "").assert_error(404, 3002);
    send(&mut connection, "GET", "", "").assert_error(404, 3002);
}

#[test]
fn a_plant_that_is_not_there_cannot_be_patched_or_deleted() {
    let server = TestServer::start();
    let client = server.client();
    for id in EDGE_IDS {
        client.patch(id, r#"{"name":"Rosa"}"#).assert_error(404, 3002);
        client.patch(id, r#"{"name":"Rosa","tag":"x"}"#).assert_error(404, 3002);
        client.delete(id).assert_error(404, 3002);
        client.read(id).assert_error(404, 3002);
    }
    let next = client.create(1, "Rosa", None);
    assert_eq!(next.revision(), server.client().read(1).revision());
}

#[test]
fn every_int64_can_be_replaced_patched_and_deleted() {
    let server = TestServer::start();
    let client = server.client();
    for id in EDGE_IDS {
        client.put(id, &plant_body(id, "Rosa", None)).assert_made("Rosa", None);
        client.patch(id, r#"{"tag":"x"}"#).assert_plant("Rosa", Some("x"));
    }
    for id in EDGE_IDS {
        client.read(id).assert_new_plant(id, "Rosa", Some("x"));
        client.put(id, &replacement_body("Abies", None)).assert_plant("Abies", None);
        client.patch(id, &format!(r#"{{"id":{id},"tag":"y"}}"#)).assert_plant("Abies", Some("y"));
        client.read(id).assert_new_plant(id, "Abies", Some("y"));
    }
    for id in EDGE_IDS {
        client.delete(id).assert_no_content();
        client.read(id).assert_error(404, 3002);
    }
}

#[test]
fn a_revision_grows_with_each_change_and_never_comes_again() {
    let server = TestServer::start();
    let client = server.client();
    let mut last = 0;
    for round in 0..5 {
        for answer in [
            client.create(1, "Rosa", None),
            client.put(1, &replacement_body("Rosa", Some("x"))),
            client.patch(1, r#"{"tag":null}"#),
            client.put(1, &replacement_body("Rosa", Some("x"))),
        ] {
            assert_eq!(answer.status, 200, "round {round}: {answer:?}");
            assert!(answer.revision() > last, "round {round}: {last} before {answer:?}");
            last = answer.revision();
            assert_eq!(client.read(1).status, 200);
        }
        client.delete(1).assert_no_content();
        // The deletion took a revision of its own.
        let made = client.put(1, &replacement_body("Rosa", None));
        made.assert_made("Rosa", None);
        assert!(made.revision() > last + 1, "round {round}: {last} before {made:?}");
        last = made.revision();
        client.delete(1).assert_no_content();
    }
}

#[test]
fn a_change_is_read_at_once() {
    let server = TestServer::start();
    let (writer, reader) = (server.client(), server.client());
    for round in 0..50 {
        let name = format!("plant {round}");
        let put = writer.put(1, &replacement_body(&name, None));
        let read = reader.read(1);
        read.assert_new_plant(1, &name, None);
        assert_eq!(read.header("etag"), put.header("etag"));
        let patched = writer.patch(1, r#"{"tag":"x"}"#);
        let read = reader.read(1);
        read.assert_new_plant(1, &name, Some("x"));
        assert_eq!(read.header("etag"), patched.header("etag"));
        if round % 5 == 0 {
            writer.delete(1).assert_no_content();
            reader.read(1).assert_error(404, 3002);
        }
    }
}

#[test]
fn a_change_that_is_not_json_to_its_end_is_1001() {
    let garden = Unchanged::start();
    let bodies: [&[u8]; 11] = [
        b"",
        b" ",
        b"{",
        b"nul",
        br#"{"name":"Rosa"}}"#,
        br#"{"name":"Rosa",}"#,
        br#"{"id":2,"name":"","tag":7"#,
        br#"{"name":"\ud800"}"#,
        br#"{"name":"Rosa","name":"Rosa"} x"#,
        b"\xef\xbb\xbf{\"name\":\"Rosa\"}",
        b"{\"name\":\"R\xf6sa\"}",
    ];
    for body in bodies {
        for (method, lines) in [("PUT", JSON), ("PATCH", JSON), ("PATCH", MERGE_PATCH)] {
            let message = garden.check(method, lines, body, 1001);
            assert!(message.contains("JSON"), "{message}");
        }
    }
    // Syntax comes first: before whether there is such a plant.
    let client = garden.server.client();
    client.patch(2, "{").assert_error(400, 1001);
    client.put(2, "{").assert_error(400, 1001);
    client.read(2).assert_error(404, 3002);
}

#[test]
fn a_change_in_another_content_type_is_1002() {
    let garden = Unchanged::start();
    for content_type in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json-patch+json\r\n",
        "Content-Type: application/merge-patch\r\n",
        "Content-Type: application/merge-patch+jsonx\r\n",
        "Content-Type: application/x-ndjson\r\n",
        "Content-Type: application/json; charset=latin1\r\n",
        "Content-Type: application/json, application/merge-patch+json\r\n",
        "Content-Type: application/json\r\nContent-Type: application/merge-patch+json\r\n",
        "Content-Type: application/merge-patch+json\r\nContent-Encoding: gzip\r\n",
    ] {
        for method in ["PUT", "PATCH"] {
            let message = garden.check(method, content_type, r#"{"name":"Rosa"}"#, 1002);
            assert!(message.contains("ontent"), "{message}");
        }
    }
    garden.check("PUT", MERGE_PATCH, r#"{"name":"Rosa"}"#, 1002);
}

#[test]
fn a_change_that_is_too_large_is_1003() {
    let garden = Unchanged::start();
    for (method, lines) in [("PUT", JSON), ("PATCH", JSON), ("PATCH", MERGE_PATCH)] {
        let message = garden.check(method, lines, body_of(BODY_MAX_BYTES + 1), 1003);
        assert!(message.contains("65536"), "{message}");
        let mut connection = garden.server.connect();
        let length = format!("{lines}Content-Length: 1099511627776\r\n");
        connection.send(raw_head(&format!("{method} /plants/1"), &length));
        connection.receive().assert_error(400, 1003);
    }
    for (method, lines) in [("PUT", JSON), ("PATCH", MERGE_PATCH)] {
        let answer = send(&mut garden.server.connect(), method, lines, body_of(BODY_MAX_BYTES));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[test]
fn a_change_of_another_shape_is_1004_and_the_message_names_each_member() {
    let garden = Unchanged::start();
    let both: [(&str, &[&str]); 19] = [
        ("null", &["object"]),
        ("7", &["object"]),
        ("[]", &["object"]),
        (r#"["Rosa",null]"#, &["object"]),
        (r#"[{"name":"Rosa"}]"#, &["object"]),
        (r#"{"name":null}"#, &["name"]),
        (r#"{"name":7}"#, &["name"]),
        (r#"{"name":["Rosa"]}"#, &["name"]),
        (r#"{"name":"Rosa","name":"Rosa"}"#, &["name"]),
        (r#"{"name":"Rosa","tag":7}"#, &["tag"]),
        (r#"{"name":"Rosa","tag":{}}"#, &["tag"]),
        (r#"{"name":"Rosa","tag":null,"tag":null}"#, &["tag"]),
        (r#"{"id":"1","name":"Rosa"}"#, &["id"]),
        (r#"{"id":1.0,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":1e0,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":null,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":1,"id":1,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":9223372036854775808,"name":"Rosa"}"#, &["id"]),
        (r#"{"id":1.5,"name":7,"tag":[]}"#, &["id", "name", "tag"]),
    ];
    for (body, words) in both {
        for (method, lines) in [("PUT", JSON), ("PATCH", JSON), ("PATCH", MERGE_PATCH)] {
            let message = garden.check(method, lines, body, 1004);
            for word in words {
                assert!(message.contains(word), "{body}: {message:?} does not name {word:?}");
            }
        }
    }
    // A replacement is whole; only a patch may leave out the name.
    for body in ["{}", r#"{"tag":"x"}"#, r#"{"id":1}"#, r#"{"Name":"Rosa"}"#] {
        let message = garden.check("PUT", JSON, body, 1004);
        assert!(message.contains("name"), "{body}: {message}");
    }
}

#[test]
fn a_change_that_breaks_a_rule_is_1005_and_the_message_names_each_member() {
    let garden = Unchanged::start();
    let too_long = "é".repeat(256);
    let changes = [("PUT", JSON), ("PATCH", JSON), ("PATCH", MERGE_PATCH)];
    let texts =
        ["", " ", "\u{3000}\u{2003}\u{a0}", "a\nb", "a\0", "\u{7f}a", "a\u{85}b", &too_long];
    for text in texts {
        for (body, words) in [
            (replacement_body(text, None), &["name"] as &[&str]),
            (replacement_body("Rosa", Some(text)), &["tag"]),
            (replacement_body(text, Some(text)), &["name", "tag"]),
            (plant_body(2, text, Some(text)), &["id", "name", "tag"]),
        ] {
            for (method, lines) in changes {
                let message = garden.check(method, lines, &body, 1005);
                for word in words {
                    assert!(message.contains(word), "{body}: {message:?} does not name {word:?}");
                }
            }
        }
        for (method, lines) in &changes[1..] {
            let body = serde_json::json!({ "tag": text }).to_string();
            let message = garden.check(method, lines, &body, 1005);
            assert!(message.contains("tag"), "{body}: {message}");
        }
    }
}

#[test]
fn an_id_in_a_change_must_be_that_of_the_path() {
    let garden = Unchanged::start();
    for id in [0, -1, 2, 10, i64::MIN, i64::MAX] {
        for (method, lines) in [("PUT", JSON), ("PATCH", JSON), ("PATCH", MERGE_PATCH)] {
            let message = garden.check(method, lines, plant_body(id, "Rosa", None), 1005);
            assert!(message.contains("id"), "{message}");
        }
    }
    let client = garden.server.client();
    client.put(2, &plant_body(3, "Rosa", None)).assert_error(400, 1005);
    for id in [2, 3] {
        client.read(id).assert_error(404, 3002);
    }
}

#[test]
fn an_id_that_is_not_canonical_and_a_query_parameter_are_1006() {
    let server = TestServer::start();
    let client = server.client();
    for id in [0, 7] {
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    let paths = [
        "/plants/+7",
        "/plants/007",
        "/plants/-0",
        "/plants/7.0",
        "/plants/7e0",
        "/plants/%207",
        "/plants/seven",
        "/plants/9223372036854775808",
        "/plants/-9223372036854775809",
        "/plants/7?x=1",
        "/plants/7?limit=1",
        "/plants/7?id=7",
        "/plants/7?on_conflict=replace",
        "/plants/7?=",
    ];
    for path in paths {
        for (method, lines, body) in [
            ("PUT", JSON, r#"{"name":"Abies"}"#),
            ("PATCH", MERGE_PATCH, r#"{"name":"Abies"}"#),
            ("DELETE", "", ""),
        ] {
            let mut connection = server.connect();
            connection.send(raw_request(&format!("{method} {path}"), lines, body));
            let answer = connection.receive();
            assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
            answer.assert_error(400, 1006);
        }
    }
    for id in [0, 7] {
        client.read(id).assert_new_plant(id, "Rosa", None);
    }
}

#[test]
fn a_create_that_is_sent_again_is_answered_as_it_was_sent_whatever_the_plant_became() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", Some("Rosaceae"));
    server.client().create_with(&KEY, &body).assert_plant("Rosa", Some("Rosaceae"));
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
        client.create_with(&KEY, &body).assert_plant("Rosa", Some("Rosaceae"));
        client.create_with(&[("idempotency-key", "\"l\"")], &body).assert_error(400, 3001);
        client.create_from(&body).assert_error(400, 3001);
        client.create_with(&KEY, &plant_body(1, name, tag)).assert_error(400, 3001);
        let after = client.read(1);
        assert_eq!((&after.body, after.header("etag")), (&before.body, before.header("etag")));
        server.kill();
        server.restart();
    }
}

#[test]
fn a_create_that_is_sent_again_behind_a_deletion_creates_anew() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let first = server.client().create_with(&KEY, &body);
    first.assert_plant("Rosa", None);
    server.client().delete(1).assert_no_content();
    server.kill();
    server.restart();
    let client = server.client();
    client.read(1).assert_error(404, 3002);
    let second = client.create_with(&KEY, &body);
    second.assert_plant("Rosa", None);
    assert!(second.revision() > first.revision() + 1, "{first:?} {second:?}");
    client.read(1).assert_new_plant(1, "Rosa", None);
    // The digest went with the plant; one that a PUT makes has none.
    client.delete(1).assert_no_content();
    client.put(1, &replacement_body("Rosa", None)).assert_made("Rosa", None);
    client.create_with(&KEY, &body).assert_error(400, 3001);
}

#[test]
fn every_change_is_there_after_sigkill_and_a_restart() {
    let mut server = TestServer::start();
    for round in 0..4 {
        let client = server.client();
        for id in [1, 2, 3, 4] {
            client.put(id, &replacement_body("Rosa", Some("x")));
        }
        let kept = client.read(1);
        let put = client.put(2, &replacement_body(&format!("plant {round}"), None));
        put.assert_plant(&format!("plant {round}"), None);
        let patched = client.patch(3, &format!(r#"{{"name":"plant {round}"}}"#));
        patched.assert_plant(&format!("plant {round}"), Some("x"));
        client.delete(4).assert_no_content();
        server.kill();
        server.restart();

        let client = server.client();
        let read = client.read(1);
        read.assert_new_plant(1, "Rosa", Some("x"));
        assert_eq!(read.header("etag"), kept.header("etag"));
        let read = client.read(2);
        read.assert_new_plant(2, &format!("plant {round}"), None);
        assert_eq!(read.header("etag"), put.header("etag"));
        let read = client.read(3);
        read.assert_new_plant(3, &format!("plant {round}"), Some("x"));
        assert_eq!(read.header("etag"), patched.header("etag"));
        client.read(4).assert_error(404, 3002);
        client.delete(4).assert_error(404, 3002);
        let made = client.create(4, "Rosa", None);
        made.assert_plant("Rosa", None);
        assert!(made.revision() > patched.revision() + 1, "{patched:?} {made:?}");
    }
}

/// What the readers of a round saw.
#[derive(Default)]
struct Seen {
    /// The highest number that plant 0 had for its name.
    number: AtomicI64,
    /// No plant from 1 to this one was there any more.
    deleted_to: AtomicI64,
}

#[test]
fn a_read_never_shows_a_change_that_a_kill_then_takes_back() {
    const PLANTS: i64 = 5000;
    let mut server = TestServer::start();
    let plants: Vec<_> = (0..=PLANTS).map(|id| NewPlant::new(id, "0", None)).collect();
    let answer = server.client().import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    answer.assert_report(Counts { created: plants.len() as u64, ..Counts::default() });
    let (put, deleted) = (AtomicI64::new(0), AtomicI64::new(0));
    for round in 0..5 {
        let (address, seen) = (server.address(), Seen::default());
        thread::scope(|scope| {
            let (put, deleted, seen) = (&put, &deleted, &seen);
            for act in [
                put_the_next,
                delete_the_next,
                read_the_number,
                read_whether_deleted,
                list_the_first,
            ] {
                let client = Client::new(address, Some(TOKEN));
                scope.spawn(move || while act(&client, put, deleted, seen).is_ok() {});
            }
            let goal = 40 + round * 13;
            let (put_before, deleted_before) = (put.load(SeqCst), deleted.load(SeqCst));
            wait_until("the changes of a round", || {
                put.load(SeqCst) >= put_before + goal
                    && deleted.load(SeqCst) >= deleted_before + goal
            });
            server.kill();
        });
        server.restart();

        let client = server.client();
        let number = number_of(&client.read(0));
        assert!(number >= put.load(SeqCst), "{number} where {put:?} was acknowledged");
        assert!(number >= seen.number.load(SeqCst), "{number} where {:?} was seen", seen.number);
        put.store(number, SeqCst);
        let first = client.list("after=0&limit=1").plants()[0].id;
        assert!(first > deleted.load(SeqCst), "{first} is there: {deleted:?} was acknowledged");
        assert!(first > seen.deleted_to.load(SeqCst), "{first}: {:?} was seen", seen.deleted_to);
        assert!(
            seen.number.load(SeqCst) > 0 && seen.deleted_to.load(SeqCst) > 0,
            "nothing was seen"
        );
        deleted.store(first - 1, SeqCst);
    }
}

/// One request, or that the server is gone.
type Attempt = Result<(), Box<dyn std::error::Error>>;

#[track_caller]
fn number_of(read: &Answer) -> i64 {
    read.json()["name"].as_str().expect("a name").parse().expect("a number")
}

/// Puts the next number, and notes that it was acknowledged.
fn put_the_next(client: &Client, put: &AtomicI64, _: &AtomicI64, _: &Seen) -> Attempt {
    let number = put.load(SeqCst) + 1;
    let headers = [("content-type", "application/json")];
    let body = replacement_body(&number.to_string(), None);
    client.try_send("PUT", "/plants/0", &headers, body)?.assert_plant(&number.to_string(), None);
    put.store(number, SeqCst);
    Ok(())
}

/// Deletes the next plant, and notes that it was acknowledged.
fn delete_the_next(client: &Client, _: &AtomicI64, deleted: &AtomicI64, _: &Seen) -> Attempt {
    let id = deleted.load(SeqCst) + 1;
    client.try_send("DELETE", &format!("/plants/{id}"), &[], "")?.assert_no_content();
    deleted.store(id, SeqCst);
    Ok(())
}

fn read_the_number(client: &Client, _: &AtomicI64, _: &AtomicI64, seen: &Seen) -> Attempt {
    seen.number.fetch_max(number_of(&client.try_send("GET", "/plants/0", &[], "")?), SeqCst);
    Ok(())
}

fn read_whether_deleted(
    client: &Client,
    _: &AtomicI64,
    deleted: &AtomicI64,
    seen: &Seen,
) -> Attempt {
    let id = deleted.load(SeqCst) + 1;
    if client.try_send("GET", &format!("/plants/{id}"), &[], "")?.status == 404 {
        seen.deleted_to.fetch_max(id, SeqCst);
    }
    Ok(())
}

fn list_the_first(client: &Client, _: &AtomicI64, _: &AtomicI64, seen: &Seen) -> Attempt {
    let page = client.try_send("GET", "/plants?after=0&limit=1", &[], "")?;
    seen.deleted_to.fetch_max(page.plants()[0].id - 1, SeqCst);
    Ok(())
}
