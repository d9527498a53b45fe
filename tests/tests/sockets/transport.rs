//! The transports, for assertions that hold on each of them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plantd_tests::{
    Answer, Authority, Connection, IssuedCertificate, Launch, ServerAddress, TestServer,
    plant_body, raw_head, wait_until,
};
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Tls12,
    Tls13,
    Unix,
}

impl Transport {
    pub(crate) const ALL: [Self; 4] = [Self::Tcp, Self::Tls12, Self::Tls13, Self::Unix];
}

/// A folder with a certificate and a place for a socket, and an authority that clients trust.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    pub(crate) authority: Authority,
    pub(crate) certificate: IssuedCertificate,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let authority = Authority::new();
        let certificate = authority.issue();
        certificate.write(folder.path());
        Self { folder, authority, certificate }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("plantd.sock")
    }

    pub(crate) fn launch(&self, transport: Transport) -> Launch {
        match transport {
            Transport::Tcp => Launch::new(),
            Transport::Tls12 | Transport::Tls13 => Launch::new().tls(self.folder.path()),
            Transport::Unix => unix_launch(&self.socket()),
        }
    }

    pub(crate) fn start_tls(&self) -> TestServer {
        TestServer::start_with(Launch::new().tls(self.folder.path()))
    }

    /// A client that trusts the authority.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.authority.plain_client()
    }

    #[track_caller]
    pub(crate) fn connect(&self, transport: Transport, server: &TestServer) -> Connection {
        let versions = match transport {
            Transport::Tcp | Transport::Unix => return server.connect(),
            Transport::Tls12 => &[&TLS12],
            Transport::Tls13 => &[&TLS13],
        };
        server.connect_tls(&self.authority.client(versions, &[]))
    }

    /// Reads a plant over its own connection.
    #[track_caller]
    pub(crate) fn read(&self, transport: Transport, server: &TestServer, id: i64) -> Answer {
        let mut connection = self.connect(transport, server);
        connection.send(read_request(id));
        connection.receive()
    }
}

/// A launch that listens at a Unix socket with this path.
pub(crate) fn unix_launch(path: &Path) -> Launch {
    Launch::new().environment("PLANTD_LISTEN", format!("unix:{}", path.display()))
}

pub(crate) fn read_request(id: i64) -> String {
    raw_head(&format!("GET /plants/{id}"), "")
}

/// Begins a create, and sends a part of its body. Returns the rest.
#[track_caller]
pub(crate) fn send_half(connection: &mut Connection, id: i64, name: &str) -> String {
    let mut body = plant_body(id, name, None);
    connection.begin_create(&body);
    let rest = body.split_off(10);
    connection.send(&body);
    rest
}

/// Waits until the server refuses new connections. A Unix socket is removed by then.
#[track_caller]
pub(crate) fn wait_for_refusal(server: &TestServer) {
    wait_until("the server to take no more connections", || match server.server_address() {
        ServerAddress::Http(address) | ServerAddress::Https(address) => {
            Connection::try_open(*address).is_err()
        }
        ServerAddress::Unix(path) => {
            Connection::open_unix(path).is_err_and(|cause| cause.kind() == ErrorKind::NotFound)
        }
    });
}
