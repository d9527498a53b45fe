//! A write that was answered stays, whatever becomes of the server and of its clients.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use plantd_tests::{Client, Connection, TOKEN, TestServer, create_request, plant_body, wait_until};

#[test]
fn everything_is_there_after_sigterm_or_sigkill_and_a_restart() {
    let terminate = |server: &mut TestServer| assert_eq!(server.terminate().code(), Some(0));
    let stops = [terminate, TestServer::kill];
    let mut server = TestServer::start();
    let mut created = Vec::new();
    let mut last_revision = 0;
    for round in 0..8 {
        let client = server.client();
        for id in round * 10..round * 10 + 10 {
            let (name, tag) = (format!("plant {id}"), (id % 2 == 0).then_some("even"));
            let answer = client.create(id, &name, tag);
            answer.assert_plant(&name, tag);
            assert!(answer.revision() > last_revision, "{last_revision} before {answer:?}");
            last_revision = answer.revision();
            created.push((id, name, tag, answer.revision()));
        }
        stops[usize::from(round % 2 == 1)](&mut server);
        server.restart();

        let client = server.client();
        for (id, name, tag, revision) in &created {
            let answer = client.read(*id);
            answer.assert_new_plant(*id, name, *tag);
            assert_eq!(answer.revision(), *revision, "{answer:?}");
            client.create(*id, "another", None).assert_error(400, 3001);
        }
        client.read(round * 10 + 10).assert_error(404, 3002);
    }
}

/// Creates the ids that `next` gives until the server is gone.
fn write_until_killed(client: &Client, next: &AtomicI64, acknowledged: &Mutex<BTreeSet<i64>>) {
    loop {
        let id = next.fetch_add(1, Ordering::SeqCst);
        let body = plant_body(id, &format!("plant {id}"), Some("tag"));
        let headers = [("content-type", "application/json")];
        match client.try_send("POST", "/plants", &headers, &body) {
            Ok(answer) => {
                assert_eq!(answer.status, 200, "{answer:?}");
                acknowledged.lock().expect("no writer panicked").insert(id);
            }
            Err(_) => return,
        }
    }
}

/// Reads the plants that are being created, until the server is gone.
fn read_until_killed(client: &Client, next: &AtomicI64, seen: &Mutex<BTreeSet<i64>>, back: i64) {
    loop {
        let id = next.load(Ordering::SeqCst) - back;
        match client.try_send("GET", &format!("/plants/{id}"), &[], "") {
            Ok(answer) if answer.status == 200 => {
                seen.lock().expect("no reader panicked").insert(id);
            }
            Ok(answer) => drop(answer.assert_error(404, 3002)),
            Err(_) => return,
        }
    }
}

#[test]
fn a_read_never_shows_what_a_kill_then_takes_away() {
    const WRITERS: i64 = 3;
    let mut server = TestServer::start();
    let next = AtomicI64::new(1);
    for round in 0..5 {
        let (acknowledged, seen) = (Mutex::default(), Mutex::default());
        let kill_after = 20 + RandomState::new().hash_one(round) % 300;
        let address = server.address();
        thread::scope(|scope| {
            for back in 1..=WRITERS {
                let (acknowledged, seen, next) = (&acknowledged, &seen, &next);
                let client = || Client::new(address, Some(TOKEN));
                scope.spawn(move || write_until_killed(&client(), next, acknowledged));
                scope.spawn(move || read_until_killed(&client(), next, seen, back));
            }
            wait_until("the creates of a round", || {
                acknowledged.lock().expect("no writer panicked").len() as u64 >= kill_after
            });
            server.kill();
        });
        server.restart();

        let acknowledged = acknowledged.into_inner().expect("no writer panicked");
        let seen: BTreeSet<i64> = seen.into_inner().expect("no reader panicked");
        assert!(!seen.is_empty(), "no reader saw anything in round {round}");
        let client = server.client();
        for id in acknowledged.union(&seen) {
            client.read(*id).assert_new_plant(*id, &format!("plant {id}"), Some("tag"));
        }
    }
}

#[test]
fn of_many_clients_that_create_one_id_at_once_exactly_one_wins() {
    const CLIENTS: usize = 64;
    let server = TestServer::start();
    for id in 0..8 {
        let barrier = Barrier::new(CLIENTS);
        let answers = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let (server, barrier) = (&server, &barrier);
                    scope.spawn(move || {
                        let mut connection = server.connect();
                        let request = create_request(&plant_body(id, &number.to_string(), None));
                        barrier.wait();
                        connection.send(request);
                        connection.receive()
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        let mut winners = Vec::new();
        for (number, answer) in answers.iter().enumerate() {
            if answer.status == 200 {
                answer.assert_plant(&number.to_string(), None);
                winners.push(number.to_string());
            } else {
                answer.assert_error(400, 3001);
            }
        }
        assert_eq!(winners.len(), 1, "the winners of id {id}: {winners:?}");
        server.client().read(id).assert_new_plant(id, &winners[0], None);
    }
}

#[test]
fn a_client_that_goes_away_after_sending_cancels_nothing() {
    let server = TestServer::start();
    let client = server.client();
    for id in 0..50 {
        let name = format!("plant {id}");
        let mut connection = server.connect();
        connection.send(create_request(&plant_body(id, &name, Some("tag"))));
        drop(connection);
        wait_until("a create whose client is gone", || client.read(id).status == 200);
        client.read(id).assert_new_plant(id, &name, Some("tag"));
    }
}

#[test]
fn a_connection_that_is_reset_leaves_a_whole_plant_or_none() {
    let server = TestServer::start();
    let client = server.client();
    for id in 0..50 {
        let mut connection = server.connect();
        connection.send(create_request(&plant_body(id, "first", Some("tag"))));
        connection.reset();
    }
    for id in 0..50 {
        let answer = client.create(id, "second", None);
        if answer.status == 200 {
            client.read(id).assert_new_plant(id, "second", None);
        } else {
            answer.assert_error(400, 3001);
            client.read(id).assert_new_plant(id, "first", Some("tag"));
        }
    }
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_its_body_stores_nothing() {
    let server = TestServer::start();
    let client = server.client();
    // The part that arrives would be a whole plant, were it not announced as longer.
    let body = plant_body(1, "Rosa", None);
    let head = create_request(&" ".repeat(body.len() + 10));
    let head = head.trim_end_matches(' ');
    let chunked_head = head.replace("Content-Length:", "X-Length:");
    let chunked_head = chunked_head.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());

    for message in [format!("{head}{body}"), format!("{chunked_head}{chunk}")] {
        let mut connection: Connection = server.connect();
        connection.send(&message);
        connection.finish_sending();
        connection.wait_for_close();
        client.read(1).assert_error(404, 3002);

        let mut connection = server.connect();
        connection.send(&message);
        connection.reset();
        client.read(1).assert_error(404, 3002);
    }
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
}
