//! No write is acknowledged or shown before it is on disk. The torture tests look for losses after kills, power cuts
//! and disk failures; these tests look at single system calls, reads and lists.

use std::path::Path;
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Launch, NewPlant, SystemCall, SystemCalls, TestServer, create_request, plant_body, raw_head,
    temporary_folder, wait_until,
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
    let folder = temporary_folder();
    let trace = folder.path().join("trace");
    let launch = Launch::new().under_strace(&trace, &[&TRACED[..], &SLOW_SYNC].concat());
    let mut server = TestServer::start_with(launch);

    let (mut creating, mut reading) = (server.connect(), Vec::new());
    creating.send(create_request(&plant_body(1, NAME, Some("tag"))));
    let created = thread::scope(|scope| {
        let created = scope.spawn(|| creating.receive());
        // Each read has its own connection, so that a delayed read does not block the others.
        while !created.is_finished() {
            for request_line in ["GET /plants/1", "GET /plants?tag=tag"] {
                let mut connection = server.connect();
                connection.send(raw_head(request_line, ""));
                reading.push((request_line, connection));
            }
            thread::sleep(Duration::from_millis(10));
        }
        created.join().unwrap()
    });
    created.assert_plant(NAME, Some("tag"));
    let plant = NewPlant::new(1, NAME, Some("tag"));
    for (request_line, connection) in &mut reading {
        let answer = connection.receive();
        if request_line.contains("tag") {
            let plants = answer.plants();
            assert!(plants.is_empty() || plants == [plant.clone()], "{plants:?}");
        } else if answer.status == 200 {
            answer.assert_new_plant(1, NAME, Some("tag"));
        } else {
            answer.assert_error(404, 3002);
        }
    }
    server.client().read(1).assert_new_plant(1, NAME, Some("tag"));
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
    for request_line in ["GET /plants/1 ", "GET /plants?tag=tag "] {
        let is_read_request = |call: &SystemCall| {
            matches!(call.name.as_str(), "recvfrom" | "read") && call.has_text(request_line)
        };
        let asked_between = calls
            .all(is_read_request)
            .filter(|call| (write.returned..sync.returned).contains(&call.returned));
        assert!(asked_between.count() > 0, "no {request_line}came between the write and its sync");
    }

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
