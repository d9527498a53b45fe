//! Reads of events, and which of them are kept.

mod history;
pub(crate) mod record;

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};

use self::record::EventRecord;
use crate::event::to_millis;
use crate::sled::commit::change::Totals;
use crate::sled::compaction::merge::{Merge, Tables};
use crate::sled::keys::{self, EventKey};
use crate::sled::tables::Map;
use crate::sled::tree::MergeTree;
use crate::{
    Event, EventCursor, EventPage, EventRetention, EventsAfter, KEEP_EVENTS_FOR_MAX_EVENTS,
    Revision,
};

#[derive(Clone, Debug)]
pub(crate) struct EventLog {
    pub(crate) tree: Arc<MergeTree>,
    /// The random name of the log, part of each cursor.
    pub(crate) id: u32,
    pub(crate) retention: EventRetention,
}

impl EventLog {
    pub(crate) fn newest(&self) -> EventCursor {
        let Totals { last_sequence, last_at_ms, .. } = self.tree.read().totals;
        self.cursor(last_sequence, last_at_ms)
    }

    fn cursor(&self, sequence: u64, at_ms: u64) -> EventCursor {
        cursor(self.id, sequence, at_ms)
    }

    /// Whether this log gave out the cursor. False also if its event is forgotten, because its time is then unknown.
    fn was_given_out(&self, cursor: EventCursor, totals: &Totals) -> anyhow::Result<bool> {
        let sequence = cursor.revision.get();
        // A cursor before the first event of a log has the time 0.
        let is_begin = sequence + 1 == totals.stored_from;
        let at_ms = if sequence == totals.last_sequence {
            Some(totals.last_at_ms)
        } else {
            let event = self.tree.event(sequence)?;
            event.map(|event| event.core.at_ms).or(is_begin.then_some(0))
        };
        Ok(at_ms.is_some_and(|at_ms| cursor == self.cursor(sequence, at_ms)))
    }

    /// Whether the page after this cursor can be read without the disk: its events and the cursor's own are in memory.
    pub(crate) fn is_in_memory(&self, after: EventsAfter) -> bool {
        let EventsAfter::Cursor(cursor) = after else { return false };
        let (sequence, levels) = (cursor.revision.get(), self.tree.read());
        let is_there =
            sequence >= levels.first_sequence() || sequence == levels.totals.last_sequence;
        is_there && sequence.saturating_add(1) >= self.first_kept_by_count(&levels.totals)
    }

    /// The next page; `None` if some events after the position are gone.
    pub(crate) fn page(
        &self,
        after: EventsAfter,
        limit: usize,
    ) -> anyhow::Result<Option<EventPage>> {
        match after {
            EventsAfter::Cursor(cursor) => {
                let totals = self.tree.read().totals;
                let first = cursor.revision.get().saturating_add(1);
                let is_kept = first >= self.first_kept_by_count(&totals)
                    || first >= self.kept_from(&totals, SystemTime::now())?;
                let is_ahead = first > totals.last_sequence + 1;
                if is_ahead || !is_kept || !self.was_given_out(cursor, &totals)? {
                    return Ok(None);
                }
                self.page_from(first, cursor, limit)
            }
            EventsAfter::Oldest => loop {
                let totals = self.tree.read().totals;
                let first = self.kept_from(&totals, SystemTime::now())?;
                // An empty page is at the end of the log.
                let end = self.cursor(totals.last_sequence, totals.last_at_ms);
                if let Some(page) = self.page_from(first, end, limit)? {
                    return Ok(Some(page));
                }
            },
        }
    }

    /// The events from a sequence number on; `None` if compaction has dropped that event. `begin` is the position
    /// before them.
    pub(crate) fn page_from(
        &self,
        first: u64,
        begin: EventCursor,
        limit: usize,
    ) -> anyhow::Result<Option<EventPage>> {
        let (totals, tables, in_tables, in_memory) = {
            let levels = self.tree.read();
            let from = levels.first_sequence();
            let of_page = (first.max(from)..=levels.totals.last_sequence).take(limit);
            let in_memory = of_page.map_while(|sequence| levels.event(sequence).cloned());
            let in_memory: Vec<_> = in_memory.collect();
            (levels.totals, Arc::clone(&levels.tables), first..from, in_memory)
        };
        if first < totals.stored_from {
            return Ok(None);
        }
        let mut events = events_in(&tables, in_tables, limit)?;
        events.extend(in_memory);
        events.truncate(limit);
        let event = |(sequence, event): (u64, EventRecord)| Event {
            cursor: self.cursor(sequence, event.core.at_ms),
            kind: event.core.kind,
            id: event.id(),
            at: event.at(),
            by: event.by,
        };
        let events: Vec<Event> = (first..=u64::MAX).zip(events).map(event).collect();
        let next = events.last().map_or(begin, |event| event.cursor);
        Ok(Some(EventPage { events, next }))
    }

