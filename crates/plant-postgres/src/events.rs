//! Reads of events. A block has the events of one group, and is one row. Blocks are numbered without gaps. A missing
//! number belongs to a group that may still commit, so readers stop there until the block appears or is sealed. A
//! sealed block can never be committed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use plant_domain::PlantId;
use plant_store::{Author, Event, EventCursor, EventPage, EventsAfter, Revision};
use tokio_postgres::Row;

use crate::event_log::{KnownCursor, LogIdentity, LogRow};
use crate::reader::PostgresReader;
use crate::sessions::pause;
use crate::statements::{
    EVENTS_FROM, EVENTS_IN_A_BLOCK, KEPT_EVENTS, LOG, NEWEST_BLOCK, NEWEST_EVENT, NOW_MS,
    SEAL_BLOCKS, kind_of,
};
use crate::transaction::{LATE_COMMIT_PATIENCE, wait_for_standby};

/// How many blocks of events are read at a time.
pub(super) const BLOCKS_AT_ONCE: usize = 32;

/// How many blocks are sealed at a time.
const MOST_SEALED: i64 = 1024;

/// The most times that one read of events seals blocks. After that, it returns no events, and the caller asks again.
const MOST_SEALS: u32 = 8;

/// Reads events, for pages from any position and for the [`EventTail`](crate::tail::EventTail).
#[derive(Debug)]
pub(super) struct EventReader {
    pub(super) reader: PostgresReader,
    /// A block before the first gap of a log, where the next search for a gap begins.
    before_gap: Mutex<Option<(LogIdentity, i64)>>,
    /// The last block of a log up to which the standby has all visible blocks.
    durable_to: Mutex<Option<(LogIdentity, i64)>>,
}

impl EventReader {
    pub(super) fn new(reader: PostgresReader) -> Self {
        Self { reader, before_gap: Mutex::default(), durable_to: Mutex::default() }
    }

    pub(super) async fn kept_events(&self) -> anyhow::Result<i64> {
        self.reader.number("how many events there are", KEPT_EVENTS).await
    }

    pub(super) async fn now_ms(&self) -> anyhow::Result<i64> {
        self.reader.number("the time", NOW_MS).await
    }

    /// The next page; `None` if some events after the cursor are gone.
    pub(super) async fn page(
        &self,
        after: EventsAfter,
        limit: usize,
    ) -> anyhow::Result<Option<EventPage>> {
        loop {
            let page = self.try_page(after, limit).await?;
            if page.is_some() || after != EventsAfter::Oldest {
                return Ok(page);
            }
            // The oldest events were forgotten meanwhile. The page begins with those that are the oldest now.
        }
    }

    /// Like [`Self::page`], but `None` also if events were forgotten during the read.
    async fn try_page(
        &self,
        after: EventsAfter,
        limit: usize,
    ) -> anyhow::Result<Option<EventPage>> {
        let block = match after {
            EventsAfter::Oldest => 0,
            EventsAfter::Cursor(cursor) => block_of(cursor.revision),
        };
        let mut found = self.blocks_from(block).await?;
        let Some(begin) = found.cursor_of(after) else { return Ok(None) };
        let (mut events, mut gap, mut seals) = (Vec::new(), None, 0);
        loop {
            if begin.revision < found.log.forgotten.cursor.revision {
                return Ok(None);
            }
            if let Some(block) = found.blocks.last() {
                self.make_durable(&found.log, block.number).await?;
            }
            let FoundBlocks { blocks, next, last, .. } = found;
            let found_events = blocks.into_iter().flat_map(|block| block.events);
            events.extend(found_events.filter(|event: &Event| event.revision() > begin.revision));
            match last {
                None => break,
                Some(last) if last < next => {}
                // The next block is missing. Returns the events before it.
                Some(_) if !events.is_empty() => break,
                Some(_) => seals += u32::from(self.close_gap(next, &mut gap).await?),
            }
            if events.len() >= limit || seals == MOST_SEALS {
                break;
            }
            found = self.blocks_from(next).await?;
        }
        events.truncate(limit);
        let next = events.last().map_or(begin, |event| event.cursor);
        Ok(Some(EventPage { events, next }))
    }

    /// The newest event before the first gap, and the block before that gap.
    pub(super) async fn newest(&self) -> anyhow::Result<Newest> {
        let known = *self.before_gap.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest = self.newest_from(known.map_or(0, |(_, block)| block)).await?;
        if known.is_some_and(|(identity, _)| identity != newest.log.identity) {
            // Another log may have gaps before the known block.
            newest = self.newest_from(0).await?;
        }
        let known = Some((newest.log.identity, newest.block));
        *self.before_gap.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(newest)
    }

