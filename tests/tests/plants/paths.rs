//! Paths, methods, ids and query parameters: which are accepted, and how others are refused.

use std::collections::BTreeSet;

use plant_http::internal::routes;
use plantd_tests::{Answer, TestServer};

use super::{JSON, assert_same, send};

fn methods(answer: &Answer) -> BTreeSet<String> {
    let allow = answer.header("allow").unwrap_or_else(|| panic!("no Allow: {answer:?}"));
    allow.split(',').map(|method| method.trim().to_owned()).collect()
}

#[test]
fn an_unknown_path_needs_a_token_and_is_4004() {
    let server = TestServer::start();
    let none = ["/nowhere", "/nowhere?x=1", "/plant", "/Plants", "/plants.json", "/v1/plants"];
    let slashes = ["/plants/", "/plants/1/", "//plants", "/plants//1", "/livez/"];
    let deeper = ["/plants/1/2", "/plants/import/", "/plants/export/1", "/plants/1/History"];
    // Unknown paths among the files of `/docs`.
    let files = ["/docs/nothing", "/docs/page.html", "/docs/swagger-ui-bundle.js.map"];
    let disguised = ["/docs/page.js/", "/docs//page.js", "/docs%2fpage.js"];
    let outside = ["/docs/../docs", "/docs/../../Cargo.toml"];
    for path in [&none[..], &slashes, &deeper, &files, &disguised, &outside].concat() {
        for method in ["GET", "POST", "DELETE", "BREW"] {
            send(&server, &format!("{method} {path}"), "", "").assert_error(404, 4004);
            let without_token = format!("{method} {path} HTTP/1.1\r\nHost: plants\r\n\r\n");
            server.answer_to(without_token).assert_error(401, 2001);
        }
    }
}

#[test]
fn a_method_that_a_path_lacks_is_4005_and_allow_lists_those_it_has() {
    let server = TestServer::start();
    let paths: BTreeSet<&str> = routes().iter().map(|route| route.path).collect();
    for route_path in paths {
        let path = route_path.replace("{id}", "1");
        let of_path = routes().into_iter().filter(|route| route.path == route_path);
        let mut allowed: BTreeSet<String> = of_path.map(|route| route.method).collect();
        allowed.insert("OPTIONS".to_owned());
        if allowed.contains("GET") {
            allowed.insert("HEAD".to_owned());
        }
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW"] {
            if allowed.contains(method) {
                continue;
            }
            let answer = send(&server, &format!("{method} {path}"), "", "");
            assert_eq!(answer.status, 405, "{method} {path}: {answer:?}");
            if method != "HEAD" {
                answer.assert_error(405, 4005);
            }
            assert_eq!(methods(&answer), allowed, "{method} {path}: {answer:?}");
        }
        let answer = server.client().without_token().send("OPTIONS", &path, &[], "");
        answer.assert_no_content();
        assert_eq!(methods(&answer), allowed, "{path}: {answer:?}");
    }
}

#[test]
fn options_of_the_server_names_every_method() {
    let server = TestServer::start();
    let answer = server.answer_to("OPTIONS * HTTP/1.1\r\nHost: plants\r\n\r\n");
    answer.assert_no_content();
    let all = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    assert_eq!(methods(&answer), all.map(str::to_owned).into());
}

#[test]
fn head_is_get_without_its_body() {
    let server = TestServer::start();
    for id in [1, 3, 4] {
        server.client().create(id, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    }
    let mut connection = server.connect();
    let plants = ["/plants/1", "/plants/2", "/plants/007", "/plants/1?x=1"];
    let refused = ["/plants?limit=0", "/plants?x=1", "/plants/export?x=1", "/tags?x=1"];
    let others =
        ["/plants/export", "/plants/1/history", "/livez", "/readyz", "/token", "/openapi.json"];
    for path in [&plants[..], &refused, &others, &["/metrics?x=1", "/backup?x=1"]].concat() {
        connection.assert_head_is_like_get(path, "");
    }
    // Headers that depend on generating the content are omitted (RFC 9110, section 9.3.2).
    let lists = ["/plants", "/plants?limit=1", "/plants?tag=x&limit=1", "/plants?name=R&limit=1"];
    let events = ["/events", "/events?limit=1&plants=true", "/events?after=now", "/events?wait=1"];
    for path in [&lists[..], &events, &["/tags", "/tags?limit=1", "/metrics"]].concat() {
        connection.assert_head_is_get_without(&["content-length", "link"], path, "");
    }
    connection.assert_head_is_get_without(&["transfer-encoding"], "/backup", "");
    // If the answer to HEAD had a body, this would read the body as the head of the next answer.
    connection.send("GET /livez HTTP/1.1\r\nHost: plants\r\n\r\n");
    assert_eq!(connection.receive().status, 200);
}

#[test]
fn an_id_that_is_not_canonical_is_1006() {
    let server = TestServer::start();
    let client = server.client();
    for id in [-7, 0, 7, 10] {
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    let before = client.list("");
    let numbers = ["+7", "007", "07", "00", "-0", "-07", "7.0", "7.", "7e0", "1e1", "0x7", "7_0"];
    let texts = ["--7", "-", "+", "seven", "imports", "7,7", "7;x=1", "\"7\"", "null", "."];
    let encoded = ["%207", "7%20", "7%00", "%EF%BC%97", "7%2Fhistory"];
    let too_large = ["9223372036854775808", "-9223372036854775809", "99999999999999999999999999"];
    for id in [&numbers[..], &texts, &encoded, &too_large].concat() {
        for (method, lines, body) in [
            ("GET", "", ""),
            ("PUT", JSON, r#"{"name":"Abies"}"#),
            ("PATCH", JSON, r#"{"name":"Abies"}"#),
            ("DELETE", "", ""),
            ("history", "", ""),
        ] {
            let request = match method {
                "history" => format!("GET /plants/{id}/history"),
                _ => format!("{method} /plants/{id}"),
            };
            let answer = send(&server, &request, lines, body);
            assert_eq!(answer.status, 400, "{method} {id}: {answer:?}");
            let message = answer.assert_error(400, 1006);
            let mut words = message.split(|letter: char| !letter.is_alphanumeric());
            assert!(words.any(|word| word == "id"), "{method} {id}: {message}");
        }
    }
    assert_same(&before, &client.list(""), "an id that is not canonical");
}

#[test]
fn an_unknown_query_parameter_is_1006() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    let before = client.list("");
    let names = ["x=1", "x", "id=1", "limit=1", "x=1&x=1", "dry_run", "="];
    for query in names.into_iter().chain(["on_conflict=replace", "access_token=x"]) {
        for (request, lines, body) in [
            ("GET /plants/1", "", ""),
            ("GET /plants/export", "", ""),
            ("POST /plants", JSON, r#"{"id":7,"name":"Rosa"}"#),
            ("PUT /plants/1", JSON, r#"{"name":"Abies"}"#),
            ("PATCH /plants/1", JSON, r#"{"name":"Abies"}"#),
            ("DELETE /plants/1", "", ""),
        ] {
            let answer = send(&server, &format!("{request}?{query}"), lines, body);
            assert_eq!(answer.status, 400, "{request}?{query}: {answer:?}");
            answer.assert_error(400, 1006);
        }
    }
    assert_same(&before, &client.list(""), "a query parameter");
}
