//! The tail of the log of events: one reader for all followers.
//!
//! While there are followers, the tail reads the newest blocks soon after each commit of this program, and otherwise
//! several times a second. It keeps the newest events in memory, so a follower that keeps up costs PostgreSQL nothing.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plant_store::{Event, EventCursor, EventPage};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::event_log::LogIdentity;
use crate::events::{BLOCKS_AT_ONCE, EventReader, FoundBlocks, Gap};
use crate::sessions::pause;

/// How long the tail waits for a commit of this program before it looks for commits of others.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The pause after each look, which limits the cost of looks under many commits.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// How long the tail reads on while no follower waits: a follower that is sending a page does not wait.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// How many of the newest events are kept in memory.
const RECENT_EVENTS: usize = 16_384;

#[derive(Debug)]
pub(super) struct EventTail {
    reader: Arc<EventReader>,
    recent: Mutex<Recent>,
    /// Blocks that this program has committed and the tail has not read.
    own: Mutex<BTreeSet<i64>>,
    progress: watch::Sender<Progress>,
    /// Wakes the tail when a follower begins to wait, or when this program has committed.
    news: Notify,
    is_reading: AtomicBool,
}

/// The newest events, oldest first.
#[derive(Debug, Default)]
struct Recent {
    /// The cursor just before the first of `events`; `None` until the tail has begun.
    start: Option<EventCursor>,
    events: VecDeque<Event>,
}

impl Recent {
    fn end(&self) -> Option<EventCursor> {
        self.events.back().map(|event| event.cursor).or(self.start)
    }

