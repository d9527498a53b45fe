//! Bearer tokens: which requests pass, and the errors of the others. `route_walk.rs` sends more of them to every
//! route.

use plantd_tests::{Answer, Launch, TOKEN, TestServer, write_tokens_file};

const NO_TOKEN_CHALLENGE: &str = r#"Bearer realm="plant-store""#;

/// Sends a request whose lines after the host are these, without a body.
#[track_caller]
fn send(server: &TestServer, request_line: &str, lines: &str) -> Answer {
    let mut connection = server.connect();
    connection.send(format!("{request_line} HTTP/1.1\r\nHost: plants\r\n{lines}\r\n"));
    connection.receive()
}

/// Claims an error with this code in its challenge, and none where a token is missing.
#[track_caller]
fn assert_challenge(answer: &Answer, status: u16, number: i32, code: &str) {
    answer.assert_error(status, number);
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    let expected = match number {
        2001 => NO_TOKEN_CHALLENGE.to_owned(),
        _ => format!("{NO_TOKEN_CHALLENGE}, error=\"{code}\""),
    };
    assert_eq!(challenge, expected, "{answer:?}");
}

#[test]
fn no_token_is_2001_an_unknown_one_2002_and_two_headers_are_1007() {
    let server = TestServer::start();
    let good = format!("Authorization: Bearer {TOKEN}\r\n");
    for lines in [
        "",
        "Authorization: Bearer     \r\n",
        &format!("Authorization: Bearer{TOKEN}\r\n"),
        &format!("Authorization: Token {TOKEN}\r\n"),
        &format!("Authorization: Bearers {TOKEN}\r\n"),
        &format!("Proxy-Authorization: Bearer {TOKEN}\r\n"),
    ] {
        for request_line in ["GET /plants/1", "GET /plants/007"] {
            assert_challenge(&send(&server, request_line, lines), 401, 2001, "");
        }
    }
    for token in [
        "x",
        &TOKEN[1..],
        &format!("{TOKEN}x"),
        &format!("{TOKEN} x"),
        &format!("{TOKEN},{TOKEN}"),
        &format!("\"{TOKEN}\""),
        &"x".repeat(4000),
        "t\u{f6}ken",
    ] {
        let answer = send(&server, "GET /plants/1", &format!("Authorization: Bearer {token}\r\n"));
        assert_challenge(&answer, 401, 2002, "invalid_token");
    }
    for lines in [
        format!("{good}{good}"),
        format!("{good}authorization: Bearer x\r\n"),
        format!("Authorization: Basic x\r\n{good}"),
    ] {
        let answer = send(&server, "GET /plants/1", &lines);
        assert_challenge(&answer, 400, 1007, "invalid_request");
    }
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let lines = format!("Authorization: {scheme} {TOKEN}\r\n");
        send(&server, "GET /plants/1", &lines).assert_error(404, 3002);
    }
}

#[test]
fn a_token_of_the_file_may_do_what_its_scope_says_until_it_expires_and_one_of_the_environment_all()
{
    let without = Launch::new().without_environment("PLANTD_TOKEN");
    for (launch, has_one) in [(Launch::new(), true), (without, false)] {
        let server = TestServer::start_prepared(launch, "data", write_tokens_file);
        let [reader, writer, expired] =
            ["reader", "writer", "expired"].map(|token| server.client().with_token(token));

        writer.create(1, "Rosa", None).assert_plant("Rosa", None);
        writer.read(1).assert_new_plant(1, "Rosa", None);
        reader.read(1).assert_new_plant(1, "Rosa", None);
        for answer in [
            reader.create(2, "Rosa", None),
            reader.create(1, "Rosa", None),
            reader.create_from("{"),
            reader.send("DELETE", "/plants/1", &[], ""),
            reader.send("POST", "/nowhere", &[], "x"),
        ] {
            assert_challenge(&answer, 403, 2003, "insufficient_scope");
        }
        for answer in [expired.read(1), expired.create(3, "Rosa", None)] {
            assert_challenge(&answer, 401, 2002, "invalid_token");
        }
        writer.read(2).assert_error(404, 3002);
        writer.read(3).assert_error(404, 3002);
        let answer = server.client().create(4, "Rosa", None);
        if has_one {
            answer.assert_plant("Rosa", None);
        } else {
            assert_challenge(&answer, 401, 2002, "invalid_token");
        }
    }
}
