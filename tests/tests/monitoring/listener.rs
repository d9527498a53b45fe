//! `--metrics-listen`: metrics and health checks on an address of their own.

use std::net::SocketAddr;

use plantd_tests::{
    Answer, Connection, Launch, Scrape, TestServer, plant_body, raw_head, wait_for, wait_until,
};

/// A server, and its address for metrics.
fn server_with_listener() -> (TestServer, SocketAddr) {
    let launch = Launch::new().arguments(["--metrics-listen", "127.0.0.1:0"]);
    let server = TestServer::start_with(launch);
    let address = wait_for("the log to tell the address of the metrics", || {
        let log = server.stderr();
        let address = log.split("metrics at http://").nth(1)?.split('\n').next()?;
        Some(address.parse().expect("an address"))
    });
    (server, address)
}

/// Sends a request without a token on a new connection.
#[track_caller]
fn send(address: SocketAddr, request_line: &str) -> Answer {
    let mut connection = Connection::open(address);
    connection.send(format!("{request_line} HTTP/1.1\r\nHost: plants\r\n\r\n"));
    connection.receive()
}

#[test]
fn the_listener_serves_metrics_and_health_without_a_token_and_nothing_else() {
    let (server, address) = server_with_listener();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let scrape = Scrape::of_answer(&send(address, "GET /metrics"));
    assert_eq!(scrape.value("plantd_plants"), 1.0);
    for path in ["/livez", "/readyz"] {
        assert_eq!(send(address, &format!("GET {path}")).body, b"ok\n");
    }
    for path in ["/plants", "/plants/1", "/events", "/token", "/openapi.json", "/docs", "/"] {
        let request_line = format!("GET {path}");
        send(address, &request_line).assert_error(404, 4004);
        let mut connection = Connection::open(address);
        connection.send(raw_head(&request_line, ""));
        connection.receive().assert_error(404, 4004);
    }
    send(address, "POST /metrics").assert_error(405, 4005);
    for request_line in ["POST /plants", "DELETE /plants/1"] {
        send(address, request_line).assert_error(404, 4004);
    }
}

#[test]
fn the_listener_answers_until_the_drain_has_ended() {
    let (mut server, address) = server_with_listener();
    // An unfinished request keeps the drain going.
    let mut slow = server.connect();
    let body = plant_body(1, "Rosa", None);
    slow.begin_create(&body);
    server.process().send_terminate();
    wait_until("the server to close its listener", || {
        Connection::try_open(server.address()).is_err()
    });
    let scrape = Scrape::of_answer(&send(address, "GET /metrics"));
    assert_eq!(scrape.value("plantd_ready"), 0.0);
    send(address, "GET /readyz").assert_error(503, 5003);
    slow.send(body);
    slow.receive().assert_plant("Rosa", None);
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
}
