//! A Unix socket: which users may connect, who owns the file, and when the file is removed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use plantd_tests::{
    CONFIGURATION, Connection, IO, Launch, ServerAddress, SystemCalls, TestServer, USAGE, at_once,
    create_request, mode, plant_body,
};
use socket2::{Domain, SockAddr, Socket, Type};
use tempfile::TempDir;

use crate::transport::{read_request, unix_launch};

fn socket() -> (PathBuf, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    (folder.path().join("plantd.sock"), folder)
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

#[track_caller]
fn check_serves(server: &TestServer, id: i64) {
    let mut connection = server.connect();
    connection.send(create_request(&plant_body(id, "Rosa", None)));
    connection.receive().assert_plant("Rosa", None);
    connection.send(read_request(id));
    connection.receive().assert_new_plant(id, "Rosa", None);
}

/// Fills the queue of a socket on which nothing accepts connections.
fn fill(path: &Path) -> Vec<Socket> {
    let address = SockAddr::unix(path).expect("the path is short enough");
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket can be made");
        socket.set_nonblocking(true).expect("the mode of the socket can be set");
        match socket.connect(&address) {
            Ok(()) => waiting.push(socket),
            Err(cause) => {
                assert_eq!(cause.kind(), ErrorKind::WouldBlock, "{cause}");
                return waiting;
            }
        }
    }
}

/// Asserts that a start at this path fails, and names the path.
#[track_caller]
fn check_refusal(path: &Path, word: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let launch = unix_launch(path).data(&folder.path().join("data"));
    launch.assert_refused(IO, &[word, "--listen", path.to_str().expect("UTF-8")]);
}

#[test]
fn requests_are_served_over_a_socket_the_log_names_no_address_and_a_socket_left_by_a_kill_is_replaced()
 {
    let (path, _folder) = socket();
    let mut server = TestServer::start_with(unix_launch(&path));
    assert_eq!(server.server_address(), &ServerAddress::Unix(path.clone()));
    check_serves(&server, 1);
    server.kill();
    assert!(is_socket(&path), "nothing was left behind");
    server.restart();
    check_serves(&server, 2);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert!(log.contains(" unix POST /plants 200 "), "{log}");
    assert!(!path.exists(), "the socket is still there");
}

#[test]
fn a_path_may_be_relative_and_is_printed_as_given() {
    let (path, folder) = socket();
    for given in ["plantd.sock", "./plantd.sock"] {
        let launch = Launch::new().arguments(["--listen", &format!("unix:{given}")]);
        let launch = launch.current_folder(folder.path()).data(&folder.path().join("data"));
        let mut process = launch.spawn();
        assert_eq!(process.server_address(), ServerAddress::Unix(given.into()));
        assert!(is_socket(&path));
        process.send_terminate();
        process.assert_exit_code(0);
        assert!(!path.exists());
    }
}

#[test]
fn a_socket_with_a_listener_is_in_use_even_if_the_listener_is_too_busy_to_accept() {
    let (path, _folder) = socket();
    let server = TestServer::start_with(unix_launch(&path));
    check_refusal(&path, "in use");
    check_serves(&server, 1);

    let (path, _folder) = socket();
    let _listener = UnixListener::bind(&path).expect("a socket can be made");
    let _waiting = fill(&path);
    check_refusal(&path, "in use");
    assert!(is_socket(&path));
}

#[test]
fn a_file_that_is_no_socket_is_never_removed() {
    let (path, folder) = socket();
    fs::write(&path, "precious").expect("a file can be written");
    check_refusal(&path, "no socket");
    assert_eq!(fs::read_to_string(&path).expect("a file can be read"), "precious");

    fs::remove_file(&path).expect("a file can be removed");
    fs::create_dir(&path).expect("a folder can be made");
    check_refusal(&path, "no socket");
    assert!(path.is_dir());

    // The target of a link may belong to another user, even if nothing listens there.
    let left_behind = folder.path().join("left behind");
    drop(UnixListener::bind(&left_behind).expect("a socket can be made"));
    fs::remove_dir(&path).expect("a folder can be removed");
    symlink(&left_behind, &path).expect("a link can be made");
    check_refusal(&path, "no socket");
    assert!(path.is_symlink() && is_socket(&left_behind));
}

#[test]
fn a_path_in_a_missing_folder_is_refused_and_so_is_one_too_long_for_a_socket() {
    let (_, folder) = socket();
    check_refusal(&folder.path().join("nowhere/plantd.sock"), "nowhere");

    let data = folder.path().join("data");
    for (path, length) in [("x".repeat(108), "108"), (String::new(), " 0")] {
        let listen = format!("unix:{path}");
        let by_flag = Launch::new().arguments(["--listen", &listen]);
        let by_environment = Launch::new().environment("PLANTD_LISTEN", &listen);
        for (launch, exit_code) in [(by_flag, USAGE), (by_environment, CONFIGURATION)] {
            launch.data(&data).assert_refused(exit_code, &["listen", "107 bytes", length]);
            assert!(!data.exists(), "the server made the folder");
        }
    }
    let rest = 107 - folder.path().as_os_str().len() - 1;
    let longest = folder.path().join("x".repeat(rest));
    check_serves(&TestServer::start_with(unix_launch(&longest)), 1);
}

