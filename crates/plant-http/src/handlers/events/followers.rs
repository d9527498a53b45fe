//! All clients that follow events: how many there may be, and what they share.

use std::sync::Arc;
use std::time::Duration;

use plant_store::metrics::{MetricFamily, gauge, with_series};
use prometheus::core::Collector as _;
use prometheus::{IntCounter, IntCounterVec, Opts};
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
    dropped: DroppedStreams,
}

/// How many streams the server has ended although the client was connected, by reason.
#[derive(Debug)]
struct DroppedStreams {
    all: IntCounterVec,
    /// The client has read nothing for too long.
    stalled: IntCounter,
    /// An event that the client has not read is no longer kept.
    fell_behind: IntCounter,
    token_ended: IntCounter,
    /// The store has failed.
    failed: IntCounter,
}

impl Default for DroppedStreams {
    fn default() -> Self {
        let all = Opts::new(
            "plantd_followers_dropped_total",
            "Event streams that the server ended while the client was connected, by reason.",
        );
        let reasons = ["stalled", "fell_behind", "token_ended", "failed"];
        let (all, [stalled, fell_behind, token_ended, failed]) =
            with_series(IntCounterVec::new(all, &["reason"]), reasons);
        Self { all, stalled, fell_behind, token_ended, failed }
    }
}

impl Followers {
    pub(crate) fn new(most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let (newest_text, dropped) = (NewestText::default(), DroppedStreams::default());
        Self { places: Arc::new(Semaphore::new(most)), most, newest_text, dropped }
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
        self.dropped.stalled.inc();
    }

    /// Counts a stream that ends for this reason.
    pub(super) fn note_dropped(&self, why: ErrorNumber) {
        let DroppedStreams { fell_behind, token_ended, failed, .. } = &self.dropped;
        match why {
            ErrorNumber::EventsGone => fell_behind.inc(),
            ErrorNumber::InvalidToken => token_ended.inc(),
            _ => failed.inc(),
        }
    }

    pub(crate) fn metrics(&self) -> Vec<MetricFamily> {
        let mut families = self.dropped.all.collect();
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
