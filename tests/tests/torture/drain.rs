//! SIGTERM under load: every request that was sent is answered, and no plant is lost.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Latencies, Report, is_long, times};
use plantd_tests::{
    Connection, Launch, LoadConnection, LoadOutcome, TestServer, create_request, plant_body,
    raw_head, run_load, store_of, wait_until,
};

const CLIENTS: u32 = 64;

/// How many creates begin before the signal.
const PLANTS_BEFORE: i64 = 500;

const DELAY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits for a free port.
const PORT_PAUSE: Duration = Duration::from_millis(20);

/// What the clients saw until their connections were refused.
#[derive(Debug, Default)]
struct Seen {
    /// The plants whose creates were acknowledged.
    acknowledged: Vec<i64>,
    /// The creates without an answer, and when each was sent.
    unanswered: Vec<(i64, Instant)>,
    /// When a connection was refused first.
    refused: Option<Instant>,
}

/// Creates plants on one connection after the other, until the server refuses one.
async fn create_to_the_end(address: SocketAddr, next_id: &AtomicI64, seen: &RefCell<Seen>) {
    loop {
        let mut connection = match LoadConnection::open(address).await {
            Ok(connection) => connection,
            Err(cause) if cause.kind() == ErrorKind::AddrNotAvailable => {
                // Ended connections occupy all ports of this machine.
                tokio::time::sleep(PORT_PAUSE).await;
                continue;
            }
            Err(_) => {
                seen.borrow_mut().refused.get_or_insert_with(Instant::now);
                return;
            }
        };
        loop {
            let id = next_id.fetch_add(1, Ordering::Relaxed);
            let sent = connection.send(create_request(&plant_body(id, "Rosa", None))).await;
            let sent_at = Instant::now();
            let answer = match sent {
                Ok(()) => connection.receive().await,
                Err(cause) => Err(cause),
            };
            match answer {
                Ok(answer) => {
                    if LoadOutcome::of(&answer) == LoadOutcome::Created {
                        seen.borrow_mut().acknowledged.push(id);
                    }
                    if answer
                        .header("connection")
                        .is_some_and(|it| it.eq_ignore_ascii_case("close"))
                    {
                        break;
                    }
                }
                Err(cause) => {
                    assert_ne!(cause.kind(), ErrorKind::TimedOut, "neither an answer nor an end");
                    seen.borrow_mut().unanswered.push((id, sent_at));
                    break;
                }
            }
        }
    }
}

/// Runs the clients in a thread of their own.
fn start_clients(address: SocketAddr, next_id: &Arc<AtomicI64>) -> mpsc::Receiver<Seen> {
    let (done, seen) = mpsc::channel();
    let next_id = Arc::clone(next_id);
    thread::spawn(move || {
        let seen = run_load(async move {
            let seen = Rc::new(RefCell::new(Seen::default()));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let (next_id, seen) = (Arc::clone(&next_id), Rc::clone(&seen));
                    tokio::task::spawn_local(async move {
                        create_to_the_end(address, &next_id, &seen).await;
                    })
                })
                .collect();
            for client in clients {
                client.await.expect("no client panicked");
            }
            seen.take()
        });
        // Without a receiver the test has failed.
        let _ = done.send(seen);
    });
    seen
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
fn a_server_that_ends_under_load_answers_whom_it_has_heard_and_loses_nothing() {
    let rounds = times(3, 50);
    let (mut acknowledged, mut stored_plants, mut late) = (0, 0, 0);
    let mut exits = Latencies::default();
    for round in 1..=rounds {
        let launch = Launch::new().arguments(["--drain-delay", "1s", "--drain-timeout", "10s"]);
        let mut server = TestServer::start_with(launch);
        let address = server.address();
        let next_id = Arc::new(AtomicI64::new(1));
        let clients = start_clients(address, &next_id);
        wait_until("the load", || next_id.load(Ordering::Relaxed) > PLANTS_BEFORE);
        // Its body follows when the server refuses new connections.
        let body = plant_body(-1, "Abies", None);
        let mut half_sent = server.connect();
        let length = body.len();
        half_sent.send(raw_head(
            "POST /plants",
            &format!("Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"),
        ));
        assert_eq!(half_sent.receive().status, 100);

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

        let seen = clients.recv().expect("the clients are done");
        let closed = signalled + DELAY;
        let refused = seen.refused.expect("the clients went on until they were refused");
        assert!(refused >= closed, "round {round}: the listener closed too early");
        server.restart();
        let stored = store_of(&server.client(), "after the end");
        let lost: Vec<_> = seen.acknowledged.iter().filter(|id| !stored.contains_key(id)).collect();
        assert!(lost.is_empty(), "round {round}: lost {lost:?}");
        assert!(stored.contains_key(&-1), "round {round}");
        for (id, sent) in &seen.unanswered {
            assert!(!stored.contains_key(id), "round {round}: {id} was done and not answered");
            // The server has to answer what was sent before the listener closed.
            let early = closed.saturating_duration_since(*sent);
            assert!(
                early.is_zero(),
                "round {round}: {id}, sent {early:?} before the end, has no answer"
            );
        }
        acknowledged += seen.acknowledged.len() + 1;
        stored_plants += stored.len();
        late += seen.unanswered.len();
    }
    if is_long() {
        assert!(exits.percentile(100) < DELAY + TIMEOUT, "the end took too long: {exits}");
    }
    Report {
        test: "drain",
        promise: "SIGTERM under load answers every request and loses no plant",
        disturbances: format!("{rounds} orderly ends under load"),
        losses: format!("0 of {acknowledged} acknowledged plants"),
        details: format!("{CLIENTS} clients; {stored_plants} plants stored; {late} requests came after the listener closed, none of which was \
             carried out; from SIGTERM to the exit with code 0: {exits}"),
    }
    .print();
}
