//! Upkeep: folds the changes of tags, sorts new names into their index, and forgets old events and then the rows of
//! removed plants that no kept event refers to.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::future::join3;
use plant_store::{EventRetention, KEEP_EVENTS_FOR_MAX_EVENTS};
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;

use crate::events::EventReader;
use crate::statements::{
    EVENTS_IN_A_BLOCK, FORGET_EVENTS, FORGET_REMOVED_PLANTS, NOTE_FORGOTTEN, SORT_NEWEST_NAMES,
};
use crate::tags::fold_tag_changes;
use crate::writer::Writer;

/// How often changes of tags are folded while there are writes. Readers of counts must add up all changes that are not
/// folded.
const FOLD_INTERVAL: Duration = Duration::from_millis(200);

/// How often events are forgotten and names are sorted.
const INTERVAL: Duration = Duration::from_secs(1);

/// How many new names are sorted at once while there are writes. They take less than the limit of the index's pending
/// list.
const MANY_NAMES: usize = 100_000;

/// The pause while the oldest events are kept for their age.
const TOO_YOUNG_INTERVAL: Duration = Duration::from_secs(10);

/// One in this many kept events may be extra, so that many events are forgotten at a time.
const SLACK: i64 = 100;

/// Keeps the log of events near its configured length, and counts and searches fast.
pub(super) struct Upkeep {
    events: Arc<EventReader>,
    writer: Arc<Writer>,
    keep_events: i64,
    keep_events_for_ms: i64,
}

