//! HTTP on each transport: keep-alive connections, and clients that are slow or disconnect. `smuggling/` tests where
//! requests end.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{
    Connection, Format, TestServer, at_once, chunk, create_request, plant_body, raw_head,
    wait_until,
};

use crate::transport::{Site, Transport, read_request};

#[test]
fn pipelined_requests_are_answered_in_order_and_the_connection_is_kept() {
    at_once(&Transport::ALL, |transport| {
        let site = Site::new();
        let server = TestServer::start_with(site.launch(*transport));
        let mut connection = site.connect(*transport, &server);
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
        for id in 0..20 {
            connection.send(read_request(id));
            connection.receive().assert_new_plant(id, &format!("plant {id}"), None);
        }
        // More than one TLS record.
        connection.send(read_request(1).repeat(300));
        for _ in 0..300 {
            connection.receive().assert_new_plant(1, "plant 1", None);
        }
        // Chunks that end within a character.
        let body = plant_body(50, "Rosa 🌱", None);
        let head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        connection.send(raw_head("POST /plants", head));
        for part in body.as_bytes().chunks(3).chain([&[][..]]) {
            connection.send(chunk(part));
        }
        connection.receive().assert_plant("Rosa 🌱", None);
        // Over TLS, `assert_closed` checks that the close is announced too.
        connection.send(raw_head("GET /plants/99", "Connection: close\r\n"));
        connection.receive().assert_error(404, 3002);
        connection.assert_closed();
    });
}

#[test]
fn a_client_that_stops_sending_still_gets_its_answers() {
    at_once(&Transport::ALL, |transport| {
        let site = Site::new();
        let server = TestServer::start_with(site.launch(*transport));
        // The second way ends without `close_notify`.
        let ends = [Connection::finish_sending, Connection::break_off_sending];
        for (id, end) in (1..).zip(ends) {
            let mut connection = site.connect(*transport, &server);
            connection.send(create_request(&plant_body(id, "Rosa", None)) + &read_request(id));
            end(&mut connection);
            connection.receive().assert_plant("Rosa", None);
            connection.receive().assert_new_plant(id, "Rosa", None);
            connection.assert_closed();
        }
        // A truncated body is refused however the connection ends.
        for is_reset in [false, true] {
            let mut connection = site.connect(*transport, &server);
            let head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
            connection.send(raw_head("PUT /plants/3", head));
            connection.send(chunk(r#"{"name":"Rosa"}"#));
            if is_reset {
                connection.reset();
            } else {
                connection.break_off_sending();
                connection.wait_for_close();
            }
            site.read(*transport, &server, 3).assert_error(404, 3002);
        }
    });
}

#[test]
fn a_body_that_does_not_end_is_5004_and_delays_no_other_client() {
    let server = TestServer::start();
    let whole = create_request(&plant_body(1, "Rosa", None));
    let mut slow: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for connection in &mut slow {
        connection.send(&whole[..whole.len() - 1]);
    }
    for id in 2..20 {
        server.client().create(id, "Abies", None).assert_plant("Abies", None);
    }
    // The slow clients still wait, so the others were served beside them, not after them.
    slow[0].assert_silent_for(Duration::from_millis(1));
    for connection in &mut slow {
        connection.receive().assert_error(408, 5004);
        connection.wait_for_close();
    }
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn a_head_that_does_not_end_ends_the_connection_whether_it_is_the_first_or_a_later_one() {
    at_once(&Transport::ALL, |transport| {
        let site = Site::new();
        let server = TestServer::start_with(site.launch(*transport));
        let [mut first, mut later, mut trickling] =
            [(); 3].map(|()| site.connect(*transport, &server));
        for connection in [&mut later, &mut trickling] {
            connection.send(read_request(1));
            connection.receive().assert_error(404, 3002);
        }
        let begun = Instant::now();
        for connection in [&mut first, &mut later, &mut trickling] {
            connection.send("GET /livez HTTP/1.1\r\nX: ");
        }
        wait_until("the end of a connection on which a later head trickles", || {
            thread::sleep(Duration::from_millis(50));
            trickling.try_send("x").is_err()
        });
        first.wait_for_close();
        // This connection ends without `close_notify`.
        let is_tls = matches!(transport, Transport::Tls12 | Transport::Tls13);
        if is_tls {
            let cause = later.try_receive().expect_err("there is no answer").kind();
            assert_eq!(cause, ErrorKind::ConnectionAborted);
        } else {
            later.wait_for_close();
        }
        let keep_alive = Duration::from_secs(60);
        assert!(begun.elapsed() < keep_alive, "only the keep-alive ended them");
    });
}

#[test]
fn a_client_that_does_not_read_its_answer_is_disconnected() {
    // More than the buffers of the sockets and of TLS hold.
    const PLANTS: i64 = 10_000;
    at_once(&[Transport::Tcp, Transport::Tls13], |transport| {
        let site = Site::new();
        let mut server = TestServer::start_with(site.launch(*transport));
        // A keep-alive client, so that only the export changes the number of sockets.
        let client = match transport {
            Transport::Tcp => server.client(),
            _ => server.tls_client(&site.authority),
        };
        let long = "𝒑".repeat(255);
        let row = |id| plant_body(id, &long, Some(&long)) + "\n";
        let report = client.import(Format::Ndjson, "", (0..PLANTS).map(row).collect::<String>());
        assert_eq!(report.json()["created"], PLANTS);
        let before = server.process().sockets();

        let mut connection = site.connect(*transport, &server);
        connection.send(raw_head("GET /plants/export", ""));
        wait_until("the export to begin", || server.process().sockets() > before);
        wait_until("the server to give up", || server.process().sockets() == before);
        // Neither HTTP nor TLS marks the body as complete.
        if *transport == Transport::Tcp {
            let taken = connection.receive_to_the_end();
            assert!(!taken.body.ends_with(b"\r\n0\r\n\r\n"), "the body ends as if it were whole");
        } else {
            let cause = connection.try_receive().expect_err("not all of it came").kind();
            let is_broken_off = [ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset];
            assert!(is_broken_off.contains(&cause), "{cause}");
        }
    });
}

#[test]
fn a_closing_answer_closes_the_connection_even_if_the_rest_of_the_body_never_arrives() {
    let server = TestServer::start();
    let rests = [
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        "Content-Length: 100\r\n\r\nab",
    ];
    at_once(&rests, |rest| {
        let mut connection = server.connect();
        connection.send(format!("POST /plants HTTP/1.1\r\nHost: plants\r\n{rest}"));
        connection.receive().assert_error(401, 2001);
        connection.wait_for_close();
    });
}
