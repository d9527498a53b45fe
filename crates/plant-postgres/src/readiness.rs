//! Whether writes are taken now.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tokio::time::timeout;

use crate::sessions::SessionError;
use crate::write_health::READY_WITHIN;
use crate::writer::Writer;
use plant_store::StoreFailure;

/// How long what a look has found stays valid.
const LOOK_COUNTS_FOR: Duration = Duration::from_millis(500);

/// Looks whether PostgreSQL takes writes. While all is well, it commits a write that changes nothing. After a write that
/// PostgreSQL did not take, it rehearses one, and so finds out by itself when writes are taken again.
#[derive(Debug)]
pub(super) struct Readiness {
    writer: Writer,
    /// When the last look was, and what it has found.
    last: Option<(Instant, Result<(), StoreFailure>)>,
}

impl Readiness {
    pub(super) const fn new(writer: Writer) -> Self {
        Self { writer, last: None }
    }

    /// Says why writes are not taken, if they are not.
    pub(super) async fn check(&mut self) -> Result<(), StoreFailure> {
        // A write that failed since says more than a look that found nothing wrong.
        let is_outdated =
            |found: &Result<_, _>| found.is_ok() && self.writer.health.no_writes().is_some();
        match &self.last {
            Some((looked, found)) if looked.elapsed() < LOOK_COUNTS_FOR && !is_outdated(found) => {
                found.clone()
            }
            _ => {
                let found = match timeout(READY_WITHIN, self.look()).await {
                    Ok(found) => found,
                    Err(_) => {
                        let seconds = READY_WITHIN.as_secs();
                        let cause = anyhow!("PostgreSQL does not answer: not within {seconds} s");
                        Err(StoreFailure::new(cause))
                    }
                };
                self.last = Some((Instant::now(), found.clone()));
                found
            }
        }
    }

    async fn look(&self) -> Result<(), StoreFailure> {
        let found = match self.look_once().await {
            // The statements are prepared again.
            Err(SessionError::StaleStatement(_)) => self.look_once().await,
            found => found,
        };
        found.map_err(|error| StoreFailure::new(anyhow!(error)))?;
        match self.writer.health.no_writes() {
            Some((false, cause)) => Err(cause),
            Some((true, _)) => {
                self.writer.health.note_rehearsed();
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn look_once(&self) -> Result<(), SessionError> {
        match self.writer.health.no_writes() {
            None => self.writer.write_nothing().await,
            Some(_) => self.writer.rehearse(&BTreeSet::new()).await,
        }
    }
}
