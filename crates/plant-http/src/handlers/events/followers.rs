//! All clients that follow events: how many there may be, and what they share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::errors::{ErrorNumber, Failure};
use crate::handlers::events::event_text::NewestText;

/// How many clients may follow events at once, unless the service is told otherwise.
pub const DEFAULT_MAX_FOLLOWERS: u32 = 1024;

/// After each page a stream pauses this long, times the number of followers. So up to 1,000 followers together get about
/// 1,000 pages a second, and writes keep their share of the processors.
const PAUSE_FOR_EACH: Duration = Duration::from_millis(1);

/// The longest pause. A stream checks its token after the pause, and a revoked token must end the stream within 2 seconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What all followers of a service share.
#[derive(Debug)]
pub(crate) struct Followers {
    places: Arc<Semaphore>,
    most: usize,
    pub(super) newest_text: NewestText,
}

impl Followers {
    pub(crate) fn new(most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(most)), most, newest_text: NewestText::default() }
    }

    /// A place for a client, until it is dropped.
    pub(crate) fn join(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            let message = "too many clients follow events; try again later";
            Failure::new(ErrorNumber::Busy, message)
        })
    }

    /// How long a stream pauses after a page.
    pub(crate) fn pause(&self) -> Duration {
        let followers = self.most - self.places.available_permits();
        let followers = u32::try_from(followers).unwrap_or(u32::MAX);
        PAUSE_FOR_EACH.saturating_mul(followers).min(LONGEST_PAUSE)
    }
}
