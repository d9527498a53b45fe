//! The identity of the log of events, and the cursors that name it.

use anyhow::Context as _;
use plant_store::{EventCursor, Revision};
use tokio_postgres::Row;
use xxhash_rust::xxh3::xxh3_64;

/// Identifies a log of events. After the promotion of a standby, the log may lack events that were shown before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogIdentity {
    store: i64,
    /// PostgreSQL's timeline, which changes with each promotion.
    timeline: i64,
}

/// The row of the table `log`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRow {
    pub(super) identity: LogIdentity,
    /// Whether commits wait for a standby, so that a promotion loses nothing that was shown.
    pub(super) is_synchronous: bool,
    /// The last block whose events are forgotten.
    pub(super) forgotten_to: i64,
    /// The cursor after the forgotten events.
    pub(super) forgotten: KnownCursor,
}

impl LogRow {
    pub(super) fn of_rows(rows: &[Row]) -> anyhow::Result<Self> {
        let row = rows.first().context("the row of the log is missing")?;
        let identity =
            LogIdentity { store: row.try_get("store_id")?, timeline: row.try_get("timeline")? };
        let is_synchronous = row.try_get("is_synchronous")?;
        let group_id = row.try_get("forgotten_group")?;
        let names = LogNames::new(identity, is_synchronous, group_id);
        let forgotten = names.cursor(row.try_get("forgotten_revision")?);
        Ok(Self { identity, is_synchronous, forgotten_to: row.try_get("forgotten_to")?, forgotten })
    }

    pub(super) fn names(&self, group_id: Option<&[u8]>) -> LogNames {
        LogNames::new(self.identity, self.is_synchronous, group_id)
    }
}

/// The names of the log in the cursors of one group's events. They depend on the random id of the group, because after
/// a failover that lost the group, another group has its revisions.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogNames {
    /// The name in new cursors.
    current: u64,
    /// The name under the opposite setting of synchronous commits. Accepted, so that cursors survive a change of the
    /// setting.
    other: u64,
}

impl LogNames {
    fn new(identity: LogIdentity, is_synchronous: bool, group_id: Option<&[u8]>) -> Self {
        let LogIdentity { store, timeline } = identity;
        // If a promotion loses nothing, cursors stay valid, so their name omits the timeline.
        let [of_store, of_timeline] = [0, timeline].map(|timeline: i64| {
            let numbers = [store.to_be_bytes(), timeline.to_be_bytes()].concat();
            xxh3_64(&[&numbers, group_id.unwrap_or_default()].concat())
        });
        if is_synchronous {
            Self { current: of_store, other: of_timeline }
        } else {
            Self { current: of_timeline, other: of_store }
        }
    }

    pub(super) fn cursor(self, revision: i64) -> KnownCursor {
        let revision = Revision::from(revision.cast_unsigned());
        KnownCursor { cursor: EventCursor { revision, log: self.current }, other_name: self.other }
    }
}

/// A cursor of this log, with both names.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCursor {
    pub(super) cursor: EventCursor,
    other_name: u64,
}

impl KnownCursor {
    /// Whether a client's cursor is this one, under either name.
    pub(super) fn is(&self, cursor: EventCursor) -> bool {
        cursor == self.cursor || cursor == EventCursor { log: self.other_name, ..self.cursor }
    }
}
