//! The worker threads, which serve connections.

use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use actix_service::ServiceFactory as _;
use actix_web::rt;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::server::drain::Draining;
use crate::server::http1::{HttpServiceFactory, serve_connection};
use crate::server::listening_socket::Accepted;
use crate::server::tls::TlsCertificate;

/// The number of threads for blocking work, over all workers.
const BLOCKING_THREADS: usize = 512;

/// The threads that serve connections. Dropping this ends them, and the connections on them.
pub(super) struct Workers {
    connections: Vec<mpsc::UnboundedSender<(Accepted, OwnedSemaphorePermit)>>,
    /// Closed when every thread has dropped everything it served with. Joining a thread would block this one.
    ended: mpsc::Receiver<Infallible>,
    /// The index of the worker that was given the last connection.
    last: usize,
}

impl Workers {
    /// Starts the threads. Each makes an HTTP service of its own with `make`.
    pub(super) async fn start(
        threads: NonZeroUsize,
        make: impl Fn() -> HttpServiceFactory + Clone + Send + 'static,
        tls: Option<TlsCertificate>,
        draining: &Arc<Draining>,
    ) -> io::Result<Self> {
        let count = threads.get();
        let (ends, ended) = mpsc::channel(1);
        let mut workers = Self { connections: Vec::new(), ended, last: 0 };
        for number in 0..count {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads((BLOCKING_THREADS / count).max(1))
                .build()?;
            let (connections, mut accepted) = mpsc::unbounded_channel();
            let (started, has_started) = oneshot::channel();
            let ends = ends.clone();
            let (make, tls, draining) = (make.clone(), tls.clone(), Arc::clone(draining));
            let work = async move || {
                // Dropping `started` reports the error.
                let Ok(http) = make().new_service(()).await else { return };
                let _ = started.send(());
                let http = Rc::new(http);
                while let Some((accepted, permit)) = accepted.recv().await {
                    let http = Rc::clone(&http);
                    let (tls, draining) = (tls.clone(), Arc::clone(&draining));
                    rt::spawn(async move {
                        // A failed connection needs no log line; requests are logged where they are answered.
                        let _ = serve_connection(&http, accepted, tls, &draining).await;
                        drop(permit);
                    });
                }
            };
            thread::Builder::new().name(format!("plant-http-{number}")).spawn(move || {
                // Dropped last, also in a panic.
                let _ends = ends;
                rt::Runtime::from(runtime).block_on(work());
            })?;
            has_started.await.map_err(|_| io::Error::other("the service cannot be made"))?;
            workers.connections.push(connections);
        }
        Ok(workers)
    }

    /// Gives a connection to the next thread in turn. The permit is returned when the connection is gone.
    pub(super) fn serve(&mut self, accepted: Accepted, permit: OwnedSemaphorePermit) {
        self.last = (self.last + 1) % self.connections.len();
        if self.connections[self.last].send((accepted, permit)).is_err() {
            log::error!("a worker thread has ended; its connections are lost");
        }
    }

    /// Ends the threads, and waits until they have dropped everything they served with.
    pub(super) async fn end(mut self) {
        drop(self.connections);
        self.ended.recv().await;
    }
}
