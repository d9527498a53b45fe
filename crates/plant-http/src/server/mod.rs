//! The server: accepts connections, serves an application on them, and drains. It knows nothing of plants or routes.

pub(crate) mod deadlines;
pub(crate) mod drain;
pub(crate) mod http1;
pub(crate) mod listening_socket;
pub(crate) mod tls;
mod transport;
mod workers;

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::serve_error::ServeError;

use self::deadlines::WORKERS_DEADLINE;
use self::drain::Draining;
use self::http1::HttpServiceFactory;
use self::listening_socket::{Acceptor, Guard, ListeningSocket};
use self::workers::Workers;

/// How long to pause after the operating system refused a connection, so that other connections can end.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// After this many refusals, the server stops accepting the last waiting connections.
const LAST_REFUSALS_MAX: u32 = 10;

/// How often the log says that connections must wait.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// How a server accepts connections, and how it ends.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The maximum number of open connections, 1,024 by default. Further connections wait in the operating system's
    /// queue. Each takes a file descriptor.
    pub max_connections: NonZeroU32,
    /// How long the drain still accepts connections while `/readyz` answers 503, so that a load balancer can notice; 0
    /// s by default.
    pub drain_delay: Duration,
    /// How long requests in flight may take after the drain delay, 10 s by default. Imports stop some seconds earlier,
    /// so that they can report how far they came.
    pub drain_timeout: Duration,
    /// How many threads serve connections, by default one for each processor.
    pub threads: NonZeroUsize,
}

/// The most connections of [`serve_monitoring`](crate::serve_monitoring): for a scraper, its standby, and a few people. Each takes
/// a file descriptor.
pub const MONITORING_CONNECTIONS: NonZeroU32 = NonZeroU32::new(64).expect("it is not 0");

/// A scrape that is under way when the server ends may take this long.
const MONITORING_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_connections: const { NonZeroU32::new(1024).expect("it is not 0") },
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

impl ServerConfig {
    /// For a server of metrics and health checks beside another one.
    pub(crate) fn for_monitoring() -> Self {
        Self {
            max_connections: MONITORING_CONNECTIONS,
            drain_delay: Duration::ZERO,
            drain_timeout: MONITORING_DRAIN_TIMEOUT,
            threads: NonZeroUsize::MIN,
        }
    }
}

/// A running server.
pub(crate) struct Server {
    acceptor: Acceptor,
    guard: Option<Guard>,
    workers: Workers,
    /// One for each connection that may be open.
    permits: Arc<Semaphore>,
    max_connections: u32,
    draining: Arc<Draining>,
    config: ServerConfig,
    last_warning: Option<Instant>,
}

impl Server {
    /// Starts the worker threads, each with an HTTP service from `make`. Connections are accepted from
    /// [`Self::serve_until`] on.
    pub(crate) async fn start(
        socket: ListeningSocket,
        make: impl Fn() -> HttpServiceFactory + Clone + Send + 'static,
        draining: Arc<Draining>,
        config: ServerConfig,
    ) -> Result<Self, ServeError> {
        let error = |what| move |cause: io::Error| ServeError::Io { what, cause };
        let ListeningSocket { socket, guard, tls } = socket;
        let workers = Workers::start(config.threads, make, tls, &draining)
            .await
            .map_err(error("cannot start the threads that serve connections"))?;
        let acceptor = Acceptor::new(socket).map_err(error("cannot take connections"))?;
        // A semaphore cannot count further on a machine of 32 bits.
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let max_connections = config.max_connections.get().min(most);
        let permits = usize::try_from(max_connections).unwrap_or(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(permits));
        let last_warning = None;
        Ok(Self {
            acceptor,
            guard,
            workers,
            permits,
            max_connections,
            draining,
            config,
            last_warning,
        })
    }

    /// Serves connections until `end` is ready.
    pub(crate) async fn serve_until<T>(&mut self, end: impl Future<Output = T>) -> T {
        tokio::select! {
            never = self.accept_connections() => match never {},
            end = end => end,
        }
    }

    /// Accepts connections for as long as it is polled. Dropping the future loses no connection.
    async fn accept_connections(&mut self) -> Infallible {
        loop {
            let permit = self.permit().await;
            match self.acceptor.accept().await {
                Ok(accepted) => self.workers.serve(accepted, permit),
                Err(cause) if is_of_one_connection(&cause) => {}
                Err(cause) => {
                    self.warn(&format!("cannot take connections for now: {cause}"));
                    sleep(REFUSAL_PAUSE).await;
                }
            }
        }
    }

    async fn permit(&mut self) -> OwnedSemaphorePermit {
        if self.permits.available_permits() == 0 {
            self.warn(&format!("{} connections are open; others wait", self.max_connections));
        }
        match Arc::clone(&self.permits).acquire_owned().await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => pending().await,
        }
    }

    fn warn(&mut self, what: &str) {
        if self.last_warning.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL) {
            log::warn!("{what}");
            self.last_warning = Some(Instant::now());
        }
    }

    /// Serves through the drain delay, accepts the connections that wait by then, and closes the listener. Then waits
    /// until their requests are answered, but not longer than the drain timeout, and ends the worker threads.
    ///
    /// # Errors
    ///
    /// When connections or threads were cut off.
    pub(crate) async fn drain(mut self) -> Result<(), ServeError> {
        // Accepting connections never ends by itself.
        let _ = timeout(self.config.drain_delay, self.accept_connections()).await;

        // Without the Unix socket's file, clients cannot connect just before the socket closes.
        drop(self.guard.take());
        self.accept_waiting().await;
        drop(self.acceptor);

        let allowed = self.config.drain_timeout;
        self.draining.close(allowed);
        if timeout(allowed, self.permits.acquire_many(self.max_connections)).await.is_err() {
            let open = usize::try_from(self.max_connections).unwrap_or(usize::MAX);
            let open = open.saturating_sub(self.permits.available_permits());
            // The last connection may have just ended.
            if open > 0 {
                // A thread may be stuck in a connection, so do not wait for the threads.
                return Err(ServeError::ConnectionsCutOff(open));
            }
        }
        let ended = timeout(WORKERS_DEADLINE, self.workers.end()).await;
        ended.map_err(|_| ServeError::ThreadsCutOff)
    }

    /// Accepts the connections that wait, up to the maximum: clients may have sent requests on them, which closing the
    /// listener would reset.
    async fn accept_waiting(&mut self) {
        let mut refusals = 0;
        while let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            match self.acceptor.accept_waiting() {
                Ok(accepted) => self.workers.serve(accepted, permit),
                // No more connections wait.
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => return,
                Err(cause) if is_of_one_connection(&cause) => {}
                Err(cause) if refusals == LAST_REFUSALS_MAX => {
                    log::warn!("connections that still wait are not taken: {cause}");
                    return;
                }
                Err(_) => {
                    refusals += 1;
                    sleep(REFUSAL_PAUSE).await;
                }
            }
        }
        log::warn!(
            "connections that still wait, if there are any, are not taken: too many are open"
        );
    }
}

/// Whether a single connection failed, and not the accepting of connections.
fn is_of_one_connection(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            // Linux reports network errors of the new connection here (accept(2)).
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::Interrupted
    )
}