    fn push(&mut self, events: impl Iterator<Item = Event>) {
        self.events.extend(events);
        let excess = self.events.len().saturating_sub(RECENT_EVENTS);
        if let Some(last) = self.events.drain(..excess).next_back() {
            self.start = Some(last.cursor);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// How often the tail has looked for new blocks.
    looks: u64,
    /// The last event that the tail has found.
    end: Option<EventCursor>,
    /// Whether a follower began to wait after the last look, so that one more look must be reported.
    was_joined: bool,
}

struct LastRead {
    identity: LogIdentity,
    block: i64,
}

impl EventTail {
    pub(super) fn new(reader: Arc<EventReader>) -> Self {
        Self {
            reader,
            recent: Mutex::default(),
            own: Mutex::default(),
            progress: watch::Sender::default(),
            news: Notify::new(),
            is_reading: AtomicBool::new(false),
        }
    }

    /// The next events from memory; `None` if there are none, or if memory does not have the cursor.
    pub(super) fn page(&self, cursor: EventCursor, limit: usize) -> Option<EventPage> {
        let recent = self.recent();
        let begin = recent.events.partition_point(|event| event.revision() <= cursor.revision);
        let before = begin
            .checked_sub(1)
            .map_or(recent.start, |last| recent.events.get(last).map(|event| event.cursor));
        if before != Some(cursor) || begin == recent.events.len() {
            return None;
        }
        let events: Vec<Event> = recent.events.range(begin..).take(limit).cloned().collect();
        let next = events.last().map_or(cursor, |event| event.cursor);
        Some(EventPage { events, next })
    }

    /// Waits until there may be events after a cursor.
    pub(super) async fn wait(&self, after: EventCursor) {
        let mut progress = self.progress.subscribe();
        let mut looks = 0;
        self.progress.send_if_modified(|progress| {
            progress.was_joined = true;
            looks = progress.looks;
            false
        });
        self.news.notify_one();
        let is_over = |progress: &Progress| {
            let Some(end) = progress.end else { return false };
            // If the cursor is still not the end after one more look, it may belong to another log.
            end.revision > after.revision || (progress.looks > looks && end != after)
        };
        // The sender lives as long as the repository.
        let _ = progress.wait_for(is_over).await;
    }

    /// Notes that this program has committed a group in this block.
    pub(super) fn note_own(&self, block: i64) {
        if self.is_reading.load(Relaxed) {
            self.own().insert(block);
            self.news.notify_one();
        }
    }

    /// Reads while there are followers, until `closing` is canceled.
    pub(super) async fn run(self: Arc<Self>, closing: CancellationToken) {
        closing.run_until_cancelled(self.read()).await;
    }

    async fn read(&self) {
        let (mut last_read, mut gap, mut failures) = (None, None, 0);
        let mut last_followed = None;
        loop {
            if self.progress.receiver_count() > 0 {
                last_followed = Some(Instant::now());
            } else if last_followed.is_none_or(|last: Instant| last.elapsed() > IDLE_AFTER) {
                // Without followers, stops reading until one comes.
                self.is_reading.store(false, Relaxed);
                last_read = None;
                *self.recent() = Recent::default();
                self.own().clear();
                self.news.notified().await;
                self.is_reading.store(true, Relaxed);
                last_followed = Some(Instant::now());
            }
            match self.look(&mut last_read, &mut gap).await {
                Ok(is_more) => {
                    failures = 0;
                    if !is_more {
                        sleep(LOOK_PAUSE).await;
                        let _ = timeout(POLL_INTERVAL, self.news.notified()).await;
                    }
                }
                Err(error) => {
                    log::debug!("cannot read new events: {error:#}; retrying");
                    pause(failures).await;
                    failures += 1;
                }
            }
        }
    }

    /// Looks for new blocks. Returns whether there are more already.
    async fn look(
        &self,
        last_read: &mut Option<LastRead>,
        gap: &mut Option<Gap>,
    ) -> anyhow::Result<bool> {
        let Some(LastRead { identity, block: last_block }) = last_read else {
            let newest = self.reader.newest().await?;
            self.reader.make_durable(&newest.log, newest.block).await?;
            *last_read = Some(LastRead { identity: newest.log.identity, block: newest.block });
            *self.recent() = Recent { start: Some(newest.cursor), ..Recent::default() };
            self.report(newest.cursor);
            return Ok(true);
        };
        let mut found = self.reader.blocks_from(*last_block).await?;
        let is_same_log = found.log.identity == *identity
            && match found.log.forgotten_to.cmp(last_block) {
                // The last block must still be there, unless the database was reset to an earlier state.
                Ordering::Less => found.take_first(*last_block),
                Ordering::Equal => true,
                // Events were forgotten before they were read.
                Ordering::Greater => false,
            };
        if !is_same_log {
            *last_read = None;
            return Ok(true);
        }
        self.make_durable(&found).await?;
        *last_block = found.next - 1;
        let is_at_gap = found.last.is_some_and(|last| last >= found.next);
        let is_more = found.blocks.len() + 1 >= BLOCKS_AT_ONCE;
        let end = {
            let mut recent = self.recent();
            recent.push(found.blocks.into_iter().flat_map(|block| block.events));
            recent.end()
        };
        {
            let mut own = self.own();
            *own = own.split_off(&found.next);
        }
        if let Some(end) = end {
            self.report(end);
        }
        if is_at_gap {
            self.reader.close_gap(found.next, gap).await?;
        }
        Ok(is_more || is_at_gap)
    }

    /// Ensures that no failover loses these blocks. Those that this program has committed were acknowledged, and so are
    /// safe.
    async fn make_durable(&self, found: &FoundBlocks) -> anyhow::Result<()> {
        let Some(last) = found.blocks.last().filter(|_| found.log.is_synchronous) else {
            return Ok(());
        };
        let is_durable = {
            let own = self.own();
            let mut blocks = found.blocks.iter().map(|block| block.number);
            blocks.all(|block| own.contains(&block) || self.reader.is_durable(&found.log, block))
        };
        if is_durable {
            self.reader.note_durable(&found.log, last.number);
            return Ok(());
        }
        self.reader.make_durable(&found.log, last.number).await
    }

    /// Tells the followers how far the tail has come.
    fn report(&self, end: EventCursor) {
        self.progress.send_if_modified(|progress| {
            let is_new = progress.end != Some(end);
            progress.looks += 1;
            progress.end = Some(end);
            is_new || std::mem::take(&mut progress.was_joined)
        });
    }

    fn own(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
