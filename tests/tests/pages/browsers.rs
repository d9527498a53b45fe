//! The headers for browsers: the type of an answer, what may cache it, and which origins may ask.

use plantd_tests::{Answer, Launch, TOKEN, TestServer, create_request, plant_body, raw_head};

const ORIGIN: &str = "https://plants.example";
const OTHER_ORIGIN: &str = "http://localhost:8000";

/// Every kind of answer, except those to heads that cannot be parsed.
fn answers(server: &TestServer, lines: &str) -> Vec<(String, Answer)> {
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let mut answers = Vec::new();
    let mut connection = server.connect();
    let create = create_request(&plant_body(1, "Rosa", None));
    connection.send(create.replacen("Content-Type:", &format!("{lines}Content-Type:"), 1));
    answers.push(("a create".to_owned(), connection.receive()));
    for (request_line, more) in [
        ("GET /plants/1", token.as_str()),
        ("GET /plants/1", &format!("{token}If-None-Match: *\r\n")),
        ("GET /plants", &token),
        ("GET /plants/export", &token),
        ("GET /plants/2", &token),
        ("GET /nowhere", &token),
        ("DELETE /plants", &token),
        ("PUT /plants/1", &token),
        ("GET /plants/1", ""),
        ("GET /plants/1", "Authorization: Bearer unknown\r\n"),
        ("GET /livez", ""),
        ("GET /readyz", ""),
        ("GET /docs", ""),
        ("OPTIONS /plants", ""),
        ("POST /plants", "Expect: 100-continue\r\nContent-Length: 5\r\n"),
    ] {
        let mut connection = server.connect();
        connection.send(format!("{request_line} HTTP/1.1\r\nHost: plants\r\n{more}{lines}\r\n"));
        answers.push((format!("{request_line} {more}"), connection.receive()));
    }
    answers
}

#[test]
fn every_answer_forbids_sniffing_framing_and_shared_caches() {
    let server = TestServer::start();
    for (request, answer) in answers(&server, "") {
        let header = |name| answer.header(name).unwrap_or_default();
        assert_eq!(header("x-content-type-options"), "nosniff", "{request}: {answer:?}");
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{request}: {answer:?}");
        assert!(policy.contains("frame-ancestors 'none'"), "{request}: {answer:?}");
        let cache = header("cache-control");
        let is_kept_out = cache == "no-store" || cache == "private, no-cache";
        assert!(is_kept_out, "{request}: {answer:?}");
    }
}

#[test]
fn pages_of_other_origins_may_do_nothing_unless_they_are_named() {
    let server = TestServer::start();
    let preflight = "Access-Control-Request-Method: POST\r\n";
    for lines in [format!("Origin: {ORIGIN}\r\n"), format!("Origin: {ORIGIN}\r\n{preflight}")] {
        for (request, answer) in answers(&server, &lines) {
            let allowed =
                answer.headers.iter().find(|(name, _)| name.starts_with("access-control"));
            assert_eq!(allowed, None, "{request}: {answer:?}");
        }
    }
}

#[test]
fn pages_of_a_named_origin_may_ask_and_see_the_answer_and_others_may_not() {
    let flags = ["--cors-origin", ORIGIN, "--cors-origin", OTHER_ORIGIN];
    let both = format!("{ORIGIN},{OTHER_ORIGIN}");
    for launch in
        [Launch::new().arguments(flags), Launch::new().environment("PLANTD_CORS_ORIGIN", &both)]
    {
        let server = TestServer::start_with(launch);
        for (origin, is_named) in [
            (ORIGIN, true),
            (OTHER_ORIGIN, true),
            ("https://plants.example.evil.example", false),
            ("", false),
        ] {
            let lines =
                if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
            for (request, answer) in answers(&server, &lines) {
                // A cache must not give the answer to another origin.
                let varies = ("vary".to_owned(), "origin".to_owned());
                assert!(answer.headers.contains(&varies), "{request}: {answer:?}");
                let allowed = answer.header("access-control-allow-origin");
                assert_eq!(allowed, is_named.then_some(origin), "{request}: {answer:?}");
                assert_eq!(answer.header("access-control-allow-credentials"), None, "{request}");
                if !is_named {
                    continue;
                }
                let exposed = answer.header("access-control-expose-headers").unwrap_or_default();
                for name in
                    ["etag", "link", "location", "retry-after", "x-request-id", "x-total-count"]
                {
                    let is_exposed = exposed.split(", ").any(|exposed| exposed == name);
                    assert!(is_exposed, "{name}: {answer:?}");
                }
            }
        }
    }
}

#[test]
fn a_preflight_is_answered_with_what_a_page_may_send() {
    let server = TestServer::start_with(Launch::new().arguments(["--cors-origin", ORIGIN]));
    for (path, method) in [("/plants", "POST"), ("/plants/1", "PUT"), ("/plants/import", "POST")] {
        let mut connection = server.connect();
        connection.send(format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: plants\r\nOrigin: {ORIGIN}\r\n\
             Access-Control-Request-Method: {method}\r\n\
             Access-Control-Request-Headers: authorization,content-type,if-match\r\n\r\n"
        ));
        let answer = connection.receive();
        answer.assert_no_content();
        let lists = |name: &str, wanted: &str| {
            let list = answer.header(name).unwrap_or_default();
            assert!(list.split(", ").any(|listed| listed == wanted), "{wanted}: {answer:?}");
        };
        lists("access-control-allow-methods", method);
        for header in [
            "authorization",
            "content-type",
            "idempotency-key",
            "if-match",
            "if-none-match",
            "x-request-id",
        ] {
            lists("access-control-allow-headers", header);
        }
        assert_eq!(answer.header("access-control-allow-origin"), Some(ORIGIN));
        assert!(answer.header("access-control-max-age").is_some(), "{answer:?}");
    }
}

#[test]
fn an_origin_replaces_no_token_and_forbids_nothing() {
    let server = TestServer::start_with(Launch::new().arguments(["--cors-origin", ORIGIN]));
    let mut connection = server.connect();
    let head = format!("GET /plants/1 HTTP/1.1\r\nHost: plants\r\nOrigin: {ORIGIN}\r\n\r\n");
    connection.send(head);
    connection.receive().assert_error(401, 2001);
    let mut connection = server.connect();
    connection.send(raw_head("GET /plants/1", "Origin: https://other.example\r\n"));
    connection.receive().assert_error(404, 3002);
}

#[test]
fn an_origin_that_no_browser_would_send_is_refused() {
    for origin in ["*", "plants.example", "https://plants.example/", "HTTPS://plants.example"] {
        let mut flag = Launch::new().arguments(["--cors-origin", origin]).spawn();
        flag.assert_exit_code(64);
        let mut variable = Launch::new().environment("PLANTD_CORS_ORIGIN", origin).spawn();
        variable.assert_exit_code(78);
    }
}
