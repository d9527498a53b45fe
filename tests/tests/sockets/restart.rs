//! Restarts that no client notices: on a socket that outlives the server, and of replicas behind a proxy, one after
//! the other.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self, UnixListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use plantd_tests::torture::SetOnDrop;
use plantd_tests::{
    Answer, CONFIGURATION, Connection, Document, Launch, Nginx, ServerAddress, TestServer, at_once,
    create_request, hold_port, plant_body, wait_until,
};
use socket2::{Domain, Socket, Type};
use test_postgres::fresh_schema_name;

use crate::transport::{Site, Transport, read_request};

/// How many plants the clients create, at least, before each step of a test.
const PLANTS: usize = 20;

/// Calls `step` with each number below `steps`, while clients create and read plants, each request on its own
/// connection: before the first step, during each, and afterwards. Asserts that every request succeeds, and returns
/// the ids of all plants.
#[track_caller]
fn under_load(
    connect: impl Fn() -> io::Result<Connection> + Sync,
    steps: usize,
    mut step: impl FnMut(usize),
) -> Vec<i64> {
    let (created, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = || created.lock().expect("a client panicked").len();
    let create_plants = |first_id: i64| {
        for id in (first_id..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
            for request in [create_request(&plant_body(id, "Rosa", None)), read_request(id)] {
                let answer = connect().and_then(|mut connection| {
                    connection.try_send(request)?;
                    connection.try_receive()
                });
                assert!(matches!(answer, Ok(Answer { status: 200, .. })), "{id}: {answer:?}");
            }
            created.lock().expect("the other client panicked").push(id);
        }
    };
    thread::scope(|scope| {
        let clients = [0, 1_000_000].map(|first_id| scope.spawn(move || create_plants(first_id)));
        let _over = SetOnDrop(&is_over);
        let wait_for_more = || {
            let before = count();
            wait_until("the clients to go on", || {
                assert!(!clients.iter().any(ScopedJoinHandle::is_finished), "a request failed");
                count() >= before + PLANTS
            });
        };
        wait_for_more();
        for number in 0..steps {
            step(number);
            wait_for_more();
        }
    });
    let mut created = created.into_inner().expect("no client panicked");
    created.sort_unstable();
    created
}

#[track_caller]
fn assert_there(connect: impl Fn() -> io::Result<Connection>, ids: &[i64]) {
    // nginx closes a connection after 1,000 requests.
    for ids in ids.chunks(1000) {
        let mut connection = connect().expect("the server takes connections");
        for id in ids {
            connection.send(read_request(*id));
            connection.receive().assert_new_plant(*id, "Rosa", None);
        }
    }
}

/// Asserts that a server that restarts twice while clients connect refuses no request.
#[track_caller]
fn check_restarts(mut server: TestServer, connect: impl Fn() -> io::Result<Connection> + Sync) {
    let created = under_load(&connect, 2, |_| {
        assert_eq!(server.terminate().code(), Some(0));
        server.restart();
    });
    assert_there(connect, &created);
}

fn tcp_socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = socket.local_addr().expect("the socket has an address");
    (socket, address)
}

#[test]
fn a_restart_on_a_passed_socket_refuses_no_connection() {
    at_once(&[Transport::Tcp, Transport::Tls13, Transport::Unix], |transport| {
        let site = Site::new();
        let launch = site.launch(*transport);
        if *transport == Transport::Unix {
            let path = site.socket();
            let socket = UnixListener::bind(&path).expect("a socket can be made");
            let server = TestServer::start_with(launch.passed_socket(socket));
            assert_eq!(server.server_address(), &ServerAddress::Unix(path.clone()));
            check_restarts(server, || Connection::open_unix(&path));
            assert!(path.exists(), "the socket of another process was removed");
            return;
        }
        let (socket, address) = tcp_socket();
        let server = TestServer::start_with(launch.passed_socket(socket));
        assert_eq!(server.address(), address);
        let client = site.client();
        check_restarts(server, || match transport {
            Transport::Tcp => Connection::try_open(address),
            _ => Connection::open_tls(address, &client),
        });
    });
}

