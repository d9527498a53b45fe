//! The headers for browsers: the type of an answer, what may cache it, and which origins may read it.

use plant_http::CorsOrigin;
use plantd_tests::{
    Answer, CONFIGURATION, Launch, TOKEN, TestServer, USAGE, create_request, plant_body,
};

const ORIGIN: &str = "https://plants.example";
const OTHER_ORIGIN: &str = "http://localhost:8000";

/// The headers that a page of another origin may read.
const EXPOSED: [&str; 9] = [
    "etag",
    "link",
    "location",
    "retry-after",
    "x-events-after",
    "x-history-complete",
    "x-request-id",
    "x-searched-to",
    "x-total-count",
];

/// Every kind of answer, except those to heads that cannot be parsed.
fn answers(server: &TestServer, lines: &str) -> Vec<(String, Answer)> {
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let mut answers = Vec::new();
    let mut connection = server.connect();
    let create = create_request(&plant_body(1, "Rosa", None));
    connection.send(create.replacen("Content-Type:", &format!("{lines}Content-Type:"), 1));
    answers.push(("a create".to_owned(), connection.receive()));
    for (request_line, more, status) in [
        ("GET /plants/1", token.as_str(), 200),
        ("GET /plants/1", &format!("{token}If-None-Match: *\r\n"), 304),
        ("GET /plants", &token, 200),
        ("GET /plants/export", &token, 200),
        ("GET /plants/2", &token, 404),
        ("GET /nowhere", &token, 404),
        ("DELETE /plants", &token, 405),
        ("PUT /plants/1", &token, 400),
        ("GET /plants/1", "", 401),
        ("GET /plants/1", "Authorization: Bearer unknown\r\n", 401),
        ("GET /livez", "", 200),
        ("GET /readyz", "", 200),
        ("GET /docs", "", 200),
        ("OPTIONS /plants", "", 204),
        ("POST /plants", "Expect: 100-continue\r\nContent-Length: 5\r\n", 401),
    ] {
        let mut connection = server.connect();
        connection.send(format!("{request_line} HTTP/1.1\r\nHost: plants\r\n{more}{lines}\r\n"));
        let answer = connection.receive();
        // An origin neither replaces a token nor forbids a request.
        assert_eq!(answer.status, status, "{request_line} {more}{lines}: {answer:?}");
        answers.push((format!("{request_line} {more}"), answer));
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
        let is_health = ["GET /livez ", "GET /readyz "].contains(&request.as_str());
        let cache = if is_health { "no-store" } else { "private, no-cache" };
        assert_eq!(header("cache-control"), cache, "{request}: {answer:?}");
    }
}

#[test]
fn pages_of_other_origins_are_refused_unless_allowed() {
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
fn pages_of_an_allowed_origin_may_read_answers_and_others_may_not() {
    let flags = [ORIGIN, OTHER_ORIGIN, "https://[::1]:444"].map(|it| ["--cors-origin", it]);
    let both = format!("{ORIGIN},{OTHER_ORIGIN}");
    for launch in [
        Launch::new().arguments(flags.concat()),
        Launch::new().environment("PLANTD_CORS_ORIGIN", &both),
    ] {
        let server = TestServer::start_with(launch);
        let evil = "https://plants.example.evil.example";
        for (origin, is_named) in [(ORIGIN, true), (OTHER_ORIGIN, true), (evil, false), ("", false)]
        {
            let lines =
                if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
            for (request, answer) in answers(&server, &lines) {
                // A cache must not give the answer to another origin.
                let varies = ("vary".to_owned(), "origin".to_owned());
                assert!(answer.headers.contains(&varies), "{request}: {answer:?}");
                let allowed = answer.header("access-control-allow-origin");
                assert_eq!(allowed, is_named.then_some(origin), "{request}: {answer:?}");
                assert_eq!(answer.header("access-control-allow-credentials"), None, "{request}");
                let exposed = answer.header("access-control-expose-headers").unwrap_or_default();
                for name in EXPOSED.into_iter().filter(|_| is_named) {
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
        for header in ["authorization", "content-type", "idempotency-key", "x-request-id"] {
            lists("access-control-allow-headers", header);
        }
        for condition in ["if-match", "if-none-match"] {
            lists("access-control-allow-headers", condition);
        }
        assert_eq!(answer.header("access-control-allow-origin"), Some(ORIGIN));
        assert!(answer.header("access-control-max-age").is_some(), "{answer:?}");
    }
}

#[test]
fn an_origin_that_no_browser_would_send_is_refused() {
    let origins = "* null plants.example //plants.example https:// https://plants.example/ \
         https://plants.example/garden https://plants.example?x https://Plants.example \
         HTTPS://plants.example https://plants.example:443 https://plants.example: \
         http://plants.example:80 https://user@plants.example ftp://plants.example \
         https://plants.example:99999 https://plants.example:0 https://256.1.1.1 https://*.example";
    let two = "https://plants.example https://other.example";
    for origin in origins.split(' ').chain(["", two]) {
        Launch::new().arguments(["--cors-origin", origin]).assert_refused(USAGE, &[]);
        // An empty variable counts as unset.
        if !origin.is_empty() {
            let variable = Launch::new().environment("PLANTD_CORS_ORIGIN", origin);
            variable.assert_refused(CONFIGURATION, &[]);
        }
    }
}

#[test]
fn an_origin_is_refused_unless_it_is_written_as_the_url_standard_serializes_it() {
    for (written, form) in [
        ("https://plants.example:0443", "https://plants.example"),
        ("https://plants.example:08443", "https://plants.example:8443"),
        ("https://[::0001]:8443", "https://[::1]:8443"),
        ("http://127.1", "http://127.0.0.1"),
        ("http://1.2.3", "http://1.2.0.3"),
        ("http://0x7f.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://Plants.example", "https://plants.example"),
        ("https://pl%61nts.example", "https://plants.example"),
        ("https://gärten.example", "https://xn--grten-gra.example"),
        ("https://user@plants.example", "https://plants.example"),
        ("https://plants.example/", "https://plants.example"),
        ("https:plants.example", "https://plants.example"),
    ] {
        let refusal = written.parse::<CorsOrigin>().expect_err(written).to_string();
        assert_eq!(refusal, format!("browsers send {form}, so write it that way"), "{written}");
        assert!(form.parse::<CorsOrigin>().is_ok(), "{form}");
    }
}
