//! A Unix socket: who may connect, whose name it is, and that it ends as others do.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use plantd_tests::{
    Connection, Launch, Process, ServerAddress, TestServer, create_request, paste, plant_body,
    program, raw_head, shown_command, wait_for, wait_until,
};
use tempfile::TempDir;

const USAGE: i32 = 64;
const IO: i32 = 74;
const CONFIGURATION: i32 = 78;

/// A folder, and the path of a socket in it.
fn socket() -> (PathBuf, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    (folder.path().join("plantd.sock"), folder)
}

fn launch(path: &Path) -> Launch {
    Launch::new().environment("PLANTD_LISTEN", format!("unix:{}", path.display()))
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn read_request(id: i64) -> String {
    raw_head(&format!("GET /plants/{id}"), "")
}

#[track_caller]
fn check_serves(server: &TestServer, id: i64) {
    let mut connection = server.connect();
    connection.send(create_request(&plant_body(id, "Rosa", None)));
    connection.receive().assert_plant("Rosa", None);
    connection.send(read_request(id));
    connection.receive().assert_new_plant(id, "Rosa", None);
}

/// A start at this path fails, leaves everything as it is, and says so.
#[track_caller]
fn check_refusal(path: &Path, word: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut process = launch(path).data(&folder.path().join("data")).spawn();
    process.assert_exit_code(IO);
    let said = process.stderr();
    for word in [word, "--listen", path.to_str().expect("UTF-8")] {
        assert!(said.contains(word), "{said:?} does not hold {word:?}");
    }
}

#[test]
fn requests_are_served_over_it_and_the_log_names_no_address() {
    let (path, _folder) = socket();
    let mut server = TestServer::start_with(launch(&path));
    assert_eq!(server.place(), &ServerAddress::Unix(path.clone()));
    check_serves(&server, 1);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert!(log.contains(" unix POST /plants 200 "), "{log}");
    assert!(!path.exists(), "the socket is still there");
}

#[test]
fn a_path_may_be_relative_and_is_said_as_it_was_given() {
    let (_, folder) = socket();
    for form in [["--listen", "unix:plantd.sock"], ["--listen", "unix:./plantd.sock"]] {
        let launch = Launch::new().current_folder(folder.path()).arguments(form);
        let mut process = launch.data(&folder.path().join("data")).spawn();
        let given = form[1].trim_start_matches("unix:");
        assert_eq!(process.place(), ServerAddress::Unix(given.into()));
        assert!(is_socket(&folder.path().join("plantd.sock")));
        process.send_terminate();
        process.assert_exit_code(0);
        assert!(!folder.path().join("plantd.sock").exists());
    }
}

#[test]
fn the_command_that_the_first_start_shows_creates_a_plant() {
    let (_, folder) = socket();
    let path = folder.path().join("it's a \"socket\" of $HOME");
    let server = TestServer::start_with(launch(&path).without_environment("PLANTD_TOKEN"));
    let command = shown_command(&server);
    let output = paste(&command);
    let expected = br#"{"name":"Rosa canina","tag":"Rosaceae"}"#;
    assert_eq!(output.stdout, expected, "{command}: {output:?}");
}

#[test]
fn a_socket_that_a_killed_server_left_behind_is_taken_over() {
    let (path, _folder) = socket();
    let mut server = TestServer::start_with(launch(&path));
    check_serves(&server, 1);
    server.kill();
    assert!(is_socket(&path), "nothing was left behind");
    server.restart();
    check_serves(&server, 2);
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!path.exists(), "the socket is still there");
}

#[test]
fn a_socket_where_someone_listens_is_in_use() {
    let (path, _folder) = socket();
    let server = TestServer::start_with(launch(&path));
    check_refusal(&path, "in use");
    check_serves(&server, 1);
}

#[test]
fn a_socket_whose_server_is_too_busy_to_take_connections_is_in_use() {
    let (path, _folder) = socket();
    let _listener = UnixListener::bind(&path).expect("a socket can be made");
    let mut waiting = Vec::new();
    loop {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket can be made");
        socket.set_nonblocking(true).expect("it is ours");
        let address = socket2::SockAddr::unix(&path).expect("it is short enough");
        match socket.connect(&address) {
            Ok(()) => waiting.push(socket),
            Err(cause) => {
                assert_eq!(cause.kind(), ErrorKind::WouldBlock, "{cause}");
                break;
            }
        }
    }
    check_refusal(&path, "in use");
    assert!(is_socket(&path));
}

#[test]
fn what_is_no_socket_is_never_removed() {
    let (path, folder) = socket();
    fs::write(&path, "precious").expect("it is written");
    check_refusal(&path, "no socket");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "precious");

    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("a folder can be made");
    check_refusal(&path, "no socket");
    assert!(path.is_dir());

    // What a link leads to may be someone else's, also where nobody listens there.
    let left_behind = folder.path().join("left behind");
    drop(UnixListener::bind(&left_behind).expect("a socket can be made"));
    fs::remove_dir(&path).expect("it is empty");
    symlink(&left_behind, &path).expect("a link can be made");
    check_refusal(&path, "no socket");
    assert!(path.is_symlink() && is_socket(&left_behind));
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let (_, folder) = socket();
    check_refusal(&folder.path().join("nowhere/plantd.sock"), "nowhere");
}