    async fn newest_from(&self, block: i64) -> anyhow::Result<Newest> {
        let rows = self.reader.rows("the newest event", NEWEST_EVENT, &[&block]).await?;
        let log = LogRow::of_rows(&rows)?;
        let row = rows.first().context("the row of the log is missing")?;
        let block = row.try_get("block")?;
        let revision: Option<i64> = row.try_get("revision")?;
        let group: Option<&[u8]> = row.try_get("group_id")?;
        let newest = revision.map(|revision| log.names(group).cursor(revision));
        let KnownCursor { cursor, .. } = newest.unwrap_or(log.forgotten);
        Ok(Newest { log, block, cursor })
    }

    /// Reads blocks from a number on, up to the first gap. Skips forgotten blocks.
    pub(super) async fn blocks_from(&self, from: i64) -> anyhow::Result<FoundBlocks> {
        let most = i64::try_from(BLOCKS_AT_ONCE)?;
        let rows = self.reader.rows("events", EVENTS_FROM, &[&from, &most]).await?;
        let log = LogRow::of_rows(&rows)?;
        let next = from.max(log.forgotten_to + 1);
        let mut found = FoundBlocks { log, blocks: Vec::new(), next, last: None };
        for row in &rows {
            // Without any block, the only row is that of the log.
            let Some(number) = row.try_get("block")? else { break };
            found.last = Some(number);
            if number == found.next {
                found.next += 1;
                found.blocks.push(EventBlock::of_row(row, number, &log)?);
            }
            // Otherwise, the block comes after a gap.
        }
        Ok(found)
    }

    /// Gives missing blocks, the first of which is `first`, some time for late commits, and then seals them. Returns
    /// whether it has sealed any. The caller repeats this, with the same `gap`, while blocks are missing.
    pub(super) async fn close_gap(
        &self,
        first: i64,
        gap: &mut Option<Gap>,
    ) -> anyhow::Result<bool> {
        let gap = match gap {
            Some(gap) if first <= gap.newest => gap,
            _ => gap.insert(Gap {
                since: Instant::now(),
                newest: self.reader.number("the newest event", NEWEST_BLOCK).await?,
                tries: 0,
            }),
        };
        if gap.since.elapsed() < LATE_COMMIT_PATIENCE {
            pause(gap.tries).await;
            gap.tries += 1;
            return Ok(false);
        }
        // This waits for commits in progress. A group that tries to commit a sealed block must begin again, with a
        // later block.
        let last = gap.newest.min(first + MOST_SEALED - 1);
        self.reader.rows("events", SEAL_BLOCKS, &[&first, &last]).await?;
        Ok(true)
    }

    /// Ensures that a failover to a synchronous standby loses no block up to this one, which was visible in this log. A
    /// commit becomes visible too early if its session ends while it waits for the standby.
    pub(super) async fn make_durable(&self, log: &LogRow, block: i64) -> anyhow::Result<()> {
        if self.is_durable(log, block) {
            return Ok(());
        }
        let waited_in = self.make_all_durable().await?;
        ensure!(waited_in == log.identity, "a standby was promoted since the events were read");
        Ok(())
    }

    /// Ensures that a failover to a synchronous standby loses nothing that is visible in the current log, and returns
    /// the identity of that log. What was read from another log may be lost already.
    async fn make_all_durable(&self) -> anyhow::Result<LogIdentity> {
        let newest = self.newest().await?;
        let session = self.reader.sessions.get().await?;
        // A session never moves to another server, so both statements reach the same one.
        let log = LogRow::of_rows(&session.rows(LOG, &[]).await?)?;
        if log.is_synchronous {
            wait_for_standby(&session).await.context("cannot wait for the standby")?;
            if log.identity == newest.log.identity {
                self.note_durable(&log, newest.block);
            }
        }
        Ok(log.identity)
    }

    /// Like [`Self::make_all_durable`], but fails if a standby was promoted since this program last looked at the log,
    /// because reads from the old primary may be lost.
    pub(super) async fn make_reads_durable(&self) -> anyhow::Result<()> {
        let known = *self.before_gap.lock().unwrap_or_else(PoisonError::into_inner);
        let waited_in = self.make_all_durable().await?;
        let is_same = known.is_none_or(|(identity, _)| identity == waited_in);
        ensure!(is_same, "a standby was promoted since the plants were read");
        Ok(())
    }