#[test]
fn only_the_owner_and_the_group_may_connect_with_any_umask() {
    at_once(&["000", "022", "077"], |umask| {
        let (path, folder) = socket();
        let trace = folder.path().join("trace");
        let launch = unix_launch(&path).data(&folder.path().join("data")).umask(umask);
        let traced = ["-e", "trace=bind,chmod,fchmodat,listen"];
        let mut process = launch.under_strace(&trace, &traced).spawn();
        assert_eq!(process.server_address(), ServerAddress::Unix(path.clone()));
        assert_eq!(mode(&path), 0o660);
        process.send_terminate();
        process.assert_exit_code(0);

        // Clients can connect once the socket listens, so it must have its mode before.
        let calls = SystemCalls::read(&trace, process.id());
        let bound =
            calls.first("bind", |call| call.name.contains("bind") && call.has_text("plantd.sock"));
        let closed_to_others = calls.first("chmod", |call| {
            let is_mode = call.name.contains("chmod") && call.arguments.contains("0660");
            is_mode && call.has_text("/proc/self/fd/")
        });
        let listens = calls.first("listen", |call| call.name.contains("listen"));
        assert!(bound.returned < closed_to_others.begun, "{bound:?} {closed_to_others:?}");
        assert!(closed_to_others.returned < listens.begun, "{closed_to_others:?} {listens:?}");
    });
}

#[test]
fn connections_that_are_not_accepted_yet_when_the_signal_arrives_are_answered() {
    // More than the server accepts at once.
    const CLIENTS: i64 = 300;
    let (path, _folder) = socket();
    let mut server = TestServer::start_with(unix_launch(&path));
    // The server stands still until all clients have connected and sent.
    server.process().send_stop();
    let mut connections: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (id, connection) in (0..).zip(&mut connections) {
        connection.send(create_request(&plant_body(id, "Rosa", None)));
    }
    server.process().send_terminate();
    server.process().send_continue();
    for connection in &mut connections {
        connection.receive().assert_plant("Rosa", None);
        connection.assert_closed();
    }
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
    assert!(!path.exists(), "the socket is still there");
}

#[test]
fn a_socket_that_another_process_has_made_meanwhile_stays() {
    let (path, folder) = socket();
    let mut server = TestServer::start_with(unix_launch(&path));
    fs::rename(&path, folder.path().join("moved")).expect("a file can be renamed");
    let _other = UnixListener::bind(&path).expect("a socket can be made");
    assert_eq!(server.terminate().code(), Some(0));
    assert!(is_socket(&path), "the socket of another process was removed");
}

#[test]
fn a_start_that_fails_leaves_no_socket_behind() {
    let (path, folder) = socket();
    let data = folder.path().join("data");
    // The start must not write a token there.
    fs::create_dir(&data).expect("a folder can be made");
    fs::create_dir(data.join("first-run-token")).expect("a folder can be made");
    let launch = unix_launch(&path).without_environment("PLANTD_TOKEN").data(&data);
    let said = launch.assert_refused(IO, &[]);
    assert!(!path.exists(), "{said}");
}

#[test]
fn every_client_command_reaches_a_server_over_its_socket_and_says_what_is_wrong_with_it() {
    let (path, folder) = socket();
    let mut server = TestServer::start_with(unix_launch(&path));
    let url = format!("unix:{}", path.display());
    let run = |arguments: &[&str], exit_code: i32| {
        let launch = Launch::new().current_folder(folder.path());
        let mut process = launch.arguments(arguments).arguments(["--url", &url]).spawn();
        process.assert_exit_code(exit_code);
        (process.stdout(), process.stderr())
    };
    let row = r#"{"id":1,"name":"Rosa"}"#;
    // Larger than the buffers of a socket, so that it is written and read in parts.
    let rows: String =
        (2..40_000).map(|id| format!("{{\"id\":{id},\"name\":\"Rosa canina {id}\"}}\n")).collect();
    let rows = format!("{row}\n{rows}");
    fs::write(folder.path().join("plants.ndjson"), &rows).expect("a file can be written");
    run(&["import", "plants.ndjson"], 0);
    assert_eq!(run(&["get", "1"], 0).0, format!("{row}\n"));
    assert_eq!(run(&["list", "--limit", "1"], 0).0, format!("{row}\n"));
    assert!(run(&["export"], 0).0 == rows, "the export differs");
    assert_eq!(run(&["events"], 0).0.lines().count(), 39_999);
    assert_eq!(run(&["health"], 0), (String::new(), String::new()));
    assert!(run(&["backup", "plants.backup"], 0).1.contains(": 39,999 plants"));
    let wrong = folder.path().join("token");
    fs::write(&wrong, "another-token-than-that").expect("a file can be written");
    let refused = run(&["get", "1", "--token-file", wrong.to_str().expect("UTF-8")], CONFIGURATION);
    assert!(refused.1.contains(&format!("{url} refuses the token")), "{refused:?}");

    assert_eq!(server.terminate().code(), Some(0));
    for left in [false, true] {
        let listener = left.then(|| UnixListener::bind(&path).expect("a socket can be made"));
        drop(listener);
        assert!(run(&["health"], IO).1.contains(&format!("nothing listens at {url}")));
    }
    fs::remove_file(&path).expect("a file can be removed");
    let _silent = UnixListener::bind(&path).expect("a socket can be made");
    let is_not_ready = format!("{url} is not ready: it does not answer");
    assert!(run(&["health"], 1).1.contains(&is_not_ready));
    let _waiting = fill(&path);
    assert!(run(&["health"], 1).1.contains(&is_not_ready));
}
