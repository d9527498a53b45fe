//! Reading plants and events. PostgreSQL shows a transaction once its commit is on disk and, with synchronous
//! replication, on the standby. If the writer's session ends during the commit, the transaction can become visible a
//! moment earlier.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use plant_domain::{NewPlantRef, PlantFilter, PlantId};
use plant_store::{
    Event, EventPage, PAGE_MAX_WORK, Page, PageRequest, Revision, StoreFailure, StoredPlant,
};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::sessions::{PATIENCE, SessionError, Sessions, pause};
use crate::statements::{
    COUNT, EVENTS_FROM, EVENTS_IN_A_BLOCK, FORGOTTEN, KEPT_EVENTS, NEWEST_BLOCK, PLANTS_WITH_IDS,
    SEAL_BLOCKS, kind_of, plants_from, stored_plant,
};

/// How many rows the second and later queries for a page read: rows of removed plants may be in the way.
const MOST_ROWS: usize = 1_000;

/// How many blocks of events are read at a time.
const BLOCKS_AT_ONCE: i64 = 32;

/// How many blocks are sealed at a time.
const MOST_SEALED: i64 = 1024;

/// How long a reader waits for a missing block before it seals the block. Most blocks come within the time of a commit; the
/// group of a sealed block must begin again.
pub(super) const LATE_COMMIT_PATIENCE: Duration = Duration::from_secs(1);

/// How often one read of events seals blocks at most. Then it returns no events, and the caller asks again.
const MOST_SEALS: u32 = 8;

/// How many plants one query reads at most.
const MAX_READS: usize = 256;

/// A read of one plant that waits, and where its result goes.
pub(super) type WaitingRead = (PlantId, oneshot::Sender<Result<Option<StoredPlant>, StoreFailure>>);

/// Reads plants and events.
#[derive(Clone, Debug)]
pub(super) struct PostgresReader {
    pub(super) sessions: Sessions,
}

