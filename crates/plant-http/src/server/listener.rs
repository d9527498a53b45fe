//! Taking connections: as many as there may be, and at the end those that wait, up to that number.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::serve_error::ServeError;
use crate::server::deadlines::WORKERS_DEADLINE;
use crate::server::drain::Draining;
use crate::server::listening_socket::{Acceptor, Guard, WatchedAcceptor};
use crate::server::workers::{Accepted, Workers};

/// How long no connection is taken after the operating system could not give one, so that some end
/// meanwhile.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// How often the operating system may refuse a connection at the end before the rest is given up.
const LAST_REFUSALS_MAX: u32 = 10;

/// How often it is said that connections have to wait.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Takes connections and gives them to the threads that serve them.
pub(crate) struct Listener {
    acceptor: WatchedAcceptor,
    /// Dropped before the last connections are taken.
    guard: Option<Guard>,
    workers: Workers,
    /// One for each connection that there may be. The others wait in the operating system's queue.
    permits: Arc<Semaphore>,
    max_connections: u32,
    warned: Option<Instant>,
}

impl Listener {
    pub(crate) fn new(
        acceptor: Acceptor,
        guard: Option<Guard>,
        workers: Workers,
        max_connections: NonZeroU32,
    ) -> io::Result<Self> {
        let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
        let max_connections = max_connections.get().min(most);
        let permits = usize::try_from(max_connections).unwrap_or(Semaphore::MAX_PERMITS);
        Ok(Self {
            acceptor: WatchedAcceptor::new(acceptor)?,
            guard,
            workers,
            permits: Arc::new(Semaphore::new(permits)),
            max_connections,
            warned: None,
        })
    }

    /// Takes connections for as long as it is polled. None is lost when that ends.
    pub(crate) async fn take_connections(&mut self) -> Infallible {
        loop {
            let permit = self.permit().await;
            match self.acceptor.accept().await {
                Ok(incoming) => self.workers.serve(Accepted { incoming, permit }),
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
            // Nobody closes the semaphore.
            Err(_) => pending().await,
        }
    }

    fn warn(&mut self, what: &str) {
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL) {
            log::warn!("{what}");
            self.warned = Some(Instant::now());
        }
    }

    /// Takes the connections that wait, as many as there may be, and then no more. Waits until the
    /// requests on all of them are answered, but not longer than `allowed`, and closes what is left. Then
    /// the threads end.
    ///
    /// # Errors
    ///
    /// When something had to be cut off, or the socket failed.
    pub(crate) async fn drain(
        self,
        draining: &Draining,
        allowed: Duration,
    ) -> Result<(), ServeError> {
        let Self { acceptor, guard, mut workers, permits, max_connections, .. } = self;
        // A client that does not find the socket any more cannot connect to it just before it closes.
        drop(guard);
        // The runtime knows only of those that its driver has seen.
        let acceptor = acceptor
            .into_acceptor()
            .map_err(|cause| ServeError::Io { what: "cannot drain the connections", cause })?;
        take_waiting(&acceptor, &mut workers, &permits).await;
        drop(acceptor);
        draining.close(allowed);
        if timeout(allowed, permits.acquire_many(max_connections)).await.is_err() {
            let open = usize::try_from(max_connections).unwrap_or(usize::MAX);
            let open = open.saturating_sub(permits.available_permits());
            // The last connection may have ended just now.
            if open > 0 {
                // A thread may be stuck in one of them: none is waited for.
                return Err(ServeError::ConnectionsCutOff(open));
            }
        }
        let ended = timeout(WORKERS_DEADLINE, workers.end()).await;
        ended.map_err(|_| ServeError::ThreadsCutOff)
    }
}

/// Takes the connections that wait: requests may have been sent on them, and would be lost with the
/// listener.
async fn take_waiting(acceptor: &Acceptor, workers: &mut Workers, permits: &Arc<Semaphore>) {
    let mut refusals = 0;
    while let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        match acceptor.accept() {
            Ok(incoming) => workers.serve(Accepted { incoming, permit }),
            // There are no more.
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
    log::warn!("connections that still wait, if there are any, are not taken: too many are open");
}

/// Whether it is the connection that failed and not the taking of connections.
fn is_of_one_connection(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            // Linux tells here what is wrong with the network of the connection that it takes.
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::Interrupted
    )
}
