//! The id of a request and its line in the log, and the secrets that no log may hold.

use std::collections::{BTreeMap, BTreeSet};

use plantd_tests::{
    Answer, Document, Format, Launch, TOKEN, TestServer, create_request, plant_body, raw_head,
};
use serde_json::{Map, Value};

/// Sends a request with the token, and these header lines.
#[track_caller]
fn send(server: &TestServer, request_line: &str, lines: &str) -> Answer {
    server.answer_to(raw_head(request_line, lines))
}

fn id_of(answer: &Answer) -> String {
    let id = answer.header("x-request-id").unwrap_or_else(|| panic!("no request id: {answer:?}"));
    let is_visible = id.bytes().all(|byte| byte.is_ascii_graphic());
    assert!((1..=128).contains(&id.len()) && is_visible, "{id:?}");
    id.to_owned()
}

#[test]
fn a_request_id_of_up_to_128_visible_characters_is_echoed_and_another_one_is_made_anew() {
    let server = TestServer::start();
    for id in ["x", "a/b+c=d;e,f\"g\"~!#", &"x".repeat(128)] {
        let answer = send(&server, "GET /plants/1", &format!("x-REQUEST-id:  {id} \r\n"));
        assert_eq!(id_of(&answer), id);
    }
    let mut made = BTreeSet::new();
    for lines in [
        "",
        "",
        "X-Request-Id:\r\n",
        "X-Request-Id: a b\r\n",
        "X-Request-Id: a\tb\r\n",
        "X-Request-Id: \u{e9}\r\n",
        &format!("X-Request-Id: {}\r\n", "x".repeat(129)),
    ] {
        let id = id_of(&send(&server, "GET /plants/1", lines));
        assert!(id.len() > 1 && !lines.contains(&id), "{lines:?} gave {id:?}");
        assert!(made.insert(id), "an id was made twice: {made:?}");
    }
}

#[test]
fn every_request_has_its_id_and_one_line_in_the_log() {
    let mut server = TestServer::start();
    let authorization = format!("Authorization: Bearer {TOKEN}\r\n");
    let json = "Content-Type: application/json\r\n";
    let create = |body: &str| format!("{authorization}{json}Content-Length: {}\r\n", body.len());
    let expect = format!("{json}Content-Length: 9\r\nExpect: 100-continue\r\n");
    let rosa = plant_body(1, "Rosa", None);
    let cases: [(&str, &str, &str, &str, u16); 14] = [
        ("POST", "/plants", &create(&rosa), &rosa, 200),
        ("POST", "/plants", &create(&rosa), &rosa, 400),
        ("POST", "/plants", &create("{"), "{", 400),
        ("POST", "/plants", &create(&"x".repeat(65_537)), "", 400),
        ("GET", "/plants/1", &authorization, "", 200),
        ("GET", "/plants/2", &authorization, "", 404),
        ("GET", "/plants/1", "", "", 401),
        ("GET", "/plants/1", &format!("{authorization}{authorization}"), "", 400),
        ("GET", "/nowhere", &authorization, "", 404),
        ("DELETE", "/plants", &authorization, "", 405),
        ("OPTIONS", "/plants", "", "", 204),
        ("GET", "/readyz", "", "", 200),
        ("POST", "/plants", &expect, "", 401),
        ("BREW", "/livez", "Authorization: Bearer unknown\r\n", "", 401),
    ];
    for (number, (method, path, lines, body, status)) in cases.iter().enumerate() {
        let answer = server.answer_to(format!(
            "{method} {path} HTTP/1.1\r\nHost: plants\r\nX-Request-Id: case-{number}.\r\n{lines}\r\n\
             {body}"
        ));
        assert_eq!(answer.status, *status, "{method} {path} {lines}: {answer:?}");
        assert_eq!(id_of(&answer), format!("case-{number}."), "{method} {path} {lines}");
    }
    let made = id_of(&server.answer_to("HEAD /livez HTTP/1.1\r\nHost: plants\r\n\r\n"));
    assert_eq!(server.terminate().code(), Some(0));

    let log = server.stderr();
    let line_of = |id: &str| {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(id)).collect();
        assert_eq!(lines.len(), 1, "the lines about {id}: {lines:?} in {log}");
        lines[0].split_whitespace().collect::<Vec<&str>>()
    };
    for (number, (method, path, _, _, status)) in cases.iter().enumerate() {
        let words = line_of(&format!("case-{number}."));
        for word in [method, path, status.to_string().as_str()] {
            assert!(words.contains(&word), "{word:?} is missing in {words:?}");
        }
    }
    let words = line_of(&made);
    assert!(["HEAD", "/livez", "200"].iter().all(|word| words.contains(word)), "{words:?}");
}

