//! The threads that serve connections.

use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::thread;

use actix_service::{Service, ServiceFactory};
use actix_web::rt;
use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::server::transport::Incoming;

/// How many threads all of them may have together for what blocks.
const BLOCKING_THREADS: usize = 512;

/// A connection on its way to its thread.
pub(crate) struct Accepted {
    pub(crate) incoming: Incoming,
    /// Given back when the connection is gone.
    pub(crate) permit: OwnedSemaphorePermit,
}

/// A thread for each processor. When this is dropped they end, and with them what they are doing.
pub(crate) struct Workers {
    connections: Vec<mpsc::UnboundedSender<Accepted>>,
    /// Ready when a thread has ended and holds nothing any more of what it served with. A thread that is
    /// joined could be waited for only by another one.
    ended: Vec<oneshot::Receiver<Infallible>>,
    /// Whose turn the next connection is.
    next: usize,
}

impl Workers {
    /// Starts them. Each makes a service of its own by `make`.
    pub(crate) async fn start<Factory>(
        make: impl Fn() -> Factory + Clone + Send + 'static,
    ) -> io::Result<Self>
    where
        Factory: ServiceFactory<Incoming, Config = ()> + 'static,
    {
        let count = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let mut workers = Self { connections: Vec::new(), ended: Vec::new(), next: 0 };
        for number in 0..count {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads((BLOCKING_THREADS / count).max(1))
                .build()?;
            let (connections, accepted) = mpsc::unbounded_channel();
            let (started, has_started) = oneshot::channel();
            let (ends, ended) = oneshot::channel();
            let make = make.clone();
            let work = async move || match make().new_service(()).await {
                Ok(service) => {
                    // Nobody waits for it where another thread could not be started.
                    let _ = started.send(());
                    serve_all(Rc::new(service), accepted).await;
                }
                Err(_) => drop(started),
            };
            thread::Builder::new().name(format!("plant-http-{number}")).spawn(move || {
                // It goes last, also when there is a panic.
                let _ends = ends;
                rt::Runtime::from(runtime).block_on(work());
            })?;
            workers.ended.push(ended);
            has_started.await.map_err(|_| io::Error::other("the service cannot be made"))?;
            workers.connections.push(connections);
        }
        Ok(workers)
    }

    /// Gives a connection to the thread whose turn it is.
    pub(crate) fn serve(&mut self, accepted: Accepted) {
        self.next = (self.next + 1) % self.connections.len();
        if self.connections[self.next].send(accepted).is_err() {
            log::error!("a thread that serves connections has ended");
        }
    }

    /// Ends the threads, and waits until they hold nothing any more of what they served with.
    pub(crate) async fn end(self) {
        drop(self.connections);
        join_all(self.ended).await;
    }
}

async fn serve_all<S: Service<Incoming> + 'static>(
    service: Rc<S>,
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
) {
    while let Some(Accepted { incoming, permit }) = accepted.recv().await {
        let service = Rc::clone(&service);
        rt::spawn(async move {
            // How a connection ends is told where it is served.
            let _ = service.call(incoming).await;
            drop(permit);
        });
    }
}
