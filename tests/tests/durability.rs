//! No write is acknowledged or shown before it is on disk. The torture tests look for losses after kills, power cuts
//! and disk failures; these tests look at single system calls, reads and lists.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Client, Launch, SystemCall, SystemCalls, TOKEN, TestServer, create_request, plant_body,
    raw_head, wait_until,
};

/// The options of strace: the sync of a group, with the writes and reads around it, and all bytes of a group.
const TRACED: [&str; 4] = [
    "-s",
    "1000000",
    "-e",
    "trace=fdatasync,fsync,sendto,sendmsg,write,writev,pwrite64,pwritev,pwritev2,recvfrom,read",
];

/// Delays each sync, so that reads arrive before it ends.
const SLOW_SYNC: [&str; 2] = ["-e", "inject=fdatasync:delay_enter=700000"];

#[test]
fn a_plant_is_neither_acknowledged_nor_shown_before_the_file_that_holds_it_was_synced() {
    const NAME: &str = "the plant that waits for its sync";
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let launch = Launch::new().under_strace(&trace, &[&TRACED[..], &SLOW_SYNC].concat());
    let mut server = TestServer::start_with(launch);

    let (mut creating, mut reading) = (server.connect(), Vec::new());
    creating.send(create_request(&plant_body(1, NAME, None)));
    let created = thread::scope(|scope| {
        let created = scope.spawn(|| creating.receive());
        // Each read has its own connection, so that a delayed read does not block the others.
        while !created.is_finished() {
            let mut connection = server.connect();
            connection.send(raw_head("GET /plants/1", ""));
            reading.push(connection);
            thread::sleep(Duration::from_millis(10));
        }
        created.join().unwrap()
    });
    created.assert_plant(NAME, None);
    for connection in &mut reading {
        let answer = connection.receive();
        if answer.status == 200 {
            answer.assert_new_plant(1, NAME, None);
        } else {
            answer.assert_error(404, 3002);
        }
    }
    server.client().read(1).assert_new_plant(1, NAME, None);
    assert_eq!(server.terminate().code(), Some(0));

    let calls = SystemCalls::read(&trace, server.process().id());
    let data = server.data().canonicalize().expect("the folder is there");
    let write = calls.first("a write of the plant to a file", |call| {
        let is_ours = call.file().is_some_and(|file| Path::new(file).starts_with(&data));
        call.is_write() && is_ours && call.has_text(NAME)
    });
    let sync = calls.first("a sync of that file after the write", |call| {
        call.is_sync() && call.file() == write.file() && call.begun > write.returned
    });
    let is_read_request = |call: &SystemCall| {
        matches!(call.name.as_str(), "recvfrom" | "read") && call.has_text("GET /plants/1 ")
    };
    let asked_between = calls
        .all(is_read_request)
        .filter(|call| (write.returned..sync.returned).contains(&call.returned));
    assert!(asked_between.count() > 0, "no read came between the write and its sync");

    let is_answer = |call: &SystemCall| {
        let is_on_socket = call.file().is_some_and(|file| file.starts_with("socket:"));
        call.is_write() && is_on_socket && call.has_text("HTTP/1.1 200")
    };
    let answers: Vec<&SystemCall> =
        calls.all(|call| is_answer(call) && call.has_text(NAME)).collect();
    let (reads, creates): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|call| call.has_text(r#"{"id":1,"#));
    assert!(!reads.is_empty(), "the trace shows no read of the plant");
    assert_eq!(creates.len(), 1, "the trace shows one answer to the create");
    for call in reads.into_iter().chain(creates) {
        assert!(
            call.begun > sync.returned,
            "the plant was shown on line {}, and it was synced on line {} of the trace",
            call.begun,
            sync.returned,
        );
    }
}

/// Creates plants with the ids from `next` until the server stops.
fn create_until_killed(client: &Client, next: &AtomicI64) {
    loop {
        let id = next.fetch_add(1, Ordering::SeqCst);
        let body = plant_body(id, &format!("plant {id}"), Some("tag"));
        let headers = [("content-type", "application/json")];
        match client.try_send("POST", "/plants", &headers, &body) {
            Ok(answer) => assert_eq!(answer.status, 200, "{answer:?}"),
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
fn reads_and_lists_never_show_a_plant_that_a_kill_then_loses() {
    const WRITERS: i64 = 3;
    let mut server = TestServer::start();
    let next = AtomicI64::new(1);
    for round in 0..5 {
        let last = next.load(Ordering::SeqCst) + fastrand::i64(20..320);
        let client = || Client::new(server.address(), Some(TOKEN));
        let clients: Vec<_> = (1..=WRITERS).map(|back| (back, client(), client())).collect();
        let seen: Vec<(BTreeSet<i64>, usize)> = thread::scope(|scope| {
            let next = &next;
            let readers: Vec<_> = clients
                .into_iter()
                .map(|(back, writer, reader)| {
                    scope.spawn(move || create_until_killed(&writer, next));
                    scope.spawn(move || read_until_killed(&reader, next, back))
                })
                .collect();
            wait_until("the creates of a round", || next.load(Ordering::SeqCst) >= last);
            server.kill();
            readers.into_iter().map(|reader| reader.join().expect("no reader panicked")).collect()
        });
        server.restart();

        let client = server.client();
        for (seen, total) in seen {
            assert!(!seen.is_empty(), "a reader saw nothing in round {round}");
            assert!(client.list("limit=1").total_count() >= Some(total), "{total} were counted");
            for query in ["limit=1000", "limit=1000&tag=tag"] {
                let listed: BTreeSet<i64> =
                    client.list_all(query).iter().map(|plant| plant.id).collect();
                let gone: Vec<_> = seen.difference(&listed).collect();
                assert!(gone.is_empty(), "{query}: gone are {gone:?}");
            }
            for id in seen {
                client.read(id).assert_new_plant(id, &format!("plant {id}"), Some("tag"));
            }
        }
    }
}

#[test]
fn a_client_that_disconnects_after_sending_cancels_nothing() {
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
