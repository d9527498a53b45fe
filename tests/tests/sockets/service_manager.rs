//! What the server reports to a service manager that passes `NOTIFY_SOCKET`, as systemd does with `Type=notify`.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use plantd_tests::{DEADLINE, IO, Launch, TestServer};
use tempfile::TempDir;

const MESSAGE_MAX_BYTES: usize = 4096;

/// A service manager that receives messages.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    _folder: TempDir,
}

impl Manager {
    fn listen() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket can be made");
        socket.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
        Self { socket, path, _folder: folder }
    }

    #[track_caller]
    fn hear(&self) -> String {
        let mut message = [0; MESSAGE_MAX_BYTES];
        let length = self.socket.recv(&mut message).expect("the server says something");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    #[track_caller]
    fn assert_silence(&self) {
        self.socket.set_nonblocking(true).expect("the mode of the socket can be set");
        let heard = self.socket.recv(&mut [0; MESSAGE_MAX_BYTES]);
        assert_eq!(heard.map_err(|cause| cause.kind()), Err(ErrorKind::WouldBlock));
        self.socket.set_nonblocking(false).expect("the mode of the socket can be set");
    }
}

#[test]
fn a_service_manager_hears_when_the_server_is_ready_and_when_the_drain_begins() {
    let manager = Manager::listen();
    let launch = Launch::new().environment("NOTIFY_SOCKET", &manager.path);
    // Long enough for the test to see the server drain.
    let mut server = TestServer::start_with(launch.environment("PLANTD_DRAIN_DELAY", "1h"));
    assert_eq!(manager.hear(), "READY=1");
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    manager.assert_silence();
    server.process().send_terminate();
    assert_eq!(manager.hear(), "STOPPING=1");
    assert_eq!(server.client().read(1).status, 200);
}

#[test]
fn a_service_manager_hears_nothing_of_a_start_that_fails() {
    let manager = Manager::listen();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("the socket has an address").to_string();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let launch = Launch::new().data(&folder.path().join("data"));
    let launch = launch.environment("NOTIFY_SOCKET", &manager.path);
    launch.environment("PLANTD_LISTEN", address).assert_refused(IO, &["in use"]);
    manager.assert_silence();
}

#[test]
fn a_service_manager_that_is_gone_does_not_keep_the_server_from_serving() {
    let launch = Launch::new().environment("NOTIFY_SOCKET", "/nonexistent/notify");
    let mut server = TestServer::start_with(launch);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    for message in ["READY=1", "STOPPING=1"] {
        assert!(log.contains(&format!("cannot tell the service manager {message}")), "{log}");
    }
}

#[test]
fn a_service_manager_that_has_stalled_does_not_keep_the_server_from_serving_and_draining() {
    let manager = Manager::listen();
    let other = UnixDatagram::unbound().expect("a socket can be made");
    other.set_nonblocking(true).expect("the mode of the socket can be set");
    while other.send_to(b"full", &manager.path).is_ok() {}
    let launch = Launch::new().environment("NOTIFY_SOCKET", &manager.path);
    let mut server = TestServer::start_with(launch);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_service_manager_hears_at_an_abstract_socket() {
    let name = format!("plantd-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("the name is free");
    socket.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    let launch = Launch::new().environment("NOTIFY_SOCKET", format!("@{name}"));
    let _server = TestServer::start_with(launch);
    let mut message = [0; MESSAGE_MAX_BYTES];
    let length = socket.recv(&mut message).expect("the server says something");
    assert_eq!(&message[..length], b"READY=1");
}