impl PostgresReader {
    /// The rows of a prepared statement. Tries again for a while if PostgreSQL does not answer.
    async fn rows(
        &self,
        what: &str,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> anyhow::Result<Vec<Row>> {
        let begun = Instant::now();
        let (mut tries, mut was_stale) = (0, false);
        loop {
            let answer = match self.sessions.get().await {
                Ok(session) => session.rows(statement, parameters).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(rows) => return Ok(rows),
                Err(SessionError::StaleStatement(_)) if !was_stale => was_stale = true,
                Err(
                    SessionError::NoAnswer(_)
                    | SessionError::Unavailable(_)
                    | SessionError::Conflict(_),
                ) if begun.elapsed() < PATIENCE => {
                    pause(tries).await;
                    tries += 1;
                }
                Err(error) => {
                    return Err(anyhow!(error).context(format!("cannot read {what}")));
                }
            }
        }
    }

    async fn number(&self, what: &str, statement: &str) -> anyhow::Result<i64> {
        let rows = self.rows(what, statement, &[]).await?;
        let row = rows.first().with_context(|| format!("{what} is missing"))?;
        row.try_get(0).with_context(|| what.to_owned())
    }

    /// The existing ones of these plants, each with its own failure if its row is damaged.
    pub(super) async fn plants(
        &self,
        ids: &[PlantId],
    ) -> anyhow::Result<HashMap<PlantId, Result<Option<StoredPlant>, StoreFailure>>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = self.rows("plants", PLANTS_WITH_IDS, &[&ids]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let id = PlantId::from(row.try_get::<_, i64>(0)?);
            found.insert(id, stored_plant(row).map_err(StoreFailure::new));
        }
        Ok(found)
    }

    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        let count = self.number("how many plants there are", COUNT).await?;
        u64::try_from(count).context("the count of the plants is wrong")
    }

    pub(super) async fn kept_events(&self) -> anyhow::Result<i64> {
        self.number("how many events there are", KEPT_EVENTS).await
    }

    pub(super) async fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        let mut page = Page::default();
        let limit = request.limit.max(1);
        let mut from = request.first_id();
        let mut looked_at = 0;
        // No name has a NUL, and PostgreSQL takes no text with one.
        if request.filter.folded_name_part().is_some_and(|part| part.contains('\0')) {
            return Ok(page);
        }
        let mut rows = limit;
        // Rows of removed plants are not on the page, so read more rows.
        while let Some(id) = from
            && page.len() < limit
            && looked_at < PAGE_MAX_WORK
        {
            rows = rows.max(limit - page.len());
            looked_at += self.fill(&mut page, limit, &request.filter, id, rows).await?;
            rows = MOST_ROWS;
            from = page.next.and_then(PlantId::next);
        }
        Ok(page)
    }

    /// Fills a page up to `limit` plants with those among the next `rows` rows, and returns how many rows were looked at.
    async fn fill(
        &self,
        page: &mut Page,
        limit: usize,
        filter: &PlantFilter,
        from: PlantId,
        rows: usize,
    ) -> anyhow::Result<usize> {
        let most_rows = i64::try_from(rows + 1).context("a page is too large")?;
        let most_work = i64::try_from(PAGE_MAX_WORK).context("a page is too large")?;
        let from = from.get();
        let (tag, name_part) = (filter.tag(), filter.folded_name_part());
        let statement = plants_from(tag.is_some(), name_part.is_some());
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&from, &most_rows];
        if let Some(name_part) = &name_part {
            parameters.push(&most_work);
            parameters.push(name_part);
        }
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let found = self.rows("plants", &statement, &parameters).await?;
        let (mut last, mut looked_at) = (None, 0);
        page.next = None;
        for row in &found {
            if page.len() == limit || looked_at == rows {
                page.next = last;
                return Ok(looked_at);
            }
            last = Some(PlantId::from(row.try_get::<_, i64>(0)?));
            looked_at += 1;
            // With a name filter, the last row is included even if it does not match.
            let is_match = name_part.is_none() || row.try_get("is_match").context("a match")?;
            if is_match && let Some(StoredPlant { id, plant, revision }) = stored_plant(row)? {
                let (name, tag) = plant.members();
                page.push(NewPlantRef { id, name, tag }, revision);
            }
        }
        if name_part.is_some()
            && let Some(row) = found.last()
        {
            let looked_at: i64 =
                row.try_get("looked_at").context("how many plants were looked at")?;
            page.next = last.filter(|_| looked_at >= most_work);
            return Ok(PAGE_MAX_WORK);
        }
        Ok(looked_at)
    }

    /// The events after a revision. The events of one group are the row of its block, and the numbers of the blocks have no
    /// gaps: in a gap, a group may still be committed. Nothing behind a gap is shown before the block is there or sealed, so
    /// that it never will be committed.
    pub(super) async fn events(&self, after: Revision, limit: usize) -> anyhow::Result<EventPage> {
        let after = i64::try_from(after.get()).unwrap_or(i64::MAX);
        let (mut events, mut gap, mut seals) = (Vec::new(), None, 0);
        let mut from = (after / EVENTS_IN_A_BLOCK).max(1);
        while events.len() < limit && seals < MOST_SEALS {
            let found = self.blocks_from(from).await?;
            if after < found.forgotten.revision {
                return Ok(EventPage::Forgotten);
            }
            from = found.next;
            let found_events = found.blocks.into_iter().flat_map(|block| block.events);
            events.extend(found_events.filter(|event| event.revision.get().cast_signed() > after));
            match found.last {
                None => break,
                Some(last) if last < from => {}
                // There is a gap. Return the events before it.
                Some(_) if !events.is_empty() => break,
                Some(_) => seals += u32::from(self.close_gap(from, &mut gap).await?),
            }
        }
        events.truncate(limit);
        Ok(EventPage::Kept(events))
    }

    /// Gives the late commits of missing blocks, of which `first` is the first, some time, and then seals the blocks.
    /// Returns whether it has sealed any. To be called again, with the same `gap`, while blocks are missing.
    pub(super) async fn close_gap(
        &self,
        first: i64,
        gap: &mut Option<Gap>,
    ) -> anyhow::Result<bool> {
        let gap = match gap {
            Some(gap) if first <= gap.newest => gap,
            _ => gap.insert(Gap {
                since: Instant::now(),
                newest: self.number("the newest event", NEWEST_BLOCK).await?,
                tries: 0,
            }),
        };
        if gap.since.elapsed() < LATE_COMMIT_PATIENCE {
            pause(gap.tries).await;
            gap.tries += 1;
            return Ok(false);
        }
        // Waits for commits in progress; a group that commits later must begin again, in a later block.
        let last = gap.newest.min(first + MOST_SEALED - 1);
        self.rows("events", SEAL_BLOCKS, &[&first, &last]).await?;
        Ok(true)
    }

    pub(super) async fn forgotten(&self) -> anyhow::Result<Forgotten> {
        let rows = self.rows("events", FORGOTTEN, &[]).await?;
        let row = rows.first().context("the row of the log is missing")?;
        let block = row.try_get(0).context("the row of the log")?;
        let revision = row.try_get(1).context("the row of the log")?;
        Ok(Forgotten { block, revision })
    }

    /// Reads blocks of events from a number on, up to the first gap, without the forgotten ones.
    pub(super) async fn blocks_from(&self, from: i64) -> anyhow::Result<FoundBlocks> {
        let rows = self.rows("events", EVENTS_FROM, &[&from, &BLOCKS_AT_ONCE]).await?;
        // Read after the blocks, so it covers every block that is missing because it was forgotten.
        let forgotten = self.forgotten().await?;
        let first = from.max(forgotten.block + 1);
        let mut found = FoundBlocks { forgotten, blocks: Vec::new(), next: first, last: None };
        for row in &rows {
            let block = EventBlock::of_row(row)?;
            found.last = Some(block.number);
            if block.number == found.next {
                found.next += 1;
                found.blocks.push(block);
            }
            // Otherwise it is behind a gap, or the seal of a forgotten block.
        }
        Ok(found)
    }
}

