//! The server: takes connections, gives them to an application, and drains. It knows nothing of what is served.

pub(crate) mod deadlines;
pub(crate) mod drain;
pub(crate) mod http1;
mod listener;
pub(crate) mod listening_socket;
pub(crate) mod tls;
mod transport;
mod workers;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::serve_error::ServeError;

use self::drain::Draining;
use self::http1::{Application, connection_service};
use self::listener::Listener;
use self::listening_socket::ListeningSocket;
use self::workers::Workers;

/// How many connections there are at most unless something else is said.
const DEFAULT_MAX_CONNECTIONS: NonZeroU32 = NonZeroU32::new(1024).expect("it is not 0");

/// How a server takes connections, and how it ends.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// How many connections there are at most, 1,024 by default. Further ones wait in the operating system's queue.
    /// Each takes a file descriptor.
    pub max_connections: NonZeroU32,
    /// How long new connections are still taken in the drain, while `/readyz` answers 503 already, so that a load
    /// balancer can notice; 0 s by default.
    pub drain_delay: Duration,
    /// How long requests in flight may take after that, 10 s by default. Imports end some seconds before, so that they
    /// can tell how far they came.
    pub drain_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_connections: DEFAULT_MAX_CONNECTIONS,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// A server that runs.
pub(crate) struct Server {
    listener: Listener,
    draining: Arc<Draining>,
    config: ServerConfig,
}

impl Server {
    /// Starts the threads that serve. Connections are taken from [`Self::serve_until`] on.
    pub(crate) async fn start(
        socket: ListeningSocket,
        application: impl Application,
        draining: Arc<Draining>,
        config: ServerConfig,
    ) -> Result<Self, ServeError> {
        let error = |what| move |cause: io::Error| ServeError::Io { what, cause };
        let ListeningSocket { acceptor, guard, tls } = socket;
        let workers = Workers::start({
            let draining = Arc::clone(&draining);
            move || connection_service(&application, &draining, tls.clone())
        })
        .await
        .map_err(error("cannot start the threads that serve connections"))?;
        let listener = Listener::new(acceptor, guard, workers, config.max_connections)
            .map_err(error("cannot take connections"))?;
        Ok(Self { listener, draining, config })
    }

    /// Takes connections until `end` is there.
    pub(crate) async fn serve_until<T>(&mut self, end: impl Future<Output = T>) -> T {
        tokio::select! {
            never = self.listener.take_connections() => match never {},
            end = end => end,
        }
    }

    /// Answers what was asked, then ends.
    pub(crate) async fn drain(mut self) -> Result<(), ServeError> {
        self.draining.begin();
        log::info!("draining");
        // It does not come to an end before.
        let _ = timeout(self.config.drain_delay, self.listener.take_connections()).await;
        self.listener.drain(&self.draining, self.config.drain_timeout).await
    }
}
