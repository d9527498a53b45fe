//! A running server with a folder of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tempfile::TempDir;

use crate::certificate::Authority;
use crate::client::Client;
use crate::connection::Connection;
use crate::launch::{Launch, TOKEN};
use crate::process::Process;
use crate::server_address::ServerAddress;
use crate::store;

/// A `plantd` that is ready. It and its folder are gone when this is dropped.
///
/// Where the tests are to run on PostgreSQL, it has a schema of its own there, which belongs to its
/// folder, unless the test chooses one by [`Launch::postgres`].
#[derive(Debug)]
pub struct TestServer {
    process: Process,
    place: ServerAddress,
    launch: Launch,
    data: PathBuf,
    start_took: Duration,
    _folder: Option<TempDir>,
}

impl TestServer {
    /// Starts a server as most tests want it.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Launch::new())
    }

    /// Starts a server with a folder of its own, which is not there before.
    #[must_use]
    #[track_caller]
    pub fn start_with(launch: Launch) -> Self {
        Self::start_prepared(launch, "data", |_| {})
    }

    /// Starts a server whose folder has this name and was prepared before. The folder that `prepare`
    /// gets is there.
    ///
    /// # Panics
    ///
    /// When the server does not become ready, or says so in other words than it should.
    #[must_use]
    #[track_caller]
    pub fn start_prepared(launch: Launch, name: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let data = folder.path().join(name);
        prepare(&data);
        Self { _folder: Some(folder), ..Self::start_at(launch, &data) }
    }

    /// Starts a server with this folder, which stays when this is dropped.
    ///
    /// # Panics
    ///
    /// When the server does not become ready, or says so in other words than it should.
    #[must_use]
    #[track_caller]
    pub fn start_at(launch: Launch, data: &Path) -> Self {
        let (process, place, start_took) = start(&launch, data);
        Self { process, place, launch, data: data.to_owned(), start_took, _folder: None }
    }

    /// Starts again on the same folder, as before. The process must have ended.
    #[track_caller]
    pub fn restart(&mut self) {
        self.restart_with(self.launch.clone());
    }

    /// Starts again on the same folder, and from now on like this.
    ///
    /// # Panics
    ///
    /// When the server still runs, or does not become ready.
    #[track_caller]
    pub fn restart_with(&mut self, launch: Launch) {
        assert!(!self.process.is_running(), "it still runs");
        (self.process, self.place, self.start_took) = start(&launch, &self.data);
        self.launch = launch;
    }

    /// Where it listens.
    #[must_use]
    pub fn place(&self) -> &ServerAddress {
        &self.place
    }

    /// The address where it listens.
    ///
    /// # Panics
    ///
    /// When it listens at a Unix socket.
    #[must_use]
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.place.address()
    }

    /// Its folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// How long its last start took.
    #[must_use]
    pub fn start_took(&self) -> Duration {
        self.start_took
    }

    /// Its process.
    #[must_use]
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What stands on its standard error by now.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// A client that sends [`TOKEN`].
    #[must_use]
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::new(self.address(), Some(TOKEN))
    }

    /// A client that sends [`TOKEN`] over TLS.
    #[must_use]
    #[track_caller]
    pub fn tls_client(&self, authority: &Authority) -> Client {
        Client::over_tls(self.address(), authority, Some(TOKEN))
    }

    /// A new connection, without TLS.
    ///
    /// # Panics
    ///
    /// When the server takes none.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Connection {
        match &self.place {
            ServerAddress::Http(address) | ServerAddress::Https(address) => {
                Connection::open(*address)
            }
            ServerAddress::Unix(path) => {
                Connection::open_unix(path).expect("the server takes connections")
            }
        }
    }

    /// A new connection with TLS, after the handshake.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn connect_tls(&self, client: &Arc<ClientConfig>) -> Connection {
        Connection::open_tls(self.address(), client).expect("a handshake with the server")
    }

    /// Has `plantd verify` look at the folder, and claims that it finds nothing. The process must have
    /// ended. Where the plants are in PostgreSQL there is nothing in the folder to look at.
    ///
    /// # Panics
    ///
    /// When it finds something.
    #[track_caller]
    pub fn verify(&self) {
        if self.launch.is_on_postgres() || store::is_postgres() {
            return;
        }
        let mut verify = Launch::new().data(&self.data).arguments(["verify"]).spawn();
        let status = verify.wait_for_exit();
        let said = verify.stdout() + &verify.stderr();
        assert_eq!(status.code(), Some(0), "plantd verify: {said}");
    }

    /// Sends SIGTERM and waits for the end.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.send_terminate();
        self.process.wait_for_exit()
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

#[track_caller]
fn start(launch: &Launch, data: &Path) -> (Process, ServerAddress, Duration) {
    launch.build();
    let launch = on_its_store(launch, data);
    let begun = Instant::now();
    let mut process = launch.data(data).spawn();
    let place = process.place();
    (process, place, begun.elapsed())
}

/// The launch with the schema of its folder, where the tests are to run on PostgreSQL.
fn on_its_store(launch: &Launch, data: &Path) -> Launch {
    let launch = launch.clone();
    if launch.is_on_postgres() || !store::is_postgres() {
        return launch;
    }
    launch.postgres(test_postgres::shared().url(), &store::schema_of(data))
}