/// Serves the waiting reads, batch by batch, until the senders are dropped.
pub(super) async fn read_jointly(
    reader: PostgresReader,
    waiting: Arc<Mutex<mpsc::Receiver<WaitingRead>>>,
) {
    loop {
        let mut taken = Vec::new();
        waiting.lock().await.recv_many(&mut taken, MAX_READS).await;
        if taken.is_empty() {
            return;
        }
        // A panic drops the senders, which tells the callers; the next reads go on.
        if tokio::spawn(answer(reader.clone(), taken)).await.is_err() {
            log::error!("reading plants panicked");
        }
    }
}

async fn answer(reader: PostgresReader, taken: Vec<WaitingRead>) {
    let ids: Vec<PlantId> = taken.iter().map(|(id, _)| *id).collect();
    let found = reader.plants(&ids).await.map_err(StoreFailure::new);
    for (id, answer) in taken {
        let plant = match &found {
            Ok(found) => found.get(&id).cloned().unwrap_or(Ok(None)),
            Err(failure) => Err(failure.clone()),
        };
        // The client may be gone.
        let _ = answer.send(plant);
    }
}

/// The last block whose events are forgotten, and the last revision in it.
#[derive(Clone, Copy)]
pub(super) struct Forgotten {
    pub(super) block: i64,
    pub(super) revision: i64,
}

/// Consecutive blocks of events.
pub(super) struct FoundBlocks {
    pub(super) forgotten: Forgotten,
    pub(super) blocks: Vec<EventBlock>,
    /// The number of the block after these.
    pub(super) next: i64,
    /// The number of the last block that was looked at, which is behind a gap unless it is less than `next`.
    pub(super) last: Option<i64>,
}

/// Missing blocks that a reader has met.
pub(super) struct Gap {
    since: Instant,
    /// The newest block at that time: all blocks up to that one get the same time to be committed.
    newest: i64,
    tries: u32,
}

/// The events of one group; none in a seal or a skipped block.
pub(super) struct EventBlock {
    pub(super) number: i64,
    pub(super) events: Vec<Event>,
}

impl EventBlock {
    fn of_row(row: &Row) -> anyhow::Result<Self> {
        let number: i64 = row.try_get(0)?;
        let revisions: Vec<i64> = row.try_get(1)?;
        let kinds: Vec<i16> = row.try_get(2)?;
        let ids: Vec<i64> = row.try_get(3)?;
        ensure!(
            revisions.len() == kinds.len() && kinds.len() == ids.len(),
            "block {number} of the events is damaged"
        );
        let events = revisions.into_iter().zip(kinds).zip(ids);
        let events = events.map(|((revision, kind), id)| {
            Ok(Event {
                revision: Revision::from(revision.cast_unsigned()),
                kind: kind_of(kind)?,
                id: PlantId::from(id),
            })
        });
        Ok(Self { number, events: events.collect::<anyhow::Result<_>>()? })
    }
}
