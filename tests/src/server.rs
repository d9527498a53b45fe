//! A running server with its own folder.

use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tempfile::TempDir;

use crate::TOKEN;
use crate::answer::Answer;
use crate::certificate::Authority;
use crate::client::Client;
use crate::connection::Connection;
use crate::launch::Launch;
use crate::plant::NewPlant;
use crate::process::{Process, ServerAddress};

/// The environment variable that selects the default store of servers: `disk`, or `postgres`.
const STORE: &str = "PLANTD_TESTS_STORE";

/// A `plantd` that is ready. Dropping it ends the process and removes its folder.
///
/// If PostgreSQL is the default store, the server's schema belongs to its folder, unless the test chooses one by
/// [`Launch::postgres`].
#[derive(Debug)]
#[must_use = "a server ends when it is dropped"]
pub struct TestServer {
    process: Process,
    address: ServerAddress,
    launch: Launch,
    data: PathBuf,
    start_took: Duration,
    _folder: Option<TempDir>,
}

impl TestServer {
    /// Starts a server with the defaults of [`Launch`].
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Launch::new())
    }

    /// Starts a server with the defaults of [`Launch`], and imports these plants.
    #[track_caller]
    pub fn start_with_plants(plants: &[NewPlant]) -> Self {
        let server = Self::start();
        server.client().import_all(plants);
        server
    }

    /// Starts a server with its own new folder.
    #[track_caller]
    pub fn start_with(launch: Launch) -> Self {
        Self::start_prepared(launch, "data", |_| {})
    }

    /// Starts a server on a folder of this name below a temporary one. `prepare` may create it.
    #[track_caller]
    pub fn start_prepared(launch: Launch, name: &str, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let data = folder.path().join(name);
        prepare(&data);
        Self { _folder: Some(folder), ..Self::start_at(launch, &data) }
    }

    /// Starts a server with this folder, which stays when the server is dropped.
    #[track_caller]
    pub fn start_at(launch: Launch, data: &Path) -> Self {
        let (process, address, start_took) = start(&launch, data);
        Self { process, address, launch, data: data.to_owned(), start_took, _folder: None }
    }

    /// Starts the server again on its folder with the same launch. The process must have ended.
    #[track_caller]
    pub fn restart(&mut self) {
        self.restart_with(self.launch.clone());
    }

    /// Starts the server again on its folder with another launch. The process must have ended.
    #[track_caller]
    pub fn restart_with(&mut self, launch: Launch) {
        assert!(!self.process.is_running(), "the server still runs");
        (self.process, self.address, self.start_took) = start(&launch, &self.data);
        self.launch = launch;
    }

    /// Where it listens.
    pub fn server_address(&self) -> &ServerAddress {
        &self.address
    }

    /// The address at which it listens. Panics for a Unix socket.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.address.address()
    }

    /// Its folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The duration of its last start.
    pub fn start_took(&self) -> Duration {
        self.start_took
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// A command that uses the folder and the store of the server.
    pub fn command(&self, arguments: &[&str]) -> Launch {
        with_store(Launch::new().arguments(arguments.iter().copied()), &self.data)
    }

    /// A client that sends [`TOKEN`].
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::new(self.address(), Some(TOKEN))
    }

    /// A client that sends [`TOKEN`] over TLS.
    #[track_caller]
    pub fn tls_client(&self, authority: &Authority) -> Client {
        Client::over_tls(self.address(), authority)
    }

    /// A new connection without TLS.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        match &self.address {
            ServerAddress::Http(address) | ServerAddress::Https(address) => {
                Connection::open(*address)
            }
            ServerAddress::Unix(path) => {
                Connection::open_unix(path).expect("the server accepts connections")
            }
        }
    }

    /// The answer to a request that is sent on a new connection.
    #[track_caller]
    pub fn answer_to(&self, request: impl AsRef<[u8]>) -> Answer {
        let request = request.as_ref();
        let mut connection = self.connect();
        connection.send(request);
        if request.starts_with(b"HEAD ") { connection.receive_head() } else { connection.receive() }
    }

    /// A new connection with TLS, after the handshake.
    #[track_caller]
    pub fn connect_tls(&self, client: &Arc<ClientConfig>) -> Connection {
        Connection::open_tls(self.address(), client).expect("a handshake with the server")
    }

    /// Asserts that `plantd verify` finds the folder intact, unless the plants are in PostgreSQL. The process must
    /// have ended.
    #[track_caller]
    pub fn verify(&self) {
        if !self.store_is_on_disk() {
            return;
        }
        let mut verify = Launch::new().data(&self.data).arguments(["verify"]).spawn();
        let status = verify.wait_for_exit();
        let said = verify.stdout() + &verify.stderr();
        assert_eq!(status.code(), Some(0), "plantd verify: {said}");
    }

    /// Whether the plants are in its folder, and not in PostgreSQL.
    pub(crate) fn store_is_on_disk(&self) -> bool {
        !self.launch.is_on_postgres() && !is_on_postgres()
    }

    /// Whether it forgets even young events.
    pub fn forgets_events(&self) -> bool {
        self.launch.forgets_events()
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
    let launch = with_store(launch.clone(), data);
    let begun = Instant::now();
    let mut process = launch.spawn();
    let address = process.server_address();
    (process, address, begun.elapsed())
}

/// The launch with this folder, and with the default store unless the launch has chosen one.
fn with_store(launch: Launch, data: &Path) -> Launch {
    let launch = launch.data(data);
    if !is_on_postgres() || launch.is_on_postgres() {
        return launch;
    }
    launch.postgres(test_postgres::shared().url(), &schema_of(data))
}

/// Whether PostgreSQL is the default store.
pub(crate) fn is_on_postgres() -> bool {
    match env::var(STORE).as_deref() {
        Err(_) | Ok("" | "disk") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("{STORE} is {other:?}: set it to `disk` or `postgres`"),
    }
}

/// Whether a data folder is the default store. If not, prints `why` the test asserts nothing about PostgreSQL.
#[allow(clippy::print_stdout, reason = "a test that claims nothing says why")]
pub fn store_is_on_disk(why: &str) -> bool {
    let is_on_disk = !is_on_postgres();
    if !is_on_disk {
        println!("claims nothing about PostgreSQL: {why}");
    }
    is_on_disk
}

/// The schema that belongs to a folder, so that a restart there finds the same plants. The name also has the process
/// id, because another test process may use a folder of the same name.
fn schema_of(folder: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    (process::id(), folder).hash(&mut hasher);
    format!("test_{:016x}", hasher.finish())
}
