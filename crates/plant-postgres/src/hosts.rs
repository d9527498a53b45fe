//! Connects to one of several hosts, with a deadline for each, and counts warnings from servers.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Socket};

/// The timeout for the connection to one host and the login. (tokio-postgres limits only the connection.)
pub(super) const HOST_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of warnings from servers. PostgreSQL warns when a wait for a standby is canceled, although it reports the
/// commit as done.
#[derive(Clone, Debug, Default)]
pub(super) struct Warnings(Arc<AtomicU64>);

impl Warnings {
    fn note(&self, message: &AsyncMessage) {
        if let AsyncMessage::Notice(notice) = message {
            log::debug!("PostgreSQL says: {notice}");
            // The warning about a ROLLBACK after the transaction has ended.
            let is_harmless = *notice.code() == SqlState::NO_ACTIVE_SQL_TRANSACTION;
            if notice.parsed_severity() == Some(Severity::Warning) && !is_harmless {
                self.0.fetch_add(1, Ordering::Release);
            }
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Tries hosts in turn, beginning with the one that worked last.
pub(super) struct Hosts<T> {
    each: Vec<Config>,
    last: AtomicUsize,
    tls: T,
    warnings: Warnings,
}

impl<T> Hosts<T> {
    pub(super) fn new(each: Vec<Config>, tls: T, warnings: Warnings) -> Self {
        Self { each, last: AtomicUsize::new(0), tls, warnings }
    }
}

type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl<T> Connect for Hosts<T>
where
    T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
    T::Stream: Sync + Send,
    T::TlsConnect: Sync + Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect(&self, _all: &Config) -> Connecting<'_> {
        Box::pin(async {
            let first = self.last.load(Ordering::Relaxed);
            let mut failed = None;
            for number in (first..self.each.len()).chain(0..first) {
                let connecting = self.each[number].connect(self.tls.clone());
                match timeout(HOST_TIMEOUT, connecting).await {
                    Ok(Ok((client, mut connection))) => {
                        self.last.store(number, Ordering::Relaxed);
                        let warnings = self.warnings.clone();
                        let task = tokio::spawn(async move {
                            // When this loop ends, pending requests fail too.
                            while let Some(Ok(message)) =
                                poll_fn(|context| connection.poll_message(context)).await
                            {
                                warnings.note(&message);
                            }
                        });
                        return Ok((client, task));
                    }
                    Ok(Err(error)) => failed = Some(error),
                    Err(_) => {}
                }
            }
            match failed {
                Some(error) => Err(error),
                // No host has answered, which the pool's timeout reports.
                None => pending().await,
            }
        })
    }
}