#[test]
fn a_page_is_one_line_in_the_log_and_its_parts_are_lines_for_debugging_unless_they_fail() {
    let launch = Launch::new().environment("RUST_LOG", "plantd=debug");
    let mut server = TestServer::start_with(launch);
    let requests = [
        ("GET /", 200, "INFO"),
        ("GET /docs", 200, "INFO"),
        ("GET /docs/", 307, "INFO"),
        ("GET /app/main.js", 200, "DEBUG"),
        ("HEAD /app/base.css", 200, "DEBUG"),
        ("GET /docs/page.js", 200, "DEBUG"),
        ("GET /app/missing.js", 404, "INFO"),
        ("DELETE /app/main.js", 405, "INFO"),
    ];
    for (request_line, status, _) in requests {
        assert_eq!(send(&server, request_line, "").status, status, "{request_line}");
    }
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    for (request_line, status, level) in requests {
        let shown = format!(" {request_line} {status} ");
        let line = log.lines().find(|line| line.contains(&shown));
        let line = line.unwrap_or_else(|| panic!("{shown} is missing: {log}"));
        assert!(line.contains(&format!(" {level} ")), "{line}");
    }
}

/// Parts of a plant, a key or a query in a request. `secrets.rs` asserts the same for tokens.
#[test]
fn no_secret_is_in_the_log_when_it_tells_all_of_the_server_itself() {
    let filter = "info,plantd=trace,plant_http=trace,plant_store=trace,plant_domain=trace";
    let mut server = TestServer::start_with(Launch::new().environment("RUST_LOG", filter));
    let lines =
        "X-Request-Id: traced\r\nIdempotency-Key: \"secret-key\"\r\nX-More: secret-more\r\n";
    let create = |body: &str| {
        create_request(body).replacen("Content-Type:", &format!("{lines}Content-Type:"), 1)
    };
    let requests = [
        (create(&plant_body(1, "secret-name", Some("secret-tag"))), 200),
        (create(&plant_body(1, "secret-other", None)), 400),
        (create(&plant_body(2, "secret-\u{7}", Some("secret-\u{7}"))), 400),
        (create("{\"secret-broken"), 400),
        (create("{\"id\":\"secret-id\",\"name\":1,\"secret-member\":2}"), 400),
        (create(&"secret-long".repeat(10_000)), 400),
        (create("x").replacen("application/json", "secret/type", 1), 400),
        (create("x").replacen("\"secret-key\"", "secret-broken-key", 1), 400),
        (raw_head("GET /plants/1?secret-query=1", lines), 400),
        (raw_head("GET /nowhere?secret-query", lines), 404),
        (raw_head("GET /plants/1", lines), 200),
    ];
    for (request, status) in &requests {
        let mut connection = server.connect();
        // The server may answer a request that is too long before it has come.
        let _ = connection.try_send(request);
        let answer = connection.receive();
        assert_eq!(answer.status, *status, "{request}: {answer:?}");
    }
    assert_eq!(server.terminate().code(), Some(0));

    let (stdout, stderr) = (server.process().stdout(), server.stderr());
    assert_eq!(stderr.matches("traced").count(), requests.len(), "{stderr}");
    for secret in ["secret", TOKEN] {
        assert!(!stdout.contains(secret), "{secret} stands in {stdout}");
        assert!(!stderr.contains(secret), "{secret} stands in {stderr}");
    }
}

#[test]
fn the_log_tells_nothing_below_warnings_when_so_asked() {
    let mut server = TestServer::start_with(Launch::new().environment("RUST_LOG", "warn"));
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(server.stderr(), "");
}

