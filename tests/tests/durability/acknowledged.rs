//! An acknowledged write persists, whatever happens to the server and its clients.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use plantd_tests::{
    Client, TOKEN, TestServer, chunk, create_request, plant_body, raw_head, wait_until,
};

#[test]
fn everything_is_there_after_sigterm_or_sigkill_and_a_restart() {
    let terminate = |server: &mut TestServer| assert_eq!(server.terminate().code(), Some(0));
    let stops = [terminate, TestServer::kill];
    let mut server = TestServer::start();
    let mut kept = Vec::new();
    let mut last_revision = 0;
    for round in 0..8 {
        let client = server.client();
        let first = round * 10;
        for id in first..first + 10 {
            let (name, tag) = (format!("plant {id}"), (id % 2 == 0).then_some("even"));
            let answer = client.create(id, &name, tag);
            answer.assert_plant(&name, tag);
            assert!(answer.revision() > last_revision, "{last_revision} before {answer:?}");
            last_revision = answer.revision();
            kept.push((id, name, tag, answer.revision()));
        }
        let replaced = client.put(first, r#"{"name":"Abies"}"#);
        replaced.assert_plant("Abies", None);
        kept[usize::try_from(first).expect("small")] =
            (first, "Abies".to_owned(), None, replaced.revision());
        let patched = client.patch(first + 1, r#"{"tag":"x"}"#);
        let name = format!("plant {}", first + 1);
        patched.assert_plant(&name, Some("x"));
        last_revision = patched.revision();
        kept[usize::try_from(first + 1).expect("small")] =
            (first + 1, name, Some("x"), last_revision);
        client.create(-1, "Rosa", None).assert_plant("Rosa", None);
        client.delete(-1).assert_no_content();
        stops[usize::from(round % 2 == 1)](&mut server);
        server.restart();

        let client = server.client();
        for (id, name, tag, revision) in &kept {
            let answer = client.read(*id);
            answer.assert_new_plant(*id, name, *tag);
            assert_eq!(answer.revision(), *revision, "{answer:?}");
            client.create(*id, "another", None).assert_error(400, 3001);
        }
        for absent in [-1, first + 10] {
            client.read(absent).assert_error(404, 3002);
        }
        client.delete(-1).assert_error(404, 3002);
        // The create and the deletion have taken a revision each.
        let made = client.create(-1, "Rosa", None);
        assert!(made.revision() > last_revision + 2, "{last_revision} {made:?}");
        client.delete(-1).assert_no_content();
    }
}

/// Creates plants with the ids from `next` until the server stops.
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

/// Reads and lists the newest plants until the server stops. Returns the ids that it saw, and the highest total count.
fn read_until_killed(client: &Client, next: &AtomicI64, back: i64) -> (BTreeSet<i64>, usize) {
    let (mut seen, mut total) = (BTreeSet::new(), 0);
    for query in ["", "&tag=tag", "&name=PLANT", "&limit=1000"].iter().cycle() {
        let id = next.load(Ordering::SeqCst) - back;
        match client.try_send("GET", &format!("/plants/{id}"), &[], "") {
            Ok(answer) if answer.status == 200 => drop(seen.insert(id)),
            Ok(answer) => drop(answer.assert_error(404, 3002)),
            Err(_) => break,
        }
        let list = format!("/plants?after={}{query}", id - 10);
        let Ok(page) = client.try_send("GET", &list, &[], "") else { break };
        seen.extend(page.plants().iter().map(|plant| plant.id));
        total = total.max(page.total_count().unwrap_or_default());
    }
    (seen, total)
}

#[test]
fn a_read_or_a_list_never_shows_what_a_kill_then_takes_away() {
    const WRITERS: i64 = 3;
    let mut server = TestServer::start();
    let next = AtomicI64::new(1);
    for round in 0..5 {
        let acknowledged = Mutex::default();
        let kill_after = 20 + RandomState::new().hash_one(round) % 300;
        let address = server.address();
        let seen: Vec<(BTreeSet<i64>, usize)> = thread::scope(|scope| {
            let (acknowledged, next) = (&acknowledged, &next);
            let client = || Client::new(address, Some(TOKEN));
            let readers: Vec<_> = (1..=WRITERS)
                .map(|back| {
                    let [writer, reader] = [client(), client()];
                    scope.spawn(move || write_until_killed(&writer, next, acknowledged));
                    scope.spawn(move || read_until_killed(&reader, next, back))
                })
                .collect();
            wait_until("the creates of a round", || {
                acknowledged.lock().expect("no writer panicked").len() as u64 >= kill_after
            });
            server.kill();
            readers.into_iter().map(|reader| reader.join().expect("no reader panicked")).collect()
        });
        server.restart();

        let mut known = acknowledged.into_inner().expect("no writer panicked");
        let client = server.client();
        for (seen, total) in seen {
            assert!(!seen.is_empty(), "a reader saw nothing in round {round}");
            assert!(client.list("limit=1").total_count() >= Some(total), "{total} were counted");
            known.extend(seen);
        }
        for query in ["limit=1000", "limit=1000&tag=tag"] {
            let listed: BTreeSet<i64> =
                client.list_all(query).iter().map(|plant| plant.id).collect();
            let gone: Vec<_> = known.difference(&listed).collect();
            assert!(gone.is_empty(), "{query}: gone are {gone:?}");
        }
        for id in known {
            client.read(id).assert_new_plant(id, &format!("plant {id}"), Some("tag"));
        }
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
    // The part that arrives is valid JSON of a plant, but `Content-Length` announces more.
    let body = plant_body(1, "Rosa", None);
    let head = |framing| {
        raw_head("POST /plants", &format!("Content-Type: application/json\r\n{framing}\r\n"))
    };
    let longer = head("Content-Length: 100").into_bytes();
    let chunked = head("Transfer-Encoding: chunked").into_bytes();
    for message in [[longer, body.clone().into_bytes()], [chunked, chunk(&body)]] {
        let message = message.concat();
        let mut connection = server.connect();
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
