//! HTTP itself: connections that are kept, requests in pieces, bodies in chunks, and clients that
//! are slow, old or broken.

use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{Format, TOKEN, TestServer, create_request, plant_body, wait_until};

fn read_request(id: i64) -> String {
    format!("GET /plants/{id} HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

/// The head of a create whose body comes in chunks.
fn chunked_head() -> String {
    format!(
        "POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
}

#[test]
fn a_connection_is_kept_for_several_requests() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for id in 0..20 {
        connection.send(create_request(&plant_body(id, "Rosa", None)));
        connection.receive().assert_plant("Rosa", None);
        connection.send(read_request(id));
        connection.receive().assert_new_plant(id, "Rosa", None);
        connection.send(read_request(-1));
        connection.receive().assert_error(404, 3002);
    }
}

#[test]
fn a_connection_is_closed_when_the_client_asks_for_it() {
    let server = TestServer::start();
    let mut connection = server.connect();
    connection.send(read_request(1).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    connection.receive().assert_error(404, 3002);
    connection.assert_closed();
}

#[test]
fn requests_that_are_sent_at_once_are_answered_in_their_order() {
    let server = TestServer::start();
    let mut connection = server.connect();
    let mut requests = String::new();
    for id in 0..20 {
        requests.push_str(&create_request(&plant_body(id, &format!("plant {id}"), None)));
        requests.push_str(&create_request(&plant_body(id, "another", None)));
        requests.push_str(&read_request(id));
        requests.push_str(&create_request("{"));
    }
    connection.send(&requests);
    for id in 0..20 {
        let name = format!("plant {id}");
        connection.receive().assert_plant(&name, None);
        connection.receive().assert_error(400, 3001);
        connection.receive().assert_new_plant(id, &name, None);
        connection.receive().assert_error(400, 1001);
    }
}

#[test]
fn a_client_that_ends_its_sending_still_gets_its_answers() {
    let server = TestServer::start();
    let mut connection = server.connect();
    connection.send(create_request(&plant_body(1, "Rosa", None)) + &read_request(1));
    connection.finish_sending();
    connection.receive().assert_plant("Rosa", None);
    connection.receive().assert_new_plant(1, "Rosa", None);
    connection.assert_closed();
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = TestServer::start();
    let mut connection = server.connect();
    connection.send_byte_by_byte(create_request(&plant_body(1, "Rosa 🌱", Some("é"))));
    connection.receive().assert_plant("Rosa 🌱", Some("é"));
    let body = plant_body(2, "Abies", None);
    connection.send_byte_by_byte(chunked_head());
    connection.send_byte_by_byte(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    connection.receive().assert_plant("Abies", None);
    connection.send_byte_by_byte(read_request(1));
    connection.receive().assert_new_plant(1, "Rosa 🌱", Some("é"));
}

#[test]
fn a_body_may_come_in_chunks_of_any_size() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for (id, size) in (1..).zip([1, 2, 3, 7, 100]) {
        let body = plant_body(id, "Rosa 🌱", None);
        let mut message = chunked_head().into_bytes();
        for (number, chunk) in body.as_bytes().chunks(size).enumerate() {
            let extension = if number == 1 { ";name=value" } else { "" };
            message.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
            message.extend_from_slice(chunk);
            message.extend_from_slice(b"\r\n");
        }
        message.extend_from_slice(b"0\r\n\r\n");
        connection.send(message);
        connection.receive().assert_plant("Rosa 🌱", None);
        connection.send(read_request(id));
        connection.receive().assert_new_plant(id, "Rosa 🌱", None);
    }
}

#[test]
fn a_client_of_http_1_0_is_served() {
    let server = TestServer::start();
    let old = |request: String| request.replacen("HTTP/1.1\r\nHost: plants", "HTTP/1.0", 1);
    let mut connection = server.connect();
    connection.send(old(create_request(&plant_body(1, "Rosa", None))));
    connection.receive().assert_plant("Rosa", None);
    connection.assert_closed();
    let mut connection = server.connect();
    connection.send(old(read_request(1)));
    connection.receive().assert_new_plant(1, "Rosa", None);
    connection.assert_closed();
}

#[test]
fn a_body_that_does_not_end_is_5004_and_nobody_else_waits_for_it() {
    let server = TestServer::start();
    let whole = create_request(&plant_body(1, "Rosa", None));
    let mut slow: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for connection in &mut slow {
        connection.send(&whole[..whole.len() - 1]);
    }
    for id in 2..20 {
        server.client().create(id, "Abies", None).assert_plant("Abies", None);
    }
    // The slow ones are not through yet, so the others were served beside them and not after them.
    slow[0].assert_silent_for(Duration::from_millis(1));
    for connection in &mut slow {
        connection.receive().assert_error(408, 5004);
        connection.wait_for_close();
    }
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn a_head_that_does_not_end_ends_the_connection_whether_it_is_the_first_or_a_later_one() {
    let server = TestServer::start();
    let [mut first, mut later, mut trickling] = [(); 3].map(|()| server.connect());
    for connection in [&mut later, &mut trickling] {
        connection.send(read_request(1));
        connection.receive().assert_error(404, 3002);
    }
    let begin_of_head = "GET /livez HTTP/1.1\r\nX: ";
    let begun = Instant::now();
    for connection in [&mut first, &mut later, &mut trickling] {
        connection.send(begin_of_head);
    }
    wait_until("the end of a connection on which a later head trickles", || {
        thread::sleep(Duration::from_millis(50));
        trickling.try_send("x").is_err()
    });
    first.wait_for_close();
    later.wait_for_close();
    assert!(begun.elapsed() < Duration::from_secs(60), "no more than the keep-alive ended them");
}

#[test]
fn a_head_that_cannot_be_parsed_is_400_without_a_body_and_ends_the_connection() {
    let server = TestServer::start();
    let length = |length: &str| {
        create_request("x").replacen("Content-Length: 1", &format!("Content-Length: {length}"), 1)
    };
    for bytes in [
        "GARBAGE\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez HTTP/9.9\r\n\r\n",
        "GET /livez\0 HTTP/1.1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /livez HTTP/1.1\r\nbad name: x\r\n\r\n",
        "GET /livez HTTP/1.1\r\nx: a\0b\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\r\n\r\n",
        &length("x"),
        &length("-1"),
        &length("+1"),
        &length("1\r\nContent-Length: 2"),
    ] {
        let mut connection = server.connect();
        connection.send(bytes);
        let answer = connection.receive();
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (400, &[][..]),
            "{bytes:?}: {answer:?}"
        );
        connection.assert_closed();
    }
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn a_request_that_two_parsers_could_read_in_two_ways_is_refused() {
    let server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let smuggled = chunked_head().replacen("\r\n\r\n", "\r\nContent-Length: 4\r\n\r\n", 1)
        + &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let mut connection = server.connect();
    connection.send(smuggled);
    let answer = connection.receive();
    assert_eq!(answer.status, 400, "{answer:?}");
    connection.wait_for_close();
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn the_body_of_a_request_that_is_refused_on_its_head_is_not_taken_for_a_request() {
    let server = TestServer::start();
    let body = create_request(&plant_body(1, "smuggled", None));
    let length = body.len();
    let authorization = format!("Authorization: Bearer {TOKEN}\r\n");
    for (request_line, lines, status, number) in [
        ("POST /plants", "", 401, 2001),
        ("POST /plants", "Expect: 100-continue\r\n", 401, 2001),
        ("POST /nowhere", &authorization, 404, 4004),
        ("DELETE /plants", &authorization, 405, 4005),
        ("POST /plants", &authorization, 400, 1002),
        (
            "POST /plants?x=1",
            &format!("{authorization}Content-Type: application/json\r\n"),
            400,
            1006,
        ),
        ("GET /plants/1", &authorization, 404, 3002),
    ] {
        let mut connection = server.connect();
        connection.send(format!(
            "{request_line} HTTP/1.1\r\nHost: plants\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
        ));
        connection.receive().assert_error(status, number);
        // The connection may have been closed. If it was not, the next answer is that to this.
        let _ = connection.try_send(read_request(1));
        if let Ok(answer) = connection.try_receive() {
            answer.assert_error(404, 3002);
        }
        server.client().read(1).assert_error(404, 3002);
    }
}

#[test]
fn nothing_is_done_behind_an_answer_that_closes_the_connection() {
    let server = TestServer::start();
    let next = create_request(&plant_body(1, "Rosa", None));
    let authorization = format!("Authorization: Bearer {TOKEN}\r\n");
    for (request_line, lines, status, number) in [
        ("POST /plants", "", 401, 2001),
        ("POST /nowhere", &*authorization, 404, 4004),
        ("POST /plants", &*authorization, 400, 1002),
        ("GET /plants/1", &*authorization, 404, 3002),
    ] {
        for body in [
            "Content-Length: 2\r\n\r\n{}",
            "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ] {
            let mut connection = server.connect();
            connection.send(format!("{request_line} HTTP/1.1\r\nHost: x\r\n{lines}{body}{next}"));
            let answer = connection.receive();
            answer.assert_error(status, number);
            assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
            connection.assert_closed();
            server.client().read(1).assert_error(404, 3002);
        }
    }
}

#[test]
fn a_body_in_broken_chunks_is_1001_and_nothing_is_created() {
    let server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let length = body.len();
    for chunks in [
        "zz\r\n".to_owned(),
        format!("{length:x}\r\n{body}zz"),
        format!("{length:x}\r\n{body}\r\nzz\r\n"),
        format!("-{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("ffffffffffffffffff\r\n{body}"),
        format!("0x{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("{length:x}\n{body}\r\n0\r\n\r\n"),
        format!("{length:x}\r\n{body}XX0\r\n\r\n"),
    ] {
        let mut connection = server.connect();
        connection.send(chunked_head() + &chunks);
        let answer = connection.receive();
        answer.assert_error(400, 1001);
        let text = String::from_utf8_lossy(&answer.body);
        assert!(text.contains("chunks are broken") && !text.contains("None"), "{chunks:?}: {text}");
        connection.wait_for_close();
        server.client().read(1).assert_error(404, 3002);
    }
}

#[test]
fn a_client_that_offers_another_protocol_is_served_over_this_one() {
    let server = TestServer::start();
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                 HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nContent-Type:";
    let request = create_request(&plant_body(1, "Rosa", None));
    let mut connection = server.connect();
    connection.send(request.replacen("Content-Type:", offer, 1));
    connection.receive().assert_plant("Rosa", None);
}

#[test]
fn the_target_may_be_a_whole_address() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let mut connection = server.connect();
    connection.send(read_request(1).replacen("GET /", "GET http://plants/", 1));
    connection.receive().assert_new_plant(1, "Rosa", None);
}

#[test]
fn a_client_that_takes_nothing_of_its_answer_does_not_hold_it_for_ever() {
    // More than the sockets' buffers take.
    const PLANTS: i64 = 10_000;
    let mut server = TestServer::start();
    // It keeps its connection, so that the number of sockets changes by the export's only.
    let client = server.client();
    let long = "𝒑".repeat(255);
    let rows: String = (0..PLANTS).map(|id| plant_body(id, &long, Some(&long)) + "\n").collect();
    let report = client.import(Format::Ndjson, "", &rows);
    assert_eq!(report.json()["created"], PLANTS);
    let before = server.process().sockets();

    let mut connection = server.connect();
    connection.send(format!(
        "GET /plants/export HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    wait_until("the export to begin", || server.process().sockets() > before);
    wait_until("the server to give up", || server.process().sockets() == before);
    let taken = connection.receive_to_the_end();
    assert!(!taken.body.ends_with(b"\r\n0\r\n\r\n"), "the body ends as if it were whole");
}

#[test]
fn a_connection_that_an_answer_closes_is_closed_also_when_the_rest_of_the_body_never_comes() {
    let server = TestServer::start();
    let head = "POST /plants HTTP/1.1\r\nHost: plants\r\n";
    for rest in [
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        "Content-Length: 100\r\n\r\nab",
    ] {
        let mut connection = server.connect();
        connection.send(format!("{head}{rest}"));
        connection.receive().assert_error(401, 2001);
        connection.wait_for_close();
    }
}
