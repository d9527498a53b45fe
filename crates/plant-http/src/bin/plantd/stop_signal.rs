//! SIGTERM and SIGINT, from the start to the end.

use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Waits for a signal in a thread of its own, for a start keeps the main thread busy.
pub(crate) struct StopSignal {
    /// Held by who decides whether a signal ends a start or drains a server.
    is_starting: Arc<Mutex<bool>>,
    has_come: oneshot::Receiver<()>,
}

impl StopSignal {
    /// From here on a signal ends the process with 0. A start may be cut off anywhere.
    pub(crate) fn while_starting() -> anyhow::Result<Self> {
        let is_starting = Arc::new(Mutex::new(true));
        let (comes, has_come) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.context("cannot start a runtime for signals")?;
        let (mut terminate, mut interrupt) = {
            let _context = runtime.enter();
            (
                signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
                signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?,
            )
        };
        let wait = {
            let is_starting = Arc::clone(&is_starting);
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = terminate.recv() => {}
                        _ = interrupt.recv() => {}
                    }
                });
                let is_starting = is_starting.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_starting {
                    log::info!("stopped by a signal before it was ready");
                    exit(0);
                }
                // The server may have ended by itself.
                let _ = comes.send(());
            }
        };
        thread::Builder::new()
            .name("plantd-signals".to_owned())
            .spawn(wait)
            .context("cannot start a thread that waits for signals")?;
        Ok(Self { is_starting, has_come })
    }

    /// From here on a signal does not end the process: it is what is returned that waits for it.
    pub(crate) fn once_ready(self) -> impl Future<Output = ()> {
        *self.is_starting.lock().unwrap_or_else(PoisonError::into_inner) = false;
        async move {
            // Without the thread no signal would come any more, so that its end is one.
            let _ = self.has_come.await;
        }
    }
}
