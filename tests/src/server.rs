//! A running server with a folder of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Client;
use crate::connection::Connection;
use crate::launch::{Launch, TOKEN};
use crate::process::Process;

/// A `plantd` that is ready. It and its folder are gone when this is dropped.
#[derive(Debug)]
pub struct TestServer {
    process: Process,
    address: SocketAddr,
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
        let (process, address, start_took) = start(&launch, data);
        Self { process, address, launch, data: data.to_owned(), start_took, _folder: None }
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
        (self.process, self.address, self.start_took) = start(&launch, &self.data);
        self.launch = launch;
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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
    pub fn client(&self) -> Client {
        Client::new(self.address, Some(TOKEN))
    }

    /// A new connection.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Has `plantd verify` look at the folder, and claims that it finds nothing. The process must have
    /// ended.
    ///
    /// # Panics
    ///
    /// When it finds something.
    #[track_caller]
    pub fn verify(&self) {
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
fn start(launch: &Launch, data: &Path) -> (Process, SocketAddr, Duration) {
    let begun = Instant::now();
    let mut process = launch.clone().data(data).spawn();
    let address = process.address();
    (process, address, begun.elapsed())
}
