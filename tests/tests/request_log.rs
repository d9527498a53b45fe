//! The id of a request and its line in the log, and the secrets that no log may hold.

use std::collections::BTreeSet;

use plantd_tests::{Answer, Launch, TOKEN, TestServer, create_request, plant_body, raw_head};

/// Sends a request with the token, and these header lines.
#[track_caller]
fn send(server: &TestServer, request_line: &str, lines: &str) -> Answer {
    let mut connection = server.connect();
    connection.send(raw_head(request_line, lines));
    connection.receive()
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
        let mut connection = server.connect();
        connection.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: plants\r\nX-Request-Id: case-{number}.\r\n{lines}\r\n\
             {body}"
        ));
        let answer = connection.receive();
        assert_eq!(answer.status, *status, "{method} {path} {lines}: {answer:?}");
        assert_eq!(id_of(&answer), format!("case-{number}."), "{method} {path} {lines}");
    }
    let mut connection = server.connect();
    connection.send("HEAD /livez HTTP/1.1\r\nHost: plants\r\n\r\n");
    let made = id_of(&connection.receive_head());
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
        let mut connection = server.connect();
        connection.send(format!(
            "{request_line} HTTP/1.1\r\nHost: plants\r\nX-Request-Id: case-{number}.\r\n{lines}\r\n"
        ));
        assert_eq!(connection.receive().status, *status, "{number}");
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
