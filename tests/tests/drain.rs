//! How the server ends: nobody who was promised an answer goes without.

use plantd_tests::{
    Connection, Launch, Process, TOKEN, TestServer, create_request, plant_body, wait_until,
};
use rustix::process::Signal;

/// Not everything that was being done came to its end.
const CUT_OFF: i32 = 75;

/// What a terminal sends to its programs when it is closed.
fn send_hangup(process: &Process) {
    process.send(Signal::HUP);
}

/// Begins a create whose head the server has taken for sure: it has let the body come.
#[track_caller]
fn begin_create(server: &TestServer, body: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(create_request(&" ".repeat(body.len())).trim_end().replacen(
        "Content-Type:",
        "Expect: 100-continue\r\nContent-Type:",
        1,
    ));
    connection.send("\r\n\r\n");
    assert_eq!(connection.receive().status, 100);
    connection
}

/// Waits until no new connections are taken.
#[track_caller]
fn wait_for_refusal(server: &TestServer) {
    let address = server.address();
    wait_until("the server to take no more connections", || Connection::try_open(address).is_err());
}

/// Between the signal and the end of the delay, `/readyz` says no and everything else goes on.
#[track_caller]
fn check_delay(signal: impl Fn(&Process)) {
    let mut server = TestServer::start_with(Launch::new().arguments(["--drain-delay", "2s"]));
    let body = plant_body(1, "Rosa", None);
    let mut half_sent = begin_create(&server, &body);
    half_sent.send(&body[..10]);
    let mut kept = server.connect();
    kept.send("GET /readyz HTTP/1.1\r\nHost: plants\r\n\r\n");
    assert_eq!(kept.receive().status, 200);

    signal(server.process());
    // Each look is on a new connection, so that this also shows that they are still taken.
    wait_until("/readyz to say no", || {
        let mut connection = server.connect();
        connection.send("GET /readyz HTTP/1.1\r\nHost: plants\r\n\r\n");
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
    // The client is told not to send another request where no answer would come.
    assert_eq!(last.header("connection"), Some("close"), "{last:?}");
    half_sent.send(&body[10..]);
    half_sent.receive().assert_plant("Rosa", None);
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
    assert!(Connection::try_open(server.address()).is_err(), "someone still listens");

    server.restart();
    for (id, name) in [(1, "Rosa"), (2, "Abies"), (3, "Quercus")] {
        server.client().read(id).assert_new_plant(id, name, None);
    }
}

#[test]
fn after_sigterm_the_server_is_not_ready_and_still_serves_for_the_delay() {
    check_delay(Process::send_terminate);
}

#[test]
fn after_sigint_the_server_is_not_ready_and_still_serves_for_the_delay() {
    check_delay(Process::send_interrupt);
}

#[test]
fn after_sighup_the_server_is_not_ready_and_still_serves_for_the_delay() {
    check_delay(send_hangup);
}

#[test]
fn a_server_that_nohup_has_started_outlives_its_terminal() {
    let mut server = TestServer::start_with(Launch::new().without_hangup());
    send_hangup(server.process());
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!server.stderr().contains("SIGHUP"), "{}", server.stderr());
}

#[test]
fn signals_that_mean_nothing_to_it_do_not_end_the_server() {
    for signal in [Signal::USR1, Signal::USR2, Signal::PIPE] {
        let mut server = TestServer::start();
        server.process().send(signal);
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        assert_eq!(server.terminate().code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_second_signal_does_not_cut_off_what_the_first_one_lets_end() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let mut half_sent = begin_create(&server, &body);
    server.process().send_interrupt();
    wait_for_refusal(&server);
    for (signal, name) in
        [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")]
    {
        server.process().send(signal);
        wait_until("the log to say that the server is draining already", || {
            server.stderr().contains(&format!("{name}: the server is draining already"))
        });
    }
    half_sent.send(&body);
    half_sent.receive().assert_plant("Rosa", None);
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
}

#[test]
fn a_request_in_flight_is_answered_after_the_listener_has_closed() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let mut half_sent = begin_create(&server, &body);
    half_sent.send(&body[..10]);
    server.process().send_terminate();
    wait_for_refusal(&server);
    assert!(server.process().is_running(), "it did not wait for the request");
    half_sent.send(&body[10..]);
    half_sent.receive().assert_plant("Rosa", None);
    half_sent.assert_closed();
    assert_eq!(server.process().wait_for_exit().code(), Some(0));

    server.restart();
    server.client().read(1).assert_new_plant(1, "Rosa", None);
}

#[test]
fn a_request_behind_one_in_flight_is_answered_too() {
    let mut server = TestServer::start();
    let body = plant_body(1, "Rosa", None);
    let mut half_sent = begin_create(&server, &body);
    half_sent.send(&body[..10]);
    server.process().send_terminate();
    wait_for_refusal(&server);
    half_sent.send(body[10..].to_owned() + &create_request(&plant_body(2, "Abies", None)));
    let first = half_sent.receive();
    first.assert_plant("Rosa", None);
    assert_eq!(
        first.header("connection"),
        None,
        "the client would not wait for the next answer: {first:?}"
    );
    let last = half_sent.receive();
    last.assert_plant("Abies", None);
    assert_eq!(last.header("connection"), Some("close"), "{last:?}");
    half_sent.assert_closed();
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
}

#[test]
fn a_request_that_does_not_end_holds_the_end_up_for_the_time_out_only() {
    let launch = Launch::new().arguments(["--drain-timeout", "1s"]);
    let mut server = TestServer::start_with(launch);
    let body = plant_body(1, "Rosa", None);
    let mut half_sent = begin_create(&server, &body);
    half_sent.send(&body[..10]);
    server.process().send_terminate();
    server.process().assert_exit_code(CUT_OFF);
    for words in ["closed 1 connection before its request was answered", "--drain-timeout"] {
        assert!(server.stderr().contains(words), "{}", server.stderr());
    }
    // It was not the body's own deadline that ended it: that would have been answered.
    assert!(half_sent.try_receive().is_err());

    server.restart();
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn connections_that_rest_do_not_hold_the_end_up() {
    // The drain would time out before the keep-alive ends them.
    let launch = Launch::new().arguments(["--drain-timeout", "40s"]);
    let mut server = TestServer::start_with(launch);
    let mut resting: Vec<Connection> = (0..30).map(|_| server.connect()).collect();
    for connection in &mut resting[..20] {
        connection.send(format!(
            "GET /plants/1 HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        ));
        connection.receive().assert_error(404, 3002);
    }
    assert_eq!(server.terminate().code(), Some(0));
    for connection in &mut resting[..20] {
        connection.assert_closed();
    }
}

/// A start on a slow disk ends at the signal, and leaves nothing in the way of the next one.
#[track_caller]
fn check_signal_while_starting(signal: impl Fn(&Process)) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let data = folder.path().join("data");
    let slow = ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=2000000"];
    let trace = folder.path().join("trace");
    let mut process = Launch::new().data(&data).under_strace(&trace, &slow).spawn();
    wait_until("the start to come to the store", || data.join("plants").exists());
    signal(&process);
    assert_eq!(process.wait_for_exit().code(), Some(0), "{}", process.stderr());
    assert_eq!(process.stdout(), "", "it was ready before the signal");

    let mut server = TestServer::start_at(Launch::new(), &data);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_start_that_is_stopped_by_sigterm_ends_with_0() {
    check_signal_while_starting(Process::send_terminate);
}

#[test]
fn a_start_that_is_stopped_by_sigint_ends_with_0() {
    check_signal_while_starting(Process::send_interrupt);
}

#[test]
fn a_start_that_is_stopped_by_sighup_ends_with_0() {
    check_signal_while_starting(send_hangup);
}

#[test]
fn a_server_without_clients_ends_at_once_with_0() {
    let mut server = TestServer::start_with(Launch::new().arguments(["--drain-timeout", "60s"]));
    assert_eq!(server.terminate().code(), Some(0));
}