    /// The first event that is kept for the number of events.
    fn first_kept_by_count(&self, totals: &Totals) -> u64 {
        (totals.last_sequence + 1).saturating_sub(self.retention.events).max(totals.stored_from)
    }

    /// The first event that compaction must store: the one before those that are kept. Its time tells its cursor from
    /// one that was lost with a newer copy of the folder.
    pub(crate) fn stored_from(&self, totals: &Totals, now: SystemTime) -> anyhow::Result<u64> {
        Ok((self.kept_from(totals, now)? - 1).max(totals.stored_from))
    }

    /// The first event that is kept. Finds the age limit by binary search, so after the clock was set back, more or
    /// fewer events may be kept for their age.
    fn kept_from(&self, totals: &Totals, now: SystemTime) -> anyhow::Result<u64> {
        let by_count = self.first_kept_by_count(totals);
        if self.retention.age.is_zero() {
            return Ok(by_count);
        }
        let oldest_ms = now.checked_sub(self.retention.age).map_or(0, to_millis);
        let most = (totals.last_sequence + 1).saturating_sub(KEEP_EVENTS_FOR_MAX_EVENTS);
        let (mut low, mut high) = (most.max(totals.stored_from), by_count);
        while low < high {
            let middle = low.midpoint(high);
            // An event that was forgotten since `totals` were read is too old.
            let is_young = |event: EventRecord| event.core.at_ms >= oldest_ms;
            if self.tree.event(middle)?.is_some_and(is_young) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(high)
    }
}

/// The cursor of an event of the log `id`. Its `log` also has the time of the event, because in a folder that was
/// replaced by an older copy, the same sequence number comes again at another time.
pub(crate) fn cursor(id: u32, sequence: u64, at_ms: u64) -> EventCursor {
    let log = (u64::from(id) << 32) | (at_ms & u64::from(u32::MAX));
    EventCursor { revision: Revision::from(sequence), log }
}

/// The first events of a range of sequence numbers. The whole range must be in the tables.
fn events_in(
    tables: &Tables,
    sequences: Range<u64>,
    limit: usize,
) -> anyhow::Result<Vec<EventRecord>> {
    if sequences.is_empty() {
        return Ok(Vec::new());
    }
    let mut entries = Merge::new(tables, Map::Events, &keys::event_key(sequences.start));
    let read = |sequence| {
        let entry = entries.next().context("cannot read the events")?;
        let (key, value) = entry.context("the newest events are missing")?;
        ensure!(EventKey::of(key)? == EventKey::Event(sequence), "event {sequence} is missing");
        EventRecord::decode(value.unwrap_or_default())
    };
    sequences.take(limit).map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plant_domain::PlantId;

    use super::*;
    use crate::EventKind;
    use crate::event::from_millis;
    use crate::record::PlantRecord;
    use crate::sled::commit::change::{Change, ChangeGroup, Origin};

    const AGE: Duration = Duration::from_secs(60);

    /// A log with one event for each of these times, in seconds since 1970.
    fn log_of(seconds: impl Iterator<Item = u64>, retention: EventRetention) -> EventLog {
        let tree = Arc::new(MergeTree::new([].into(), Totals::default()));
        for second in seconds {
            let mut group = ChangeGroup::after(&tree.read().totals, 1);
            group.at_ms = second * 1000;
            let revision = group.first_sequence;
            let record = PlantRecord::named("Rosa", revision);
            let record = record.encode().expect("encodes");
            let id = PlantId::from(revision.cast_signed());
            let created = EventKind::Created;
            let change = Change::new(created, id, Origin::default(), None, Some(record));
            group.changes.push(change);
            tree.apply(&group).expect("it follows");
        }
        EventLog { tree, id: 7, retention }
    }

    #[test]
    fn events_are_kept_for_their_number_or_their_age_whichever_keeps_more() {
        // Event n is from second n.
        let kept_from = |events, age, now: u64| {
            let log = log_of(1..=1000, EventRetention::new(events, age));
            let totals = log.tree.read().totals;
            log.kept_from(&totals, from_millis(now * 1000)).expect("reads")
        };
        assert_eq!(kept_from(10, Duration::ZERO, 1000), 991);
        assert_eq!(kept_from(10, AGE, 1000), 940);
        assert_eq!(kept_from(10, AGE, 1040), 980);
        assert_eq!(kept_from(10, AGE, 1070), 991);
        assert_eq!(kept_from(0, AGE, 1061), 1001);
        assert_eq!(kept_from(2000, AGE, 1000), 1);
        assert_eq!(kept_from(10, Duration::MAX, 1000), 1);
        // The clock was set back.
        assert_eq!(kept_from(10, AGE, 0), 1);
    }
}
