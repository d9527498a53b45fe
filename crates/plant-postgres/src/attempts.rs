//! Attempts to carry something out, and what each failure asks for.

use std::time::Instant;

use anyhow::anyhow;
use plant_store::{StoreError, StoreFailure};

use crate::sessions::{PATIENCE, SessionError, pause};

/// The attempts so far.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pauses: u32,
    was_stale: bool,
}

/// What to do after a failed attempt.
pub(super) enum Next {
    /// Try again at once.
    TryAgain,
    /// Try again later, if the cause is temporary: another client, or a lost connection.
    TryLater(SessionError),
    /// PostgreSQL refuses this, for this reason.
    Refused(StoreFailure),
    /// The attempt may have been carried out.
    Unknown(StoreError),
}

impl Attempts {
    pub(super) fn next(&mut self, error: SessionError) -> Next {
        match error {
            SessionError::UnknownOutcome(_) => {
                let failure = StoreFailure::new(anyhow!(error));
                log::error!("{failure}");
                Next::Unknown(failure.into())
            }
            SessionError::StaleStatement(_) if !self.was_stale => {
                self.was_stale = true;
                Next::TryAgain
            }
            SessionError::Refused(said) | SessionError::StaleStatement(said) => {
                Next::Refused(StoreFailure::new(anyhow!(SessionError::Refused(said))))
            }
            error => Next::TryLater(error),
        }
    }

    /// Waits before another attempt. Returns false, without a wait, once [`PATIENCE`] has passed since `since`.
    pub(super) async fn pause(&mut self, since: Instant) -> bool {
        if since.elapsed() > PATIENCE {
            return false;
        }
        pause(self.pauses).await;
        self.pauses += 1;
        true
    }
}
