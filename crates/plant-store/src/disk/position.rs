//! Moments in the history of a store.

use std::time::SystemTime;

use super::event_log::cursor;
use crate::EventCursor;
use crate::event::from_millis;

/// A change in the history of a store, and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The cursor of the event of the change.
    pub cursor: EventCursor,
    /// When the store committed the change; 1970 before the first change.
    pub at: SystemTime,
}

/// The last moment of a history that is to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Before the first change that was made after this time.
    Time(SystemTime),
    /// After the change that has this cursor.
    Cursor(EventCursor),
}

impl Position {
    /// The position of a change in the log of events `event_log`.
    pub(super) fn of(event_log: u32, sequence: u64, at_ms: u64) -> Self {
        Self { cursor: cursor(event_log, sequence, at_ms), at: from_millis(at_ms) }
    }
}
