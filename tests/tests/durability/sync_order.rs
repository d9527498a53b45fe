//! A create is on disk before it is answered, as the system calls of the server show. strace traces them, delays them,
//! and makes them fail.

use std::path::Path;
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Launch, SystemCall, SystemCalls, TestServer, create_request, plant_body, raw_head, wait_until,
};

const TRACED: &str = "trace=fdatasync,fsync,sendto,sendmsg,write,writev,pwrite64,pwritev,pwritev2,\
                      recvfrom,read";

/// How many bytes of each call strace shows: enough for a group with the plant's name in it.
const SHOWN_BYTES: &str = "1000000";

/// The system calls that bring one plant to the disk and to its client.
struct Create<'calls> {
    write: &'calls SystemCall,
    /// The sync of the file that was written, if one came after the write.
    sync: Option<&'calls SystemCall>,
    answer: &'calls SystemCall,
}

impl<'calls> Create<'calls> {
    /// Finds the create of the plant with this name in the files of `data`.
    #[track_caller]
    fn find(calls: &'calls SystemCalls, data: &Path, name: &str) -> Self {
        let data = data.canonicalize().expect("the folder is there");
        let is_ours = |file: &str| Path::new(file).starts_with(&data);
        let write = calls.first("a write of the plant to a file", |call| {
            call.is_write() && call.file().is_some_and(is_ours) && call.arguments.contains(name)
        });
        let sync = calls
            .all(SystemCall::is_sync)
            .find(|call| call.file() == write.file() && call.begun > write.returned);
        let answer = calls.first("the answer to the create", |call| {
            is_answer(call) && call.arguments.contains(name)
        });
        Self { write, sync, answer }
    }
}

fn is_answer(call: &SystemCall) -> bool {
    call.is_write()
        && call.file().is_some_and(|file| file.starts_with("socket:"))
        && call.arguments.contains("HTTP/1.1 200")
}

fn traced(trace: &Path, options: &[&str]) -> Launch {
    let options = [&["-s", SHOWN_BYTES, "-e", TRACED], options].concat();
    Launch::new().under_strace(trace, &options)
}

#[test]
fn a_create_is_answered_after_the_file_that_holds_it_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut server = TestServer::start_with(traced(&trace, &[]));
    let names: Vec<String> = (0..10).map(|id| format!("the lone plant {id}.")).collect();
    for (id, name) in (0..).zip(&names) {
        server.client().create(id, name, None).assert_plant(name, None);
    }
    assert_eq!(server.terminate().code(), Some(0));

    let calls = SystemCalls::read(&trace, server.process().id());
    for name in &names {
        let Create { write, sync, answer } = Create::find(&calls, server.data(), name);
        let file = write.file();
        let sync = sync.unwrap_or_else(|| panic!("{file:?} was never synced after {name:?}"));
        assert!(
            sync.returned < answer.begun,
            "{name:?} was written to {file:?} on line {}, answered on line {} and synced only on \
             line {} of the trace",
            write.returned,
            answer.begun,
            sync.returned,
        );
    }
}

#[test]
fn a_read_does_not_show_a_plant_before_it_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let launch = traced(&trace, &["-e", "inject=fdatasync:delay_enter=700000"]);
    let mut server = TestServer::start_with(launch);
    let name = "the plant that waits for its sync";

    let (mut creating, mut reading) = (server.connect(), Vec::new());
    creating.send(create_request(&plant_body(1, name, None)));
    let created = thread::scope(|scope| {
        let created = scope.spawn(|| creating.receive());
        // Each read has its own connection, so that a delayed read does not hold up the others.
        while !created.is_finished() {
            let mut connection = server.connect();
            connection.send(raw_head("GET /plants/1", ""));
            reading.push(connection);
            thread::sleep(Duration::from_millis(10));
        }
        created.join().unwrap()
    });
    created.assert_plant(name, None);
    for connection in &mut reading {
        let answer = connection.receive();
        if answer.status == 200 {
            answer.assert_new_plant(1, name, None);
        } else {
            answer.assert_error(404, 3002);
        }
    }
    server.client().read(1).assert_new_plant(1, name, None);
    assert_eq!(server.terminate().code(), Some(0));

    let calls = SystemCalls::read(&trace, server.process().id());
    let Create { write, sync, answer: _ } = Create::find(&calls, server.data(), name);
    let sync = sync.expect("the file is synced");
    let is_read_request = |call: &SystemCall| {
        matches!(call.name.as_str(), "recvfrom" | "read")
            && call.arguments.contains("\"GET /plants/1 ")
    };
    let asked_between = calls
        .all(is_read_request)
        .filter(|call| (write.returned..sync.returned).contains(&call.returned));
    assert!(asked_between.count() > 0, "no read came between the write and its sync");

    let shown: Vec<&SystemCall> =
        calls.all(|call| is_answer(call) && call.arguments.contains(r#"{\"id\":1,"#)).collect();
    assert!(!shown.is_empty(), "the trace shows no read of the plant");
    for call in shown {
        assert!(
            call.begun > sync.returned,
            "a read showed the plant on line {}, and it was synced on line {} of the trace",
            call.begun,
            sync.returned,
        );
    }
}

#[test]
fn a_plant_that_a_read_has_shown_survives_a_kill_at_that_moment() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    // Writes and syncs are slow, so the kill comes before they are done.
    let options = ["-e", "inject=pwrite64,pwritev,pwritev2,fdatasync:delay_enter=150000"];
    let mut server = TestServer::start_with(traced(&trace, &options));
    let (client, mut creating) = (server.client(), server.connect());
    creating.send(create_request(&plant_body(1, "Rosa", Some("Rosaceae"))));
    wait_until("a read to show the plant", || client.read(1).status == 200);
    server.kill();

    server.restart_with(Launch::new());
    server.client().read(1).assert_new_plant(1, "Rosa", Some("Rosaceae"));
}

#[test]
fn a_sync_that_fails_ends_the_server_and_loses_nothing_that_was_acknowledged() {
    const ATTEMPTS: i64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let launch = Launch::new()
        .environment("PLANTD_DRAIN_DELAY", "2s")
        .environment("PLANTD_DRAIN_TIMEOUT", "2s")
        .under_strace(
            &trace,
            &["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=6+"],
        );
    let mut server = TestServer::start_with(launch);
    let client = server.client();

    let mut acknowledged = Vec::new();
    let failed = (0..ATTEMPTS).find_map(|id| {
        let answer = client.create(id, &format!("plant {id}"), None);
        if answer.status != 200 {
            return Some(answer);
        }
        answer.assert_plant(&format!("plant {id}"), None);
        acknowledged.push(id);
        None
    });
    let failed = failed.expect("a create whose sync fails is not answered with success");
    assert!(!acknowledged.is_empty(), "the first sync failed already");
    failed.assert_error(503, 5002);
    let retry_after = failed.header("retry-after").and_then(|seconds| seconds.parse::<u32>().ok());
    assert!(retry_after.is_some(), "when to try again is not told: {failed:?}");

    wait_until("/readyz to tell of the failure", || client.get("/readyz").status == 503);
    let late = client.create(ATTEMPTS, "late", None);
    late.assert_error(503, 5002);
    assert_eq!(server.process().wait_for_exit().code(), Some(74), "{}", server.stderr());

    server.restart_with(Launch::new());
    let client = server.client();
    for id in acknowledged {
        client.read(id).assert_new_plant(id, &format!("plant {id}"), None);
    }
    client.read(ATTEMPTS).assert_error(404, 3002);
    client.create(ATTEMPTS, "again", None).assert_plant("again", None);
}
