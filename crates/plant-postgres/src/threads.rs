//! The threads that talk to PostgreSQL, and how they end.

use std::num::NonZeroUsize;
use std::thread;

use anyhow::Context as _;
use tokio::runtime::{self, Handle, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The most threads that talk to PostgreSQL.
const MOST_THREADS: usize = 4;

/// The runtime of the repository. Dropping it waits for the tasks in `under_way`.
#[derive(Debug)]
pub(super) struct Threads {
    runtime: Option<Runtime>,
    pub(super) handle: Handle,
    /// Canceled when the repository stops taking writes.
    pub(super) closing: CancellationToken,
    /// The tasks that must finish before the runtime ends.
    pub(super) under_way: TaskTracker,
}

impl Threads {
    pub(super) fn start() -> anyhow::Result<Self> {
        let half = thread::available_parallelism().map_or(1, NonZeroUsize::get) / 2;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(half.clamp(1, MOST_THREADS))
            .thread_name("plant-postgres")
            .enable_all()
            .build()
            .context("cannot start the threads that talk to PostgreSQL")?;
        let (closing, under_way) = (CancellationToken::new(), TaskTracker::new());
        let handle = runtime.handle().clone();
        Ok(Self { runtime: Some(runtime), handle, closing, under_way })
    }

    /// Runs a future on these threads.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.handle.spawn(work).await.with_context(|| format!("{what} panicked")).flatten()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.closing.cancel();
        self.under_way.close();
        let (runtime, under_way) = (self.runtime.take(), self.under_way.clone());
        // `block_on` panics on a thread of another runtime, so it runs on a new thread.
        let ending = thread::spawn(move || {
            if let Some(runtime) = runtime {
                runtime.block_on(under_way.wait());
            }
        });
        if ending.join().is_err() {
            log::error!("the threads that talk to PostgreSQL panicked");
        }
    }
}
