//! Forgetting old events, and plants that were removed so long ago that no event tells of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use futures_util::future::join3;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;

use crate::reader::{EventBlock, EventBlocks, PostgresReader};
use crate::sessions::{SessionError, Sessions};
use crate::statements::EVENTS_IN_A_BLOCK;

/// How often it is looked for what may be forgotten.
const INTERVAL: Duration = Duration::from_secs(1);

/// One part in so many of the events that are kept may be kept beyond them, so that they go many at a time.
const SLACK: i64 = 100;

/// Sees to it that no more events are kept than are wanted, but for a few.
#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) reader: PostgresReader,
    pub(super) sessions: Sessions,
    pub(super) keep_events: u64,
    /// A block that was missing at an earlier turn, and the newest block at that time.
    pub(super) gap: Option<(i64, i64)>,
}

impl Upkeep {
    /// Forgets what there is too much. Says whether more is left for the next turn, also where nobody writes until then.
    pub(super) async fn forget(&mut self) -> anyhow::Result<bool> {
        let keep = i64::try_from(self.keep_events).unwrap_or(i64::MAX);
        loop {
            let excess = self.reader.kept_events().await?.saturating_sub(keep);
            if excess <= keep / SLACK {
                return Ok(false);
            }
            match self.forget_some(excess).await? {
                Forgetting::Done => {}
                Forgetting::Nothing => return Ok(false),
                Forgetting::Later => return Ok(true),
            }
        }
    }

    /// Forgets the oldest blocks, with so many events at most.
    async fn forget_some(&mut self, most: i64) -> anyhow::Result<Forgetting> {
        let first = self.reader.forgotten().await?.block + 1;
        let EventBlocks { blocks, forgotten } = self.reader.blocks_from(first).await?;
        let (mut last, mut events) = (forgotten.block, 0);
        let mut last_revision = forgotten.revision;
        for EventBlock { number, events: of_block } in &blocks {
            let count = i64::try_from(of_block.len()).unwrap_or(i64::MAX);
            if events + count > most {
                break;
            }
            if *number != last + 1 {
                // Nobody may come back to a block that is forgotten. But first it gets the time of a turn, and with it
                // all that are missing then.
                if events == 0 {
                    match self.gap {
                        Some((gap, newest)) if gap <= last + 1 && last < newest => {
                            self.reader.seal(last + 1, newest).await?;
                            return Ok(Forgetting::Done);
                        }
                        _ => self.gap = Some((last + 1, self.reader.newest_block().await?)),
                    }
                    return Ok(Forgetting::Later);
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
        let statements = &self.reader.statements;
        let first_kept = (last + 1) * EVENTS_IN_A_BLOCK;
        let session = self.sessions.get().await.map_err(failure)?;
        let client = session.client().map_err(failure)?;
        let noted = session
            .answer(async {
                let note = client.prepare_cached(&statements.note_forgotten).await?;
                client.batch_execute("BEGIN").await?;
                client.query(&note, &[&forgotten.block, &last, &last_revision, &events]).await
            })
            .await;
        match noted {
            Ok(rows) if !rows.is_empty() => {}
            Ok(_) => {
                // Somebody else forgets, who may want to keep more.
                session.roll_back().await;
                return Ok(Forgetting::Later);
            }
            Err(error) => {
                session.roll_back().await;
                return Err(failure(error));
            }
        }
        let done = session
            .answer(async {
                let events = client.prepare_cached(&statements.forget_events).await?;
                let plants = client.prepare_cached(&statements.forget_removed_plants).await?;
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
            .await;
        done.map_err(failure)?;
        Ok(Forgetting::Done)
    }
}

/// What came of forgetting.
enum Forgetting {
    /// Something was forgotten, or made ready for that.
    Done,
    /// There is nothing to forget.
    Nothing,
    /// Something may be forgotten at the next turn.
    Later,
}

/// Forgets now and then what there is too much, until the end.
pub(super) async fn keep_up(
    mut upkeep: Upkeep,
    has_written: Arc<AtomicBool>,
    closing: CancellationToken,
) {
    let mut turns = interval(INTERVAL);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while closing.run_until_cancelled(turns.tick()).await.is_some() {
        if !has_written.swap(false, Ordering::Relaxed) {
            continue;
        }
        let is_left = upkeep.forget().await.unwrap_or_else(|failure| {
            log::debug!("{failure}; it is tried again");
            true
        });
        if is_left {
            has_written.store(true, Ordering::Relaxed);
        }
    }
}

fn failure(error: SessionError) -> anyhow::Error {
    anyhow!(error).context("cannot forget old events")
}
