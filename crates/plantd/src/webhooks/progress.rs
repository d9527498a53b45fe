//! How far a webhook has come: the content of its checkpoint.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use plant_store::EventCursor;
use serde::{Deserialize, Serialize};

use crate::client::backoff::Backoff;

/// The pause after the first failed attempt, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The longest pause that a receiver can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// All events up to here are delivered, or were reported as lost; `None` until the webhook has begun.
    pub(super) cursor: Option<EventCursor>,
    /// What is sent next, if that is decided.
    pub(super) sending: Option<Sending>,
    /// How many attempts have failed since the last success.
    pub(super) failures: u32,
    /// When the next attempt may be, after a failure.
    pub(super) next_attempt: Option<Timestamp>,
    pub(super) last_success: Option<Timestamp>,
    pub(super) last_error: Option<LastError>,
    /// How often the webhook had been resumed when the receiver answered 410.
    pub(super) gone: Option<u32>,
}

/// Deliveries that are decided. Every attempt of one has the same id and the same events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sending {
    /// When the oldest event that the receiver lacks happened.
    pub(super) since: Timestamp,
    pub(super) what: Deliveries,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Deliveries {
    /// The events after the cursor, up to the last of these cursors. Each delivery ends at one of them.
    Events(Vec<EventCursor>),
    /// The report that events up to this cursor are lost.
    Lost(EventCursor),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastError {
    pub(super) at: Timestamp,
    pub(super) message: String,
}

impl Progress {
    pub(crate) fn decode(content: &[u8]) -> anyhow::Result<Self> {
        if content.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(content).context("its checkpoint cannot be read")
    }

    pub(super) fn encode(&self) -> anyhow::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Notes that everything up to a cursor has been delivered or reported.
    pub(super) fn note_delivered(&mut self, end: EventCursor) {
        self.cursor = Some(end);
        match &mut self.sending {
            Some(Sending { what: Deliveries::Events(ends), .. }) if ends.last() != Some(&end) => {
                ends.retain(|it| it.revision > end.revision);
            }
            _ => self.sending = None,
        }
        (self.failures, self.next_attempt) = (0, None);
        self.last_success = Some(Timestamp::now());
    }

    /// Notes a failed attempt, and decides when the next one may be.
    pub(super) fn note_failed(
        &mut self,
        message: String,
        retry_after: Option<Duration>,
    ) -> Duration {
        let backoff = Backoff::after(self.failures, FIRST_PAUSE, LONGEST_PAUSE).pause();
        let pause = retry_after.map_or(backoff, |asked| asked.min(RETRY_AFTER_MAX));
        let at = Timestamp::now();
        self.failures = self.failures.saturating_add(1);
        self.next_attempt = at.checked_add(pause).ok();
        self.last_error = Some(LastError { at, message });
        pause
    }

    /// How long to wait for the next attempt, if the last one failed.
    pub(super) fn pause(&self) -> Option<Duration> {
        let left = self.next_attempt?.duration_since(Timestamp::now());
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// How long the oldest event that the receiver lacks has been waiting.
    pub(crate) fn lag(&self) -> Duration {
        let since = self.sending.as_ref().map(|sending| sending.since);
        let lag = since.map(|since| Timestamp::now().duration_since(since));
        lag.and_then(|lag| Duration::try_from(lag).ok()).unwrap_or_default()
    }
}