#[test]
fn a_path_that_is_too_long_is_refused_at_once() {
    let (_, folder) = socket();
    let data = folder.path().join("data");
    for (path, length) in [("x".repeat(108), "108"), (String::new(), " 0")] {
        let listen = format!("unix:{path}");
        let by_flag = Launch::new().arguments(["--listen", &listen]);
        let by_environment = Launch::new().environment("PLANTD_LISTEN", &listen);
        for (launch, exit_code) in [(by_flag, USAGE), (by_environment, CONFIGURATION)] {
            let mut process = launch.data(&data).spawn();
            process.assert_exit_code(exit_code);
            let said = process.stderr();
            for word in ["listen", "107 bytes", length] {
                assert!(said.contains(word), "{said:?} does not hold {word:?}");
            }
            assert!(!data.exists(), "it made the folder");
        }
    }
}

#[test]
fn the_owner_and_the_group_may_connect_and_nobody_else_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let (path, folder) = socket();
        let trace = folder.path().join("trace");
        let listen = format!("unix:{}", path.display());
        let script = format!("umask {umask} && exec \"$0\" \"$@\"");
        let mut command = Command::new("strace");
        command
            .args(["-D", "-f", "-o"])
            .arg(&trace)
            .args(["-e", "trace=bind,chmod,fchmodat,listen"]);
        command.args(["sh", "-c", &script]).arg(program());
        command.args(["--listen", &listen, "--data"]).arg(folder.path().join("data"));
        let mut process = Process::spawn(&mut command);
        assert_eq!(process.place(), ServerAddress::Unix(path.clone()));
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o660, "umask {umask}");
        process.send_terminate();
        process.assert_exit_code(0);

        // Nobody can connect before it listens, so that it must have its mode by then.
        let trace = wait_for("strace to end", || {
            let trace = fs::read_to_string(&trace).expect("strace writes");
            trace.contains("+++ exited with 0 +++").then_some(trace)
        });
        let position = |words: &[&str]| {
            trace
                .lines()
                .position(|line| words.iter().all(|word| line.contains(word)))
                .unwrap_or_else(|| panic!("no {words:?} in {trace}"))
        };
        let bound = position(&["bind(", "plantd.sock"]);
        let closed_to_others = position(&["chmod", "/proc/self/fd/", "0660"]);
        let listened = position(&["listen("]);
        assert!(bound < closed_to_others && closed_to_others < listened, "{trace}");
    }
}

/// Waits until the name of the socket is gone.
#[track_caller]
fn wait_for_removal(path: &Path) {
    wait_until("the socket to be removed", || !path.exists());
}

#[test]
fn requests_in_flight_are_answered_after_the_socket_is_removed() {
    let (path, _folder) = socket();
    let mut server = TestServer::start_with(launch(&path));
    let request = create_request(&plant_body(1, "Rosa", None));
    let mut half_sent = server.connect();
    half_sent.send(&request[..request.len() - 5]);
    let mut head_only = server.connect();
    head_only.send("GET /pla");
    let mut resting = server.connect();
    resting.send(read_request(1));
    resting.receive().assert_error(404, 3002);

    server.process().send_terminate();
    wait_for_removal(&path);
    let refused = UnixStream::connect(&path).expect_err("there is no socket").kind();
    assert_eq!(refused, ErrorKind::NotFound);
    resting.assert_closed();
    assert!(server.process().is_running(), "it did not wait for the requests");
    half_sent.send(&request[request.len() - 5..]);
    half_sent.receive().assert_plant("Rosa", None);
    half_sent.assert_closed();
    head_only.send(&read_request(1)["GET /pla".len()..]);
    head_only.receive().assert_new_plant(1, "Rosa", None);
    head_only.assert_closed();
    assert_eq!(server.process().wait_for_exit().code(), Some(0));

    server.restart();
    check_serves(&server, 2);
}

#[test]
fn who_has_connected_and_was_not_taken_yet_when_the_signal_comes_is_answered() {
    // More than the server takes in one go.
    const CLIENTS: i64 = 300;
    let (path, _folder) = socket();
    let mut server = TestServer::start_with(launch(&path));
    // It does nothing until all of them have connected and sent.
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
fn connections_that_rest_do_not_hold_the_end_up() {
    let (path, _folder) = socket();
    // The drain would time out before the keep-alive ends them.
    let mut server = TestServer::start_with(launch(&path).arguments(["--drain-timeout", "40s"]));
    let mut resting: Vec<Connection> = (0..10).map(|_| server.connect()).collect();
    for connection in &mut resting {
        connection.send(read_request(1));
        connection.receive().assert_error(404, 3002);
    }
    assert_eq!(server.terminate().code(), Some(0));
    for connection in &mut resting {
        connection.assert_closed();
    }
}

#[test]
fn a_socket_that_someone_else_has_put_there_meanwhile_stays() {
    let (path, folder) = socket();
    let mut server = TestServer::start_with(launch(&path));
    fs::rename(&path, folder.path().join("moved")).expect("it can be renamed");
    let _other = UnixListener::bind(&path).expect("a socket can be made");
    assert_eq!(server.terminate().code(), Some(0));
    assert!(is_socket(&path), "the socket of someone else was removed");
}

#[test]
fn a_start_that_fails_leaves_no_socket_behind() {
    let (path, folder) = socket();
    let data = folder.path().join("data");
    // Nobody may write the token there.
    fs::create_dir(&data).expect("a folder can be made");
    fs::create_dir(data.join("first-run-token")).expect("a folder can be made");
    let mut process = launch(&path).without_environment("PLANTD_TOKEN").data(&data).spawn();
    process.assert_exit_code(IO);
    assert!(!path.exists(), "{}", process.stderr());
}
