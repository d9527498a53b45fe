//! Moments in the history of a store.

use std::time::SystemTime;

use crate::EventCursor;
use crate::event::from_millis;
use crate::sled::commit::change::Totals;
use crate::sled::events::cursor;

/// A change in the history of a store, and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The cursor of the change's event.
    pub cursor: EventCursor,
    /// When the store committed the change; 1970 before the first change.
    pub at: SystemTime,
}

/// The last moment of a history to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Before the first change that was made after this time.
    Time(SystemTime),
    /// After the change with this cursor.
    Cursor(EventCursor),
}

impl Position {
    /// The newest change of the log `event_log` with these `totals`.
    pub(crate) fn newest(event_log: u32, totals: &Totals) -> Self {
        let Totals { last_sequence, last_at_ms, .. } = *totals;
        Self { cursor: cursor(event_log, last_sequence, last_at_ms), at: from_millis(last_at_ms) }
    }
}
