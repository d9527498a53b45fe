//! All clients that follow events: how many there may be, and what they share.

use std::sync::Arc;
use std::time::Duration;

use plant_store::metrics::{MetricFamily, counters, gauge};
use prometheus::IntCounterVec;
use prometheus::core::Collector as _;
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

/// Why the server ends the stream of a follower that is still there: the follower has read nothing for too long, an event
/// that it has not read is no longer kept, its token has ended, or the store has failed.
const DROPPED: [&str; 4] = ["stalled", "fell_behind", "token_ended", "failed"];

/// What all followers of a service share.
#[derive(Debug)]
pub(crate) struct Followers {
    places: Arc<Semaphore>,
    most: usize,
    pub(super) newest_text: NewestText,
    dropped: IntCounterVec,
}

impl Followers {
    pub(crate) fn new(most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let dropped = counters(
            "plantd_followers_dropped_total",
            "Event streams that the server ended while the client was connected, by reason.",
            "reason",
            DROPPED,
        );
        let places = Arc::new(Semaphore::new(most));
        Self { places, most, newest_text: NewestText::default(), dropped }
    }

    /// A place for a client, until it is dropped.
    pub(crate) fn join(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            let message = "too many clients follow events; try again later";
            Failure::new(ErrorNumber::Busy, message)
        })
    }

    /// Counts a stream whose client has read nothing for too long.
    pub(super) fn note_stalled(&self) {
        let [stalled, ..] = DROPPED;
        self.dropped.with_label_values(&[stalled]).inc();
    }

    /// Counts a stream that ends for this reason.
    pub(super) fn note_dropped(&self, why: ErrorNumber) {
        let [_, fell_behind, token_ended, failed] = DROPPED;
        let reason = match why {
            ErrorNumber::EventsGone => fell_behind,
            ErrorNumber::InvalidToken => token_ended,
            _ => failed,
        };
        self.dropped.with_label_values(&[reason]).inc();
    }

    pub(crate) fn metrics(&self) -> Vec<MetricFamily> {
        let mut families = self.dropped.collect();
        families.extend([
            gauge("plantd_followers", "How many clients follow events.", self.count() as f64),
            gauge(
                "plantd_followers_max",
                "How many clients may follow events (--max-followers).",
                self.most as f64,
            ),
        ]);
        families
    }

    fn count(&self) -> usize {
        self.most - self.places.available_permits()
    }

    /// How long a stream pauses after a page.
    pub(crate) fn pause(&self) -> Duration {
        let followers = u32::try_from(self.count()).unwrap_or(u32::MAX);
        PAUSE_FOR_EACH.saturating_mul(followers).min(LONGEST_PAUSE)
    }
}
