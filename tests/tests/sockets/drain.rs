//! How the server shuts down: every request that was accepted gets its answer.

use plantd_tests::{
    Connection, Launch, TestServer, at_once, create_request, plant_body, wait_until,
};
use rustix::process::Signal;

use crate::transport::{Site, Transport, read_request, send_half, wait_for_refusal};

/// The exit code if requests were cut off.
const CUT_OFF: i32 = 75;

/// The signals that end a server; a terminal that is closed sends SIGHUP.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

#[test]
fn after_each_ending_signal_the_server_is_not_ready_and_still_serves_for_the_delay() {
    at_once(&ENDING, |signal| {
        let mut server = TestServer::start_with(Launch::new().arguments(["--drain-delay", "2s"]));
        let mut half_sent = server.connect();
        let rest = send_half(&mut half_sent, 1, "Rosa");
        let readyz = "GET /readyz HTTP/1.1\r\nHost: plants\r\n\r\n";
        let mut kept = server.connect();
        kept.send(readyz);
        assert_eq!(kept.receive().status, 200);

        server.process().send(*signal);
        // Each request uses a new connection, so the server must still accept connections.
        wait_until("/readyz to say no", || {
            let mut connection = server.connect();
            connection.send(readyz);
            let answer = connection.receive();
            if answer.status != 200 {
                answer.assert_error(503, 5003);
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
            }
            answer.status != 200
        });
        let mut fresh = server.connect();
        fresh.send("GET /livez HTTP/1.1\r\nHost: plants\r\n\r\n");
        assert_eq!(fresh.receive().status, 200);
        let mut fresh = server.connect();
        fresh.send(create_request(&plant_body(2, "Abies", None)));
        fresh.receive().assert_plant("Abies", None);
        kept.send(create_request(&plant_body(3, "Quercus", None)));
        let last = kept.receive();
        last.assert_plant("Quercus", None);
        // Tells the client not to send another request, which would get no answer.
        assert_eq!(last.header("connection"), Some("close"), "{last:?}");
        half_sent.send(rest);
        half_sent.receive().assert_plant("Rosa", None);
        assert_eq!(server.process().wait_for_exit().code(), Some(0));
        assert!(Connection::try_open(server.address()).is_err(), "the server still listens");

        server.restart();
        for (id, name) in [(1, "Rosa"), (2, "Abies"), (3, "Quercus")] {
            server.client().read(id).assert_new_plant(id, name, None);
        }
    });
}

#[test]
fn a_signal_that_is_ignored_or_means_nothing_does_not_end_the_server() {
    let mut server = TestServer::start_with(Launch::new().without_hangup());
    for (id, signal) in (1..).zip([Signal::HUP, Signal::USR1, Signal::USR2, Signal::PIPE]) {
        server.process().send(signal);
        server.client().create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!server.stderr().contains("SIGHUP"), "{}", server.stderr());
}

#[test]
fn a_second_signal_cuts_off_no_request() {
    let mut server = TestServer::start();
    let mut half_sent = server.connect();
    let rest = send_half(&mut half_sent, 1, "Rosa");
    server.process().send(Signal::INT);
    wait_for_refusal(&server);
    for (signal, name) in ENDING.into_iter().zip(["SIGTERM", "SIGINT", "SIGHUP"]) {
        server.process().send(signal);
        wait_until("the log to say that the server is draining already", || {
            server.stderr().contains(&format!("{name}: the server is draining already"))
        });
    }
    half_sent.send(rest);
    half_sent.receive().assert_plant("Rosa", None);
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
}

#[test]
fn requests_in_flight_and_those_pipelined_after_them_are_answered_after_the_listener_has_closed() {
    at_once(&Transport::ALL, |transport| {
        let site = Site::new();
        let mut server = TestServer::start_with(site.launch(*transport));
        let [mut half_sent, mut pipelining, mut head_only, mut resting] =
            [(); 4].map(|()| site.connect(*transport, &server));
        let rest = send_half(&mut half_sent, 1, "Rosa");
        let rest_before_another = send_half(&mut pipelining, 2, "Salix");
        head_only.send("GET /pla");
        resting.send(read_request(1));
        resting.receive().assert_error(404, 3002);

        server.process().send_terminate();
        wait_for_refusal(&server);
        resting.assert_closed();
        assert!(server.process().is_running(), "the server did not wait for the requests");
        half_sent.send(rest);
        half_sent.receive().assert_plant("Rosa", None);
        half_sent.assert_closed();
        let another = create_request(&plant_body(3, "Abies", None));
        pipelining.send(rest_before_another + &another);
        let first = pipelining.receive();
        first.assert_plant("Salix", None);
        // After `close`, the client would not wait for the next answer.
        assert_eq!(first.header("connection"), None, "{first:?}");
        let last = pipelining.receive();
        last.assert_plant("Abies", None);
        assert_eq!(last.header("connection"), Some("close"), "{last:?}");
        pipelining.assert_closed();
        head_only.send(&read_request(1)["GET /pla".len()..]);
        head_only.receive().assert_new_plant(1, "Rosa", None);
        head_only.assert_closed();
        assert_eq!(server.process().wait_for_exit().code(), Some(0));

        server.restart();
        for (id, name) in [(1, "Rosa"), (2, "Salix"), (3, "Abies")] {
            site.read(*transport, &server, id).assert_new_plant(id, name, None);
        }
    });
}

#[test]
fn a_request_that_does_not_end_delays_the_end_by_the_drain_timeout_only() {
    let mut server = TestServer::start_with(Launch::new().arguments(["--drain-timeout", "1s"]));
    let mut half_sent = server.connect();
    send_half(&mut half_sent, 1, "Rosa");
    server.process().send_terminate();
    server.process().assert_exit_code(CUT_OFF);
    for words in ["closed 1 connection before its request was answered", "--drain-timeout"] {
        assert!(server.stderr().contains(words), "{}", server.stderr());
    }
    // The deadline of the body did not end the request: that would have been answered.
    assert!(half_sent.try_receive().is_err());

    server.restart();
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn a_server_without_requests_ends_at_once_with_idle_connections_or_without() {
    at_once(&Transport::ALL, |transport| {
        let site = Site::new();
        // Shorter than the keep-alive timeout, which closes idle connections anyway.
        let launch = site.launch(*transport).arguments(["--drain-timeout", "40s"]);
        let mut server = TestServer::start_with(launch);
        assert_eq!(server.terminate().code(), Some(0));

        server.restart();
        let connect = |_| site.connect(*transport, &server);
        let mut resting: Vec<Connection> = (0..20).map(connect).collect();
        for connection in &mut resting[..10] {
            connection.send(read_request(1));
            connection.receive().assert_error(404, 3002);
        }
        assert_eq!(server.terminate().code(), Some(0));
        for connection in &mut resting {
            connection.assert_closed();
        }
    });
}

#[test]
fn a_start_on_a_slow_disk_ends_at_each_ending_signal_and_does_not_block_the_next_one() {
    at_once(&ENDING, |signal| {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let data = folder.path().join("data");
        let slow =
            ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=2000000"];
        let trace = folder.path().join("trace");
        let mut process = Launch::new().data(&data).under_strace(&trace, &slow).spawn();
        wait_until("the start to come to the store", || data.join("plants").exists());
        process.send(*signal);
        assert_eq!(process.wait_for_exit().code(), Some(0), "{}", process.stderr());
        assert_eq!(process.stdout(), "", "it was ready before the signal");

        let mut server = TestServer::start_at(Launch::new(), &data);
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        assert_eq!(server.terminate().code(), Some(0));
    });
}
