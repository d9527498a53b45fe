//! Paths, methods and parameters: what is there, and how the rest is refused.

use std::collections::BTreeSet;

use plantd_tests::{Answer, TOKEN, TestServer, raw_request};

/// Sends a request line as it stands, with the token and without a body.
#[track_caller]
fn send(server: &TestServer, request_line: &str) -> Answer {
    let mut connection = server.connect();
    connection.send(format!(
        "{request_line} HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    connection.receive()
}

fn methods(answer: &Answer) -> BTreeSet<String> {
    let allow = answer.header("allow").unwrap_or_else(|| panic!("no Allow: {answer:?}"));
    allow.split(',').map(|method| method.trim().to_owned()).collect()
}

#[test]
fn an_unknown_path_is_4004() {
    let server = TestServer::start();
    for path in [
        "/nowhere",
        "/plant",
        "/Plants",
        "/plants/",
        "/plants/1/",
        "/plants/1/2",
        "/plants/import/",
        "/plants/export/1",
        "//plants",
        "/plants//1",
        "/v1/plants",
        "/livez/",
        "/plants.json",
        "/nowhere?x=1",
    ] {
        for method in ["GET", "POST", "DELETE", "BREW"] {
            send(&server, &format!("{method} {path}")).assert_error(404, 4004);
        }
    }
}

#[test]
fn a_method_that_a_path_has_not_is_4005_and_the_answer_names_those_it_has() {
    let server = TestServer::start();
    for (path, wrong, right) in [
        (
            "/plants",
            &["PUT", "PATCH", "DELETE", "BREW"] as &[&str],
            &["GET", "HEAD", "POST", "OPTIONS"] as &[&str],
        ),
        ("/plants/1", &["POST", "BREW"], &["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        ("/plants/import", &["GET", "PUT", "PATCH", "DELETE", "BREW"], &["POST", "OPTIONS"]),
        (
            "/plants/export",
            &["POST", "PUT", "PATCH", "DELETE", "BREW"],
            &["GET", "HEAD", "OPTIONS"],
        ),
        ("/livez", &["POST", "PUT", "DELETE", "BREW"], &["GET", "HEAD", "OPTIONS"]),
        ("/readyz", &["POST", "PUT", "DELETE", "BREW"], &["GET", "HEAD", "OPTIONS"]),
    ] {
        for method in wrong {
            let answer = send(&server, &format!("{method} {path}"));
            answer.assert_error(405, 4005);
            let right = right.iter().map(|method| (*method).to_owned()).collect();
            assert_eq!(methods(&answer), right, "{path}: {answer:?}");
        }
    }
    let mut connection = server.connect();
    connection.send(raw_request("HEAD /plants/import", "", ""));
    let answer = connection.receive_head();
    assert_eq!(answer.status, 405, "HEAD is only where GET is: {answer:?}");
    assert!(!methods(&answer).contains("HEAD"), "{answer:?}");
}

#[test]
fn options_names_the_methods_without_a_token() {
    let server = TestServer::start();
    let client = server.client().without_token();
    for (path, method) in [
        ("/plants", "POST"),
        ("/plants/1", "PATCH"),
        ("/plants/import", "POST"),
        ("/plants/export", "GET"),
        ("/livez", "GET"),
        ("/readyz", "HEAD"),
    ] {
        let answer = client.send("OPTIONS", path, &[], "");
        assert_eq!(answer.status, 204, "{path}: {answer:?}");
        assert_eq!(answer.body, b"", "{path}: {answer:?}");
        let options = methods(&answer);
        assert!(options.contains(method) && options.contains("OPTIONS"), "{path}: {answer:?}");
        // Whoever asks and whoever is refused hears the same.
        assert_eq!(methods(&send(&server, &format!("BREW {path}"))), options);
    }
}

#[test]
fn head_is_get_without_its_body() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    let mut connection = server.connect();
    for path in [
        "/plants",
        "/plants?x=1",
        "/plants/1",
        "/plants/2",
        "/plants/007",
        "/plants/1?x=1",
        "/plants/export?x=1",
        "/livez",
        "/readyz",
    ] {
        connection.assert_head_is_like_get(path);
    }
    // Had HEAD a body, this would read it as the head of an answer.
    connection.send("GET /livez HTTP/1.1\r\nHost: plants\r\n\r\n");
    assert_eq!(connection.receive().status, 200);
}

#[test]
fn a_plant_is_read_as_it_was_created() {
    let server = TestServer::start();
    let client = server.client();
    for (id, tag) in [(1, Some("Rosaceae")), (-1, None), (0, Some("x")), (i64::MIN, None)] {
        client.create(id, "Rosa", tag).assert_plant("Rosa", tag);
        let read = client.read(id);
        read.assert_new_plant(id, "Rosa", tag);
        assert!(read.revision() > 0, "{read:?}");
    }
}

#[test]
fn an_id_of_no_plant_is_3002() {
    let server = TestServer::start();
    for id in [i64::MIN, -1, 0, 1, i64::MAX] {
        let message = server.client().read(id).assert_error(404, 3002);
        assert!(message.contains(&id.to_string()), "{message}");
    }
}

#[test]
fn an_id_that_is_not_canonical_is_1006() {
    let server = TestServer::start();
    for id in [-7, 0, 7, 10] {
        server.client().create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    for id in [
        "+7",
        "007",
        "07",
        "00",
        "-0",
        "-07",
        "7.0",
        "7e0",
        "1e1",
        "0x7",
        "7_0",
        "--7",
        "-",
        "+",
        "seven",
        "%207",
        "7%20",
        "7%00",
        "%EF%BC%97",
        "7,7",
        "7;x=1",
        "\"7\"",
        "null",
        "imports",
        ".",
        "7.",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
    ] {
        let message = send(&server, &format!("GET /plants/{id}")).assert_error(400, 1006);
        assert!(message.contains("id"), "{id}: {message}");
    }
}

#[test]
fn a_query_parameter_that_an_operation_has_not_is_1006() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    for query in ["x=1", "x", "id=1", "limit=1", "x=1&x=1", "=", "access_token=x"] {
        send(&server, &format!("GET /plants/1?{query}")).assert_error(400, 1006);
    }
}

#[test]
fn health_is_told_and_is_not_to_be_kept() {
    let server = TestServer::start();
    for path in ["/livez", "/readyz"] {
        let answer = send(&server, &format!("GET {path}"));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}: {answer:?}");
    }
}
