//! The end under load: everyone who has sent a request gets its answer, and no plant is lost.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{
    Connection, Latencies, Launch, LoadConnection, LoadOutcome, TestServer, create_request,
    plant_body, raw_head, run_load, store_of, torture, wait_until,
};

const CLIENTS: u32 = 64;

/// How many plants are created before the signal comes.
const PLANTS_BEFORE: i64 = 500;

const DELAY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits for a port.
const PORT_PAUSE: Duration = Duration::from_millis(20);

/// What the clients saw until nobody took their connections any more.
#[derive(Debug, Default)]
struct Seen {
    /// Which plants are on disk, as the server said.
    acknowledged: Vec<i64>,
    /// Which creates were not answered, and when they had been sent.
    unanswered: Vec<(i64, Instant)>,
    /// When a client knew first that its connection was refused.
    refused: Option<Instant>,
}

/// Creates plants on one connection after the other, until none is taken.
async fn create_to_the_end(address: SocketAddr, next_id: &AtomicI64, seen: &RefCell<Seen>) {
    loop {
        let mut connection = match LoadConnection::open(address).await {
            Ok(connection) => connection,
            Err(cause) if cause.kind() == ErrorKind::AddrNotAvailable => {
                // The ports of this machine are used up by connections that have ended.
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
                    if answer.create_outcome() == LoadOutcome::Created {
                        seen.borrow_mut().acknowledged.push(id);
                    }
                    if answer.closes {
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
        // Nobody waits for it when the test has failed.
        let _ = done.send(seen);
    });
    seen
}

/// Asks on a new connection whether the server is ready; nothing when it takes none.
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
    let rounds = torture::times(3, 50);
    let (mut acknowledged, mut stored_plants, mut late) = (0, 0, 0);
    let mut exits = Latencies::default();
    for round in 1..=rounds {
        let launch = Launch::new().arguments(["--drain-delay", "1s", "--drain-timeout", "10s"]);
        let mut server = TestServer::start_with(launch);
        let address = server.address();
        let next_id = Arc::new(AtomicI64::new(1));
        let clients = start_clients(address, &next_id);
        wait_until("the load", || next_id.load(Ordering::Relaxed) > PLANTS_BEFORE);
        // The body of this one comes when new connections are not taken any more.
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
            // What was sent before the listener closed had come to a server that took connections.
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
    if torture::is_long() {
        assert!(exits.percentile(100) < DELAY + TIMEOUT, "the end took too long: {exits}");
    }
    torture::Figures::of(
        "drain",
        "SIGTERM under load ends the server without a request or a plant lost",
    )
    .with(rounds, "ends with exit code 0")
    .with(CLIENTS, "clients")
    .with(acknowledged, "plants acknowledged")
    .with(stored_plants, "stored")
    .with(late, "requests sent when nobody read them any more, none of them done")
    .with(exits, "from SIGTERM to the exit")
    .print();
}