    /// Notes that the standby has the blocks of this log up to this one.
    pub(super) fn note_durable(&self, log: &LogRow, block: i64) {
        let mut known = self.durable_to.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *known {
            Some((identity, to)) if *identity == log.identity => *to = block.max(*to),
            _ => *known = Some((log.identity, block)),
        }
    }

    /// Whether a failover is known to lose no block up to this one. Without a synchronous standby, there is nothing to
    /// wait for.
    pub(super) fn is_durable(&self, log: &LogRow, block: i64) -> bool {
        let mut known = self.durable_to.lock().unwrap_or_else(PoisonError::into_inner);
        if !log.is_synchronous {
            // Commits from now on reach no standby.
            *known = None;
            return true;
        }
        known.is_some_and(|(identity, to)| identity == log.identity && block <= to)
    }
}

fn block_of(revision: Revision) -> i64 {
    revision.get().cast_signed().max(0) / EVENTS_IN_A_BLOCK
}

/// The time in the row of a block.
pub(super) fn time_of(at_ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at_ms).unwrap_or(0))
}

/// The newest event before the first gap.
pub(super) struct Newest {
    pub(super) log: LogRow,
    /// The block before the gap.
    pub(super) block: i64,
    pub(super) cursor: EventCursor,
}

/// Blocks of events with consecutive numbers.
pub(super) struct FoundBlocks {
    pub(super) log: LogRow,
    pub(super) blocks: Vec<EventBlock>,
    /// The number of the block after these.
    pub(super) next: i64,
    /// The last block that was looked at. A number of `next` or more lies after a gap.
    pub(super) last: Option<i64>,
}

impl FoundBlocks {
    /// Removes the first block if it has this number. Returns whether it had.
    pub(super) fn take_first(&mut self, number: i64) -> bool {
        let is_first = self.blocks.first().is_some_and(|block| block.number == number);
        if is_first {
            self.blocks.remove(0);
        }
        is_first
    }

    /// The cursor in its current form; `None` if it is not of this log. The first block must be the one of the cursor.
    fn cursor_of(&self, after: EventsAfter) -> Option<EventCursor> {
        let forgotten = self.log.forgotten;
        let EventsAfter::Cursor(cursor) = after else { return Some(forgotten.cursor) };
        let first = self.blocks.first().into_iter();
        let known = first.flat_map(|block| block.cursors(&self.log));
        known.chain([forgotten]).find(|known| known.is(cursor)).map(|known| known.cursor)
    }
}

/// Missing blocks that a reader has found.
#[derive(Debug)]
pub(super) struct Gap {
    since: Instant,
    /// The newest block at that time. All missing blocks up to it get the same time for their commits.
    newest: i64,
    tries: u32,
}

/// The events of one group; none if the block is sealed or skipped.
pub(super) struct EventBlock {
    pub(super) number: i64,
    pub(super) group_id: Option<Vec<u8>>,
    pub(super) at_ms: i64,
    pub(super) events: Vec<Event>,
}

impl EventBlock {
    fn cursors(&self, log: &LogRow) -> impl Iterator<Item = KnownCursor> {
        let names = log.names(self.group_id.as_deref());
        let revisions = self.events.iter().map(|event| event.revision().get());
        revisions.map(move |revision| names.cursor(revision.cast_signed()))
    }

    fn of_row(row: &Row, number: i64, log: &LogRow) -> anyhow::Result<Self> {
        let group_id: Option<Vec<u8>> = row.try_get("group_id")?;
        let at_ms: i64 = row.try_get("at_ms")?;
        let revisions: Vec<i64> = row.try_get("revisions")?;
        let kinds: Vec<i16> = row.try_get("kinds")?;
        let ids: Vec<i64> = row.try_get("ids")?;
        let authors: Option<Vec<Option<&str>>> = row.try_get("authors")?;
        let authors = authors.unwrap_or_else(|| vec![None; ids.len()]);
        ensure!(
            [kinds.len(), ids.len(), authors.len()] == [revisions.len(); 3],
            "block {number} of the events is damaged"
        );
        let at = time_of(at_ms);
        let events = revisions.into_iter().zip(kinds).zip(ids).zip(authors);
        let names = log.names(group_id.as_deref());
        let events = events.map(|(((revision, kind), id), by)| {
            let KnownCursor { cursor, .. } = names.cursor(revision);
            let by = by.map(Author::new).transpose()?;
            Ok(Event { cursor, kind: kind_of(kind)?, id: PlantId::from(id), at, by })
        });
        let events = events.collect::<anyhow::Result<_>>()?;
        Ok(Self { number, group_id, at_ms, events })
    }
}
