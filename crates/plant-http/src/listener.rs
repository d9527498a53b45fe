//! Taking connections: as many as there may be, and at the end all that are there.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use actix_web::rt::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::drain::Draining;
use crate::workers::{Taken, Workers};

/// How long no connection is taken after the operating system could not give one, so that some end
/// meanwhile.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// How often it is said that connections have to wait.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Takes connections and gives them to the threads that serve them.
pub(crate) struct Listener {
    listener: TcpListener,
    workers: Workers,
    /// One for each connection that there may be. The others wait in the operating system's queue.
    permits: Arc<Semaphore>,
    max_connections: u32,
    warned: Option<Instant>,
}

impl Listener {
    pub(crate) fn new(
        listener: std::net::TcpListener,
        workers: Workers,
        max_connections: u32,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let permits = usize::try_from(max_connections).unwrap_or(usize::MAX);
        Ok(Self {
            listener: TcpListener::from_std(listener)?,
            workers,
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            max_connections,
            warned: None,
        })
    }

    /// Takes connections for as long as it is polled. None is lost when that ends.
    pub(crate) async fn take_connections(&mut self) -> Infallible {
        loop {
            let permit = self.permit().await;
            match self.listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => self.workers.serve(Taken { stream, permit }),
                Err(cause) if is_of_one_connection(&cause) => {}
                Err(cause) => {
                    self.warn(&format!("cannot take connections for now: {cause}"));
                    sleep(REFUSAL_PAUSE).await;
                }
            }
        }
    }

    async fn permit(&mut self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                return permit;
            }
            self.warn(&format!("{} connections are open; others wait", self.max_connections));
            // What is acquired here is free again, and nobody else takes one.
            drop(self.permits.acquire().await);
        }
    }

    fn warn(&mut self, what: &str) {
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL) {
            log::warn!("{what}");
            self.warned = Some(Instant::now());
        }
    }

    /// Takes the connections that clients have already, and then no more. Waits until the requests on
    /// all of them are answered, but not longer than `allowed`, and closes what is left.
    pub(crate) async fn close(self, draining: &Draining, allowed: Duration) -> io::Result<()> {
        let Self { listener, mut workers, permits, max_connections, .. } = self;
        let listener = listener.into_std()?;
        // Requests may have been sent on these, and would be lost with the listener.
        while let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            match listener.accept() {
                Ok((stream, _)) => workers.serve(Taken { stream, permit }),
                Err(cause) if is_of_one_connection(&cause) => {}
                // There are no more.
                Err(_) => break,
            }
        }
        drop(listener);
        draining.close();
        if timeout(allowed, permits.acquire_many(max_connections)).await.is_err() {
            let open = usize::try_from(max_connections).unwrap_or(usize::MAX);
            let open = open.saturating_sub(permits.available_permits());
            log::warn!("closing {open} connections on which requests have not ended");
        }
        Ok(())
    }
}

/// Whether it is the connection that failed and not the taking of connections.
fn is_of_one_connection(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}