#[test]
fn what_a_client_sends_fills_no_more_than_a_part_of_a_line_of_the_log() {
    let mut server = TestServer::start();
    let long = "x".repeat(8_000);
    let authorization = format!("Authorization: Bearer {TOKEN}\r\n");
    // Each with the beginning and the end of its line.
    let cases = [
        (format!("GET /{long}"), "", 401, "GET /xxxx", "x…(cut) 401 "),
        (format!("DELETE /{long}"), &authorization, 404, "DELETE /xxxx", "x…(cut) 404 "),
        (format!("{long} /plants/1"), "", 401, " xxxx", "x…(cut) /plants/1 401 "),
        (format!("{long} /plants/1"), &authorization, 405, " xxxx", "x…(cut) /plants/1 405 "),
        ("GET /plants/1".to_owned(), "", 401, "GET /plants/1", "GET /plants/1 401 "),
    ];
    for (number, (request_line, lines, status, ..)) in cases.iter().enumerate() {
        let answer = server.answer_to(format!(
            "{request_line} HTTP/1.1\r\nHost: plants\r\nX-Request-Id: case-{number}.\r\n{lines}\r\n"
        ));
        assert_eq!(answer.status, *status, "{number}");
    }
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    for (number, (_, _, _, begin, end)) in cases.iter().enumerate() {
        let mut lines = log.lines().filter(|line| line.contains(&format!("id=case-{number}.")));
        let line = lines.next().expect("each request has a line");
        assert!(line.len() < 1_000, "{number}: {} bytes", line.len());
        assert!(line.contains(begin) && line.contains(end), "{number}: {line}");
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// The log of a server that has answered, cut off and failed requests.
fn log_in(format: &str) -> String {
    let launch = Launch::new()
        .arguments(["--log-format", format])
        .environment("RUST_LOG", "info,plantd::audit::import=debug")
        .faults("in-handler=1*off->1*panic(a fault)->off");
    let mut server = TestServer::start_with(launch);
    let client = server.client();
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "\"quoted\""),
        ("traceparent", traceparent.as_str()),
    ];
    client.send("POST", "/plants", &headers, plant_body(1, "Rosa", None));
    client.read(2).assert_error(404, 3002);
    client.import(Format::Ndjson, "", "{\"id\":3,\"name\":\"Abies\"}\n{}\n");
    client.without_token().read(1).assert_error(401, 2001);
    client.create(4, "Salix", None).assert_error(500, 5001);
    let mut leaving = server.connect();
    leaving.begin_create(&plant_body(5, "Tilia", None));
    leaving.reset();
    assert_eq!(server.terminate().code(), Some(0));
    server.stderr()
}

/// What is the same in each run: no time, no port, no folder, no duration, no id that the server makes.
fn stable(fields: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let changes = |name: &str, value: &str| {
        ["time", "peer", "duration_us", "id"].contains(&name) || value.contains(" serves ")
    };
    let fields = fields.iter().map(|(name, value)| {
        (name.clone(), if changes(name, value) { "…".to_owned() } else { value.clone() })
    });
    fields.collect()
}

/// The fields of a line in text, with the names that they have in JSON.
fn fields_in_text(line: &str) -> Option<BTreeMap<String, String>> {
    let (begin, text) = line.strip_prefix('[')?.split_once("] ")?;
    let [time, level, target] = begin.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{line:?} begins with no time, level and target");
    };
    let mut fields = BTreeMap::from(
        [("time", time), ("level", level), ("target", target)]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let mut add = |name: &str, value: &str| drop(fields.insert(name.to_owned(), value.to_owned()));
    match target {
        "plantd::access" | "plantd::audit" => {
            for (name, word) in
                ["peer", "method", "path", "status", "duration_us"].into_iter().zip(text.split(' '))
            {
                add(name, if word == "-" { "null" } else { word });
            }
        }
        "plantd::audit::import" => add("outcome", text.split(' ').next().unwrap_or_default()),
        _ => match text.split_once(": id=") {
            Some((message, _)) => add("message", message),
            None => {
                add("message", text);
                return Some(fields);
            }
        },
    }
    for (name, value) in text.split(' ').filter_map(|word| word.split_once('=')) {
        add(name, value);
    }
    Some(fields)
}

fn fields_in_json(line: &str) -> BTreeMap<String, String> {
    let object: Map<String, Value> = serde_json::from_str(line).expect("each line is an object");
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    object.into_iter().map(|(name, value)| (name, text(value))).collect()
}

#[test]
fn a_line_in_json_has_the_fields_of_the_line_in_text_and_the_document_names_all_of_them() {
    let (text, json) = (log_in("text"), log_in("json"));
    let in_json: Vec<_> = json.lines().map(fields_in_json).collect();
    let mut seen: BTreeSet<&str> =
        in_json.iter().flatten().map(|(name, _)| name.as_str()).collect();
    // Lines of different threads may come in another order.
    let sorted = |mut lines: Vec<BTreeMap<String, String>>| {
        // It is several lines in text.
        let is_panic = |message: &String| message.contains("panicked at");
        lines.retain(|fields| !fields.get("message").is_some_and(is_panic));
        lines.sort();
        lines
    };
    let in_text = text.lines().filter_map(fields_in_text).map(|fields| stable(&fields));
    assert_eq!(
        sorted(in_json.iter().map(stable).collect()),
        sorted(in_text.collect()),
        "text:\n{text}\njson:\n{json}"
    );
    let traced = in_json.iter().find(|fields| fields.contains_key("trace_id"));
    let traced = traced.expect("the trace is logged");
    assert_eq!((traced["trace_id"].as_str(), traced["parent_id"].as_str()), (TRACE, PARENT));

    // Of a row whose outcome is unknown, which takes a fault of the store.
    seen.insert("unknown");
    let table = Document::read("docs/reference.md").part("Log fields").table();
    let documented = table.iter().flat_map(|row| row[0].split(", "));
    assert_eq!(documented.map(|name| name.trim_matches('`')).collect::<BTreeSet<_>>(), seen);
}
