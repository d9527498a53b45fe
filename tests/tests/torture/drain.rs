//! SIGTERM under load: every request is answered, and no plant is lost.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Latencies, Report, is_long, times};
use plantd_tests::{
    Connection, Followed, Followers, Launch, LoadOutcome, TestServer, create_request, plant_body,
    store_of, wait_until,
};

const CLIENTS: u32 = 64;

/// How many creates begin before the signal.
const PLANTS_BEFORE: i64 = 500;

const DELAY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits for a free port.
const PORT_PAUSE: Duration = Duration::from_millis(20);

struct Seen {
    /// The plants whose creates were acknowledged.
    acknowledged: Vec<i64>,
    /// The creates without an answer, and when each was sent.
    unanswered: Vec<(i64, Instant)>,
    refused: Instant,
}

/// Creates plants on one connection after the other until the server refuses one. `begun` counts the creates of all
/// clients, and thus gives each its id.
fn create_to_the_end(address: SocketAddr, begun: &AtomicI64) -> Seen {
    let (mut acknowledged, mut unanswered) = (Vec::new(), Vec::new());
    loop {
        let mut connection = match Connection::try_open(address) {
            Ok(connection) => connection,
            Err(cause) if cause.kind() == ErrorKind::AddrNotAvailable => {
                // Closed connections still occupy all ports of this machine.
                thread::sleep(PORT_PAUSE);
                continue;
            }
            Err(_) => return Seen { acknowledged, unanswered, refused: Instant::now() },
        };
        let mut is_kept = true;
        while is_kept {
            let id = begun.fetch_add(1, Ordering::Relaxed) + 1;
            let sent = connection.try_send(create_request(&plant_body(id, "Rosa", None)));
            let sent_at = Instant::now();
            is_kept = match sent.and_then(|()| connection.try_receive()) {
                Ok(answer) => {
                    if LoadOutcome::of(&answer) == LoadOutcome::Created {
                        acknowledged.push(id);
                    }
                    answer.header("connection").is_none_or(|it| !it.eq_ignore_ascii_case("close"))
                }
                Err(cause) => {
                    let silent = [ErrorKind::TimedOut, ErrorKind::WouldBlock];
                    assert!(!silent.contains(&cause.kind()), "neither an answer nor an end");
                    unanswered.push((id, sent_at));
                    false
                }
            };
        }
    }
}

/// Asks on a new connection whether the server is ready. `None` when it refuses the connection.
fn is_ready(address: SocketAddr) -> Option<bool> {
    let mut connection = Connection::try_open(address).ok()?;
    connection.try_send("GET /readyz HTTP/1.1\r\nHost: plants\r\n\r\n").ok()?;
    let answer = connection.try_receive().ok()?;
    if answer.status != 200 {
        answer.assert_error(503, 5003);
    }
    Some(answer.status == 200)
}

#[test]
fn a_server_that_ends_under_load_answers_every_request_it_received_and_loses_nothing() {
    let rounds = times(2, 500);
    let (mut acknowledged, mut stored_plants, mut late) = (0, 0, 0);
    let (mut exits, mut followed) = (Latencies::default(), Vec::new());
    for round in 1..=rounds {
        let launch = Launch::new().arguments(["--drain-delay", "1s", "--drain-timeout", "10s"]);
        let mut server = TestServer::start_with(launch);
        let mut followers = Followers::of(&server);
        let address = server.address();
        let begun = Arc::new(AtomicI64::new(0));
        // Not scoped threads: after a failed assertion, they run until the server has ended.
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let begun = Arc::clone(&begun);
                thread::spawn(move || create_to_the_end(address, &begun))
            })
            .collect();
        wait_until("the load", || begun.load(Ordering::Relaxed) >= PLANTS_BEFORE);
        // The body follows once the server refuses new connections.
        let body = plant_body(-1, "Abies", None);
        let mut half_sent = server.connect();
        half_sent.begin_create(&body);

        let signalled = Instant::now();
        server.process().send_terminate();
        wait_until("/readyz to say no", || is_ready(address) == Some(false));
        let is_taken = Connection::try_open(address).is_ok();
        assert!(is_taken || signalled.elapsed() >= DELAY, "round {round}: refused too early");
        while let Some(is_ready) = is_ready(address) {
            assert!(!is_ready, "round {round}: it is ready again");
        }
        wait_until("the listener to close", || Connection::try_open(address).is_err());
        half_sent.send(&body);
        half_sent.receive().assert_plant("Abies", None);
        let status = server.process().wait_for_exit();
        exits.push(signalled.elapsed());
        assert_eq!(status.code(), Some(0), "round {round}");

        followers.set_servers([]);
        let seen = clients.into_iter().map(|client| client.join().expect("no client panicked"));
        let seen: Vec<Seen> = seen.collect();
        server.restart();
        followers.set_servers([server.address()]);
        let client = server.client();
        let stored = store_of(&client, "after the end");
        followers.assert_have(&client, &stored, "after the end");
        followed.push(followers.end());
        assert!(stored.contains_key(&-1), "round {round}");
        acknowledged += 1;
        stored_plants += stored.len();
        let closed = signalled + DELAY;
        for seen in seen {
            assert!(seen.refused >= closed, "round {round}: the listener closed too early");
            for id in &seen.acknowledged {
                assert!(stored.contains_key(id), "round {round}: lost {id}");
            }
            for (id, sent) in &seen.unanswered {
                assert!(!stored.contains_key(id), "round {round}: {id} was done and not answered");
                // The server must answer what was sent before the listener closed.
                let early = closed.saturating_duration_since(*sent);
                assert!(
                    early.is_zero(),
                    "round {round}: {id}, sent {early:?} before the end, has no answer"
                );
            }
            acknowledged += seen.acknowledged.len();
            late += seen.unanswered.len();
        }
    }
    if is_long() {
        assert!(exits.percentile(100) < DELAY + TIMEOUT, "the end took too long: {exits}");
    }
    let followed: Followed = followed.into_iter().sum();
    Report {
        test: "drain",
        promise: "SIGTERM under load answers every request and loses no plant",
        disturbances: format!("{rounds} orderly ends under load"),
        losses: format!("0 of {acknowledged} acknowledged plants; {followed}"),
        details: format!("{CLIENTS} clients; {stored_plants} plants stored; {late} requests came after the listener closed, none of which was \
             carried out; from SIGTERM to the exit with code 0: {exits}"),
    }
    .print();
}
