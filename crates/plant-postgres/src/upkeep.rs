//! Forgets old events, and then the rows of removed plants that no kept event refers to.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join3;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;

use crate::reader::{EventBlock, PostgresReader};
use crate::statements::{EVENTS_IN_A_BLOCK, FORGET_EVENTS, FORGET_REMOVED_PLANTS, NOTE_FORGOTTEN};
use crate::writer::Writer;

/// The pause between two turns.
const INTERVAL: Duration = Duration::from_secs(1);

/// One extra event in this many may be kept, so that many events are forgotten at a time.
const SLACK: i64 = 100;

/// Keeps the number of events close to the configured number.
pub(super) struct Upkeep {
    reader: PostgresReader,
    writer: Writer,
    keep_events: i64,
    /// A block that was missing at an earlier turn, and the newest block at that time.
    gap: Option<(i64, i64)>,
}

/// The result of an attempt to forget.
enum Forgetting {
    /// Something was forgotten, or a gap before it was sealed.
    Done,
    /// There is nothing to forget.
    Nothing,
    /// Something may be forgotten at the next turn.
    Later,
}

impl Upkeep {
    pub(super) fn new(reader: PostgresReader, writer: Writer, keep_events: u64) -> Self {
        let keep_events = i64::try_from(keep_events).unwrap_or(i64::MAX);
        Self { reader, writer, keep_events, gap: None }
    }

    /// Takes turns until the end. A turn does nothing unless there were writes or the last turn has left something.
    pub(super) async fn run(mut self, closing: CancellationToken) {
        let mut turns = interval(INTERVAL);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while closing.run_until_cancelled(turns.tick()).await.is_some() {
            if !self.writer.has_written.swap(false, Ordering::Relaxed) {
                continue;
            }
            let is_left = self.forget().await.unwrap_or_else(|error| {
                let failure = error.context("cannot forget old events");
                log::debug!("{failure:#}; it is tried again");
                true
            });
            if is_left {
                self.writer.has_written.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Forgets the excess. Returns whether the next turn must continue.
    async fn forget(&mut self) -> anyhow::Result<bool> {
        loop {
            let excess = self.reader.kept_events().await?.saturating_sub(self.keep_events);
            if excess <= self.keep_events / SLACK {
                return Ok(false);
            }
            match self.forget_some(excess).await? {
                Forgetting::Done => {}
                Forgetting::Nothing => return Ok(false),
                Forgetting::Later => return Ok(true),
            }
        }
    }

    /// Forgets some of the oldest blocks, with at most `most` events.
    async fn forget_some(&mut self, most: i64) -> anyhow::Result<Forgetting> {
        let first = self.reader.forgotten().await?.block + 1;
        let (blocks, forgotten) = self.reader.blocks_from(first).await?;
        let (mut last, mut events) = (forgotten.block, 0);
        let mut last_revision = forgotten.revision;
        for EventBlock { number, events: of_block } in &blocks {
            let count = i64::try_from(of_block.len()).unwrap_or(i64::MAX);
            if events + count > most {
                break;
            }
            if *number != last + 1 {
                if events == 0 {
                    return self.close_gap(last).await;
                }
                break;
            }
            (last, events) = (*number, events + count);
            if let Some(event) = of_block.last() {
                last_revision = event.revision.get().cast_signed();
            }
        }
        if last == forgotten.block {
            return Ok(Forgetting::Nothing);
        }
        let session = self.writer.sessions.get().await?;
        let client = session.client()?;
        let note = session.sql(NOTE_FORGOTTEN);
        let noted = session
            .answer(async {
                let note = client.prepare_cached(&note).await?;
                client.batch_execute("BEGIN").await?;
                client.query(&note, &[&forgotten.block, &last, &last_revision, &events]).await
            })
            .await;
        if !noted.as_ref().is_ok_and(|rows| !rows.is_empty()) {
            session.roll_back().await;
            noted?;
            // Another server forgets, and may want to keep more.
            return Ok(Forgetting::Later);
        }
        let first_kept = (last + 1) * EVENTS_IN_A_BLOCK;
        let (events, plants) = (session.sql(FORGET_EVENTS), session.sql(FORGET_REMOVED_PLANTS));
        session
            .answer(async {
                let events = client.prepare_cached(&events).await?;
                let plants = client.prepare_cached(&plants).await?;
                let of_events: [&(dyn ToSql + Sync); 2] = [&forgotten.block, &last];
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
        Ok(Forgetting::Done)
    }

    /// Seals the gap after block `last`, because a forgotten block must never be committed. A late commit first gets
    /// the time of one turn; this also holds for all blocks that are missing by then.
    async fn close_gap(&mut self, last: i64) -> anyhow::Result<Forgetting> {
        if let Some((gap, newest)) = self.gap
            && gap <= last + 1
            && last < newest
        {
            self.reader.seal(last + 1, newest).await?;
            return Ok(Forgetting::Done);
        }
        self.gap = Some((last + 1, self.reader.newest_block().await?));
        Ok(Forgetting::Later)
    }
}
