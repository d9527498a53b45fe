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

/// The pauses that a receiver can ask for.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Stored as JSON. A later version may add members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// All events up to here are delivered, or were reported as lost; `None` until the webhook has begun.
    pub(super) cursor: Option<EventCursor>,
    /// What is sent next, if that is decided.
    pub(super) pending: Option<Pending>,
    /// The failures since the last success.
    pub(super) failing: Option<Failing>,
    pub(super) last_success: Option<Timestamp>,
    pub(super) last_error: Option<LastError>,
}

/// Deliveries that are decided. Every attempt of one has the same id and the same events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    /// When the oldest event that the receiver lacks happened.
    pub(super) oldest_at: Timestamp,
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
pub(super) struct Failing {
    attempts: u32,
    next_attempt: Timestamp,
    /// Whether the receiver answered 410.
    is_gone: bool,
    /// How often the webhook had been resumed. Another resume ends the pause.
    times_resumed: u32,
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
        match &mut self.pending {
            Some(Pending { what: Deliveries::Events(ends), .. }) if ends.last() != Some(&end) => {
                ends.retain(|it| it.revision > end.revision);
            }
            _ => self.pending = None,
        }
        self.failing = None;
        self.last_success = Some(Timestamp::now());
    }

    /// Notes a failed attempt. Returns how long to wait for the next one.
    pub(super) fn note_failed(
        &mut self,
        message: String,
        retry_after: Option<Duration>,
        is_gone: bool,
        times_resumed: u32,
    ) -> Duration {
        let failures = self.failing.as_ref().map_or(0, |failing| failing.attempts);
        let backoff = Backoff::after(failures, FIRST_PAUSE, LONGEST_PAUSE).pause();
        let asked = retry_after.map(|asked| asked.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX));
        let (pause, at) = (asked.unwrap_or(backoff), Timestamp::now());
        let next_attempt = at.checked_add(pause).unwrap_or(at);
        let attempts = failures.saturating_add(1);
        self.failing = Some(Failing { attempts, next_attempt, is_gone, times_resumed });
        self.last_error = Some(LastError { at, message });
        pause
    }

    /// Whether the receiver has answered 410, and the webhook was not resumed since.
    pub(super) fn is_gone(&self, times_resumed: u32) -> bool {
        let is_gone = |it: &Failing| it.is_gone && it.times_resumed == times_resumed;
        self.failing.as_ref().is_some_and(is_gone)
    }

    /// How long to wait for the next attempt, if the last one failed and the webhook was not resumed since.
    pub(super) fn pause(&self, times_resumed: u32) -> Option<Duration> {
        let failing = self.failing.as_ref().filter(|it| it.times_resumed == times_resumed)?;
        let left = failing.next_attempt.duration_since(Timestamp::now());
        // A longer pause was never decided: the clock was set back.
        Duration::try_from(left).ok().filter(|left| !left.is_zero() && *left <= RETRY_AFTER_MAX)
    }

    /// For how long the oldest event that the receiver lacks has been waiting; `None` until the webhook has begun.
    pub(super) fn lag(&self) -> Option<Duration> {
        let oldest_at = self.pending.as_ref().map(|pending| pending.oldest_at);
        if self.cursor.is_none() && oldest_at.is_none() {
            return None;
        }
        let lag = oldest_at.map(|oldest_at| Timestamp::now().duration_since(oldest_at));
        Some(lag.and_then(|lag| Duration::try_from(lag).ok()).unwrap_or_default())
    }
}
