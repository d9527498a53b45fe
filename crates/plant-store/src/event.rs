//! Events: what happened to plants. Cursors: how far a reader of events has come.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plant_domain::PlantId;
use serde::{Deserialize, Serialize};

use crate::{Author, Revision};

/// The default of [`EventRetention::events`].
pub const DEFAULT_KEEP_EVENTS: u64 = 1_000_000;

/// The default of [`EventRetention::age`]: an hour.
pub const DEFAULT_KEEP_EVENTS_FOR: Duration = Duration::from_secs(3600);

/// The most events that are kept for their age.
pub const KEEP_EVENTS_FOR_MAX_EVENTS: u64 = 10_000_000;

/// One change to one plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The position of a reader that has read up to this event.
    pub cursor: EventCursor,
    /// What happened.
    pub kind: EventKind,
    /// The plant that it happened to.
    pub id: PlantId,
    /// When the store committed the change, in whole milliseconds of its clock. All events of one commit have the same
    /// time. If the clock is set back, later events have earlier times.
    pub at: SystemTime,
    /// The author of the change, if that is known.
    pub by: Option<Author>,
}

impl Event {
    /// The revision of the plant after the event. A deletion has a revision of its own too.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.cursor.revision
    }
}

/// What happened to a plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// The plant was created.
    Created,
    /// The name or the tag changed.
    Updated,
    /// The plant was deleted.
    Deleted,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Created, Self::Updated, Self::Deleted];

    /// The name of the kind, as clients see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

/// The position of a reader in a log of events, after all events up to a revision. As text: the revision in decimal,
/// then the log in hexadecimal, such as `2048-9f3a1c`. Clients do not interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct EventCursor {
    /// The revision of the last event that the reader has; [`Revision::BEFORE_ALL`] before the first one.
    pub revision: Revision,
    /// Names the log of the revision. In another log, the same revision is another change.
    pub log: u64,
}

impl fmt::Display for EventCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{:x}", self.revision, self.log)
    }
}

/// The text is not an [`EventCursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cursor is two numbers, such as 2048-9f3a1c; send back one that the server gave you, unchanged"
)]
pub struct NotACursor;

impl FromStr for EventCursor {
    type Err = NotACursor;

    /// Accepts only the form that `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (revision, log) = text.split_once('-').ok_or(NotACursor)?;
        let revision: u64 = revision.parse().map_err(|_| NotACursor)?;
        let log = u64::from_str_radix(log, 16).map_err(|_| NotACursor)?;
        let cursor = Self { revision: Revision::from(revision), log };
        if cursor.to_string() == text { Ok(cursor) } else { Err(NotACursor) }
    }
}

impl From<EventCursor> for String {
    fn from(cursor: EventCursor) -> Self {
        cursor.to_string()
    }
}

impl TryFrom<String> for EventCursor {
    type Error = NotACursor;

    fn try_from(text: String) -> Result<Self, NotACursor> {
        text.parse()
    }
}

/// Where a page of events begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsAfter {
    /// With the oldest event that is kept.
    Oldest,
    /// With the first event after a cursor.
    Cursor(EventCursor),
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The next events, oldest first; empty if nothing has happened since.
    pub events: Vec<Event>,
    /// The position after this page.
    pub next: EventCursor,
}

/// How many events are kept: the more generous of the two limits counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRetention {
    /// This many of the newest events.
    pub events: u64,
    /// Every event that is younger than this, but at most [`KEEP_EVENTS_FOR_MAX_EVENTS`] events.
    pub age: Duration,
}

impl EventRetention {
    /// Keeps this many events, and all that are younger than `age`.
    #[must_use]
    pub const fn new(events: u64, age: Duration) -> Self {
        Self { events, age }
    }
}

impl Default for EventRetention {
    fn default() -> Self {
        Self::new(DEFAULT_KEEP_EVENTS, DEFAULT_KEEP_EVENTS_FOR)
    }
}

/// The latest time that is stored: 9999-12-30T22:00:00.999Z in milliseconds since 1970. RFC 3339 can write this time
/// with any offset.
pub(crate) const MAX_AT_MS: u64 = 253_402_207_200_999;

/// Milliseconds since 1970 in UTC, clamped to 0 and [`MAX_AT_MS`]. Only a wrong clock shows a time outside of that
/// range.
pub(crate) fn to_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(MAX_AT_MS).min(MAX_AT_MS)
}

/// The inverse of [`to_millis`].
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_displayed_form_of_a_cursor_is_accepted() {
        let cursor = EventCursor { revision: Revision::from(2048), log: 0x9f_3a1c };
        assert_eq!("2048-9f3a1c".parse(), Ok(cursor));
        assert_eq!(cursor.to_string(), "2048-9f3a1c");
        let texts = "/-/2048/2048-/-9f3a1c/2048-9F3A1C/2048-09f3a1c/02048-9f3a1c/+2048-9f3a1c/2048-+9f3a1c/\
             2048-9f3a1c-/ 2048-9f3a1c/2048-9f3a1g/18446744073709551616-1/1-10000000000000000/now";
        for text in texts.split('/') {
            assert_eq!(text.parse::<EventCursor>(), Err(NotACursor), "{text}");
        }
    }
}