impl Upkeep {
    pub(super) fn new(
        events: &Arc<EventReader>,
        writer: &Arc<Writer>,
        EventRetention { events: keep_events, age, .. }: EventRetention,
    ) -> Self {
        Self {
            events: Arc::clone(events),
            writer: Arc::clone(writer),
            keep_events: i64::try_from(keep_events).unwrap_or(i64::MAX),
            keep_events_for_ms: i64::try_from(age.as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// Takes turns until `closing` is canceled. A turn does nothing unless there were writes, or the last turn left
    /// something.
    pub(super) async fn run(self, closing: CancellationToken) {
        let mut turns = interval(FOLD_INTERVAL);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_folded, mut is_busy, mut is_left) = (true, true, true);
        let (mut sort_time, mut forget_time) = (Instant::now(), Instant::now());
        while closing.run_until_cancelled(turns.tick()).await.is_some() {
            let has_written = self.writer.has_written.swap(false, Ordering::Relaxed);
            (is_busy, is_left) = (is_busy | has_written, is_left | has_written);
            if has_written || !is_folded {
                let folded = fold_tag_changes(&self.writer.sessions).await;
                is_folded = is_done(folded.context("cannot fold the changes of tags"));
            }
            if sort_time <= Instant::now() {
                self.sort_newest_names(is_busy).await;
                (is_busy, sort_time) = (false, Instant::now() + INTERVAL);
            }
            if is_left && forget_time <= Instant::now() {
                let left = self.forget_excess().await.context("cannot forget old events");
                let interval =
                    if let Ok(Some(Left::TooYoung)) = left { TOO_YOUNG_INTERVAL } else { INTERVAL };
                is_left = !matches!(left, Ok(None));
                forget_time = Instant::now() + interval;
                is_done(left);
            }
        }
    }

    /// Sorts new names into their index when writers rest, or when there are many. Otherwise each search reads these
    /// names, until a writer must stop to sort them. Fails if the user does not own the index, or if there is none;
    /// autovacuum and the writers then sort.
    async fn sort_newest_names(&self, is_busy: bool) {
        let names = &self.writer.unsorted_names;
        let least = if is_busy { MANY_NAMES } else { 1 };
        if names.load(Ordering::Relaxed) < least {
            return;
        }
        names.store(0, Ordering::Relaxed);
        let sorted = async {
            let session = self.writer.sessions.get().await?;
            session.rows(SORT_NEWEST_NAMES, &[]).await
        };
        if let Err(error) = sorted.await {
            log::debug!("cannot sort the newest names: {error}");
        }
    }

    /// Forgets the oldest blocks as a whole. Returns what is left for the next turn.
    async fn forget_excess(&self) -> anyhow::Result<Option<Left>> {
        let mut gap = None;
        loop {
            let kept = self.events.kept_events().await?;
            let excess = kept.saturating_sub(self.keep_events);
            if excess <= self.keep_events / SLACK {
                return Ok(None);
            }
            // Events above the maximum are forgotten at any age.
            let too_many = kept.saturating_sub_unsigned(KEEP_EVENTS_FOR_MAX_EVENTS);
            let oldest_ms = self.events.now_ms().await?.saturating_sub(self.keep_events_for_ms);
            let found = self.events.blocks_from(0).await?;
            let before = found.log.forgotten_to;
            let mut after = ForgottenTo { block: before, last_event: None };
            let mut events = 0;
            for block in &found.blocks {
                let count = i64::try_from(block.events.len()).unwrap_or(i64::MAX);
                let is_young = block.at_ms >= oldest_ms && events + count > too_many;
                if events + count > excess || is_young {
                    break;
                }
                (after.block, events) = (block.number, events + count);
                if let Some(event) = block.events.last() {
                    let revision = event.revision().get().cast_signed();
                    after.last_event = Some((revision, block.group_id.clone()));
                }
            }
            if after.block > before {
                if !self.forget(before, &after, events).await? {
                    // Another server forgets events too, and may want to keep more.
                    return Ok(Some(Left::More));
                }
            } else if found.blocks.is_empty() && found.last.is_some() {
                // A forgotten block must never be committed.
                self.events.close_gap(found.next, &mut gap).await?;
            } else {
                // The oldest block is too young, or too large.
                return Ok((self.keep_events_for_ms > 0).then_some(Left::TooYoung));
            }
        }
    }

    /// Forgets the blocks after `before` and up to `after`, which have this many events. Returns false if another
    /// server has forgotten some of them.
    async fn forget(&self, before: i64, after: &ForgottenTo, events: i64) -> anyhow::Result<bool> {
        let session = self.writer.sessions.get().await?;
        let client = session.client()?;
        let note = session.sql(NOTE_FORGOTTEN);
        let noted = session
            .answer(async {
                let note = client.prepare_cached(&note).await?;
                client.batch_execute("BEGIN").await?;
                let (revision, group_id) = after.last_event.clone().unzip();
                let group_id = group_id.flatten();
                let of_log: [&(dyn ToSql + Sync); 5] =
                    [&before, &after.block, &revision, &group_id, &events];
                client.query(&note, &of_log).await
            })
            .await;
        if !noted.as_ref().is_ok_and(|rows| !rows.is_empty()) {
            session.roll_back().await;
            noted?;
            return Ok(false);
        }
        let first_kept = (after.block + 1) * EVENTS_IN_A_BLOCK;
        let (events, plants) = (session.sql(FORGET_EVENTS), session.sql(FORGET_REMOVED_PLANTS));
        session
            .answer(async {
                let events = client.prepare_cached(&events).await?;
                let plants = client.prepare_cached(&plants).await?;
                let of_events: [&(dyn ToSql + Sync); 2] = [&before, &after.block];
                let of_plants: [&(dyn ToSql + Sync); 1] = [&first_kept];
                let (events, plants, done) = join3(
                    client.query(&events, &of_events),
                    client.query(&plants, &of_plants),
                    client.batch_execute("COMMIT"),
                )
                .await;
                events?;
                plants?;
                done
            })
            .await?;
        Ok(true)
    }
}

/// Whether it succeeded. A failure is retried in the next turn.
fn is_done<T>(outcome: anyhow::Result<T>) -> bool {
    outcome.inspect_err(|error| log::debug!("{error:#}; retrying")).is_ok()
}

/// Why events remain to be forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    More,
    /// The oldest of them are kept for their age.
    TooYoung,
}

/// The end of the events to forget.
struct ForgottenTo {
    /// The last block.
    block: i64,
    /// The last revision in the forgotten blocks, if any, and the id of its group.
    last_event: Option<(i64, Option<Vec<u8>>)>,
}