#[test]
fn a_passed_descriptor_that_cannot_be_listened_on_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let tcp = || Launch::new().passed_socket(tcp_socket().0);
    let unix = || {
        let path = folder.path().join(fastrand::u64(..).to_string());
        Launch::new().passed_socket(UnixListener::bind(path).expect("a socket can be made"))
    };
    let name = net::SocketAddr::from_abstract_name(format!("plantd-{}", fastrand::u64(..)));
    let without_path = UnixListener::bind_addr(&name.expect("the name is short enough"));
    let deaf = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let file = OwnedFd::from(tempfile::tempfile().expect("a file can be made"));
    for (launch, words) in [
        (tcp().environment("LISTEN_FDS", "2"), "2 sockets"),
        (tcp().environment("LISTEN_FDS", "-1"), "\"-1\" is no count"),
        (tcp().environment("PLANTD_LISTEN", "127.0.0.1:0"), "PLANTD_LISTEN"),
        (tcp().arguments(["--listen", "127.0.0.1:0"]), "--listen"),
        (
            unix().arguments(["--tls-cert", "chain.pem", "--tls-key", "key.pem"]),
            "TLS is for connections over TCP",
        ),
        (Launch::new().passed_socket(without_path.expect("a socket can be made")), "has no path"),
        (Launch::new().passed_socket(deaf), "does not listen"),
        (Launch::new().passed_socket(udp), "neither a TCP socket nor a Unix socket"),
        (Launch::new().passed_socket(file), "neither a TCP socket nor a Unix socket"),
    ] {
        let data = folder.path().join("data");
        let said = launch.data(&data).assert_refused(CONFIGURATION, &[words, "LISTEN_FDS"]);
        assert!(!data.exists(), "{said}: the folder was made all the same");
    }
}

#[test]
fn a_socket_that_was_passed_to_another_process_is_left_alone() {
    let (socket, address) = tcp_socket();
    let launch = Launch::new()
        .passed_socket(socket)
        .environment("LISTEN_PID", "1")
        .environment("PLANTD_LISTEN", "127.0.0.1:0");
    let server = TestServer::start_with(launch);
    assert_ne!(server.address(), address);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
}

/// The blocks of nginx's configuration in docs/operations.md: the servers, and the proxy.
fn documented_blocks() -> (String, String) {
    let part = Document::read("docs/operations.md").part("Behind a proxy").clone();
    let blocks = part.blocks("nginx");
    let (upstream, server) = blocks[0].split_once("\n\nserver {").expect("two blocks");
    (upstream.to_owned(), format!("server {{{server}"))
}

#[test]
fn a_restart_on_a_passed_socket_behind_nginx_as_documented_fails_no_request() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("plantd.sock");
    let socket = UnixListener::bind(&path).expect("a socket can be made");
    let launch = Launch::new().passed_socket(socket).arguments(["--drain-delay", "1s"]);
    let server = TestServer::start_with(launch);
    let (upstream, proxy) = documented_blocks();
    let nginx = Nginx::as_documented(&upstream, &proxy, &[format!("unix:{}", path.display())]);
    check_restarts(server, || nginx.try_connect());
}

#[test]
fn replicas_behind_nginx_as_documented_are_replaced_one_by_one_without_a_failed_request() {
    let (_, proxy) = documented_blocks();
    let part = Document::read("docs/scaling.md").part("Replace the replicas one by one").clone();
    let [upstream] = <[String; 1]>::try_from(part.blocks("nginx")).expect("one block");
    let schema = fresh_schema_name();
    let ports: [_; 3] = std::array::from_fn(|_| hold_port());
    let mut replicas = ports.each_ref().map(|(_, address)| {
        TestServer::start_with(
            Launch::new()
                .arguments(["--listen", &address.to_string(), "--drain-delay", "1s"])
                .postgres(test_postgres::shared().url(), &schema),
        )
    });
    let addresses = ports.each_ref().map(|(_, address)| address.to_string());
    let nginx = Nginx::as_documented(&upstream, &proxy, &addresses);
    let created = under_load(
        || nginx.try_connect(),
        replicas.len(),
        |number| {
            let replica = &mut replicas[number];
            assert_eq!(replica.terminate().code(), Some(0));
            replica.restart();
            wait_until("the replica to be ready", || replica.client().get("/readyz").status == 200);
        },
    );
    let mut plants: Vec<i64> =
        replicas[0].client().list_all("limit=1000").iter().map(|plant| plant.id).collect();
    plants.sort_unstable();
    assert_eq!(plants, created);
}
