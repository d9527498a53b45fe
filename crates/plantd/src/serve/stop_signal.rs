//! The signals of this process, from the start to the end.

use std::fs;
use std::future::poll_fn;
use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::logger;

/// Waits for a signal in its own thread, because the main thread is busy with the start.
pub(crate) struct StopSignal {
    /// Locked while a signal decides whether it ends a start or drains a server.
    is_starting: Arc<Mutex<bool>>,
    has_come: oneshot::Receiver<()>,
}

impl StopSignal {
    /// From here on, a signal ends the process with 0.
    pub(crate) fn while_starting() -> anyhow::Result<Self> {
        let is_starting = Arc::new(Mutex::new(true));
        let (comes, has_come) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.context("cannot start a runtime for signals")?;
        let mut signals = {
            let _context = runtime.enter();
            Signals::new()?
        };
        let wait = {
            let is_starting = Arc::clone(&is_starting);
            async move {
                signals.next().await;
                {
                    let is_starting = is_starting.lock().unwrap_or_else(PoisonError::into_inner);
                    if *is_starting {
                        log::info!("stopped by a signal before it was ready");
                        logger::flush();
                        exit(0);
                    }
                }
                // Fails if the server has ended by itself.
                let _ = comes.send(());
                loop {
                    let name = signals.next().await;
                    log::info!("{name}: the server is draining already; SIGKILL ends it at once");
                }
            }
        };
        thread::Builder::new()
            .name("plantd-signals".to_owned())
            .spawn(move || runtime.block_on(wait))
            .context("cannot start a thread that waits for signals")?;
        Ok(Self { is_starting, has_come })
    }

    /// From here on, a signal does not end the process, but the returned future.
    pub(crate) fn once_ready(self) -> impl Future<Output = ()> {
        *self.is_starting.lock().unwrap_or_else(PoisonError::into_inner) = false;
        async move {
            // Without the thread, no signal could be noticed, so the end of the thread counts as a signal.
            let _ = self.has_come.await;
        }
    }
}

/// The signals that drain the server, with their names.
struct Signals(Vec<(&'static str, Signal)>);

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let signal = |(kind, name)| {
            let signal = signal(kind).with_context(|| format!("cannot wait for {name}"))?;
            anyhow::Ok((name, signal))
        };
        // Scripts send SIGUSR1 and SIGUSR2 to make servers reopen their log; by default, these signals end the process. The
        // handlers stay installed when the streams are dropped, so the signals then do nothing.
        drop(signal((SignalKind::user_defined1(), "SIGUSR1"))?);
        drop(signal((SignalKind::user_defined2(), "SIGUSR2"))?);
        let mut ending =
            vec![(SignalKind::terminate(), "SIGTERM"), (SignalKind::interrupt(), "SIGINT")];
        // A server that is to outlive its terminal ignores SIGHUP.
        if !is_ignored(SignalKind::hangup()) {
            ending.push((SignalKind::hangup(), "SIGHUP"));
        }
        ending.into_iter().map(signal).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Waits for the next one, and names it.
    async fn next(&mut self) -> &'static str {
        poll_fn(|context| {
            let mut signals = self.0.iter_mut();
            let come = signals
                .find_map(|(name, signal)| signal.poll_recv(context).is_ready().then_some(*name));
            come.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Whether this process was started with the signal ignored, as `nohup` does with SIGHUP.
fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}
