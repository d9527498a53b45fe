//! Reading. PostgreSQL shows a transaction when its commit is on the disk; and, where a standby has to have it too, mostly
//! there as well: only where the session of the writer was ended meanwhile, that may come a moment later.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use plant_domain::{Plant, PlantFilter, PlantId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::sessions::{PATIENCE, SessionError, Sessions, pause};
use crate::statements::{EVENTS_IN_A_BLOCK, Statements, kind_of};
use plant_store::PAGE_MAX_WORK;
use plant_store::{Event, EventPage, Page, PageRequest, Revision, StoredPlant};

/// How many rows are read at a time, where those of removed plants stand in the way.
const MOST_ROWS: usize = 1_000;

/// How many blocks of events are read at a time.
const BLOCKS_AT_ONCE: i64 = 32;

/// How many blocks are sealed at a time.
const MOST_SEALED: i64 = 1024;

/// How long a reader waits for a block that is missing before it seals it. Most come within the time of a commit; one
/// that comes later has to begin anew.
pub(super) const LATE_COMMIT_PATIENCE: Duration = Duration::from_secs(1);

/// How often blocks are sealed for one reader at most. It gets none then, and asks again.
const MOST_SEALS: u32 = 8;

/// Reads what there is.
#[derive(Clone, Debug)]
pub(super) struct PostgresReader {
    pub(super) sessions: Sessions,
    pub(super) statements: Arc<Statements>,
}

impl PostgresReader {
    /// The rows that a prepared statement gives. It is tried again for a while where PostgreSQL does not answer.
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

    /// Those of some plants that are there.
    pub(super) async fn plants(&self, ids: &[PlantId]) -> anyhow::Result<FoundPlants> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = self.rows("plants", &self.statements.plants_with_ids, &[&ids]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let looked = Looked::of_row(row)?;
            found.insert(looked.id, looked);
        }
        Ok(FoundPlants(found))
    }

    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        let count = self.number("how many plants there are", &self.statements.count).await?;
        u64::try_from(count).context("the count of the plants is wrong")
    }

    /// How many events are kept.
    pub(super) async fn kept_events(&self) -> anyhow::Result<i64> {
        self.number("how many events there are", &self.statements.kept_events).await
    }

    async fn number(&self, what: &str, statement: &str) -> anyhow::Result<i64> {
        let rows = self.rows(what, statement, &[]).await?;
        let row = rows.first().with_context(|| format!("{what} is missing"))?;
        row.try_get(0).with_context(|| what.to_owned())
    }

    pub(super) async fn page(&self, request: &PageRequest) -> anyhow::Result<Page> {
        let mut page = Page { plants: Vec::new(), next: None };
        let limit = request.limit.max(1);
        let mut from = request.first_id();
        let mut looked_at = 0;
        // No name has one, and PostgreSQL takes none.
        if request.filter.folded_name_part().is_some_and(|part| part.contains('\0')) {
            return Ok(page);
        }
        let mut rows = limit;
        // Plants that were removed leave room on a page.
        while let Some(id) = from
            && page.plants.len() < limit
            && looked_at < PAGE_MAX_WORK
        {
            let wanted = limit - page.plants.len();
            let part = self.part(&request.filter, id, wanted, rows.max(wanted)).await?;
            rows = MOST_ROWS;
            looked_at += part.looked_at;
            page.plants.extend(part.plants);
            page.next = part.next;
            from = part.next.and_then(PlantId::next);
        }
        Ok(page)
    }

    /// A part of a page: of so many rows at most, the first so many plants.
    async fn part(
        &self,
        filter: &PlantFilter,
        from: PlantId,
        wanted: usize,
        rows: usize,
    ) -> anyhow::Result<PagePart> {
        let most_rows = i64::try_from(rows + 1).context("a page is too large")?;
        let most_looked_at = i64::try_from(PAGE_MAX_WORK).context("a page is too large")?;
        let from = from.get();
        let (tag, name_part) = (filter.tag(), filter.folded_name_part());
        let (statement, parameters): (_, Vec<&(dyn ToSql + Sync)>) = match (&tag, &name_part) {
            (None, None) => (&self.statements.plants_from, vec![&from, &most_rows]),
            (Some(tag), None) => {
                (&self.statements.plants_from_with_tag, vec![&from, &most_rows, tag])
            }
            (None, Some(name_part)) => (
                &self.statements.plants_from_with_name,
                vec![&from, &most_rows, &most_looked_at, name_part],
            ),
            (Some(tag), Some(name_part)) => (
                &self.statements.plants_from_with_tag_and_name,
                vec![&from, &most_rows, &most_looked_at, name_part, tag],
            ),
        };
        let found = self.rows("plants", statement, &parameters).await?;
        let mut part = PagePart { plants: Vec::new(), next: None, looked_at: 0 };
        let mut last = None;
        for row in &found {
            if part.plants.len() == wanted || part.looked_at == rows {
                part.next = last;
                return Ok(part);
            }
            let looked = Looked::of_row(row)?;
            last = Some(looked.id);
            part.looked_at += 1;
            // Only among rows with a certain name, the last one may be there for another reason.
            if name_part.is_none() || row.try_get("is_match").context("a match")? {
                part.plants.extend(looked.stored_plant()?);
            }
        }
        if name_part.is_some()
            && let Some(row) = found.last()
        {
            let looked_at: i64 =
                row.try_get("looked_at").context("how many plants were looked at")?;
            part.looked_at = PAGE_MAX_WORK;
            // The last row is the last one that was looked at.
            part.next = last.filter(|_| looked_at >= most_looked_at);
        }
        Ok(part)
    }

    /// The events after a revision. Those of one group are in the row of its block, and the numbers of the blocks have
    /// no gaps: where there is one, somebody may still commit what belongs there. What comes behind it is not shown
    /// before either the events are there, or the block is sealed, so that they never will be.
    pub(super) async fn events(&self, after: Revision, limit: usize) -> anyhow::Result<EventPage> {
        let after = i64::try_from(after.get()).unwrap_or(i64::MAX);
        let mut events = Vec::new();
        let (mut tries, mut seals, mut gap_seen) = (0, 0, None);
        let mut from = (after / EVENTS_IN_A_BLOCK).max(1);
        while events.len() < limit && seals < MOST_SEALS {
            let EventBlocks { blocks, forgotten } = self.blocks_from(from).await?;
            if after < forgotten.revision {
                return Ok(EventPage::Forgotten);
            }
            from = from.max(forgotten.block + 1);
            let Some(last) = blocks.last().map(|block| block.number) else { break };
            let first = from;
            // Of what is forgotten, blocks without events are still there.
            for block in blocks.into_iter().filter(|block| block.number >= first) {
                if block.number != from {
                    break;
                }
                from += 1;
                let of_block = block.events.into_iter();
                events.extend(of_block.filter(|event| event.revision.get().cast_signed() > after));
            }
            if gap_seen.is_some_and(|(_, newest)| from > newest) {
                gap_seen = None;
            }
            if from > last {
                continue;
            }
            // There is a gap. What was found before it is worth an answer.
            if !events.is_empty() {
                break;
            }
            let (since, newest) = match gap_seen {
                Some(seen) => seen,
                None => *gap_seen.insert((Instant::now(), self.newest_block().await?)),
            };
            if since.elapsed() < LATE_COMMIT_PATIENCE {
                pause(tries).await;
                tries += 1;
            } else {
                // What was missing before that one was there has had its time too.
                self.seal(from, newest).await?;
                seals += 1;
            }
        }
        events.truncate(limit);
        Ok(EventPage::Kept(events))
    }

    /// Sees to it that what is not committed by now of these blocks never will be. A commit that is just going on is waited
    /// for, and whoever has not begun to begins anew, in a later block.
    pub(super) async fn seal(&self, first: i64, last: i64) -> anyhow::Result<()> {
        let last = last.min(first + MOST_SEALED - 1);
        self.rows("events", &self.statements.seal_blocks, &[&first, &last]).await?;
        Ok(())
    }

    /// The number of the newest block of events.
    pub(super) async fn newest_block(&self) -> anyhow::Result<i64> {
        self.number("the newest event", &self.statements.newest_block).await
    }

    /// Which events are forgotten.
    pub(super) async fn forgotten(&self) -> anyhow::Result<Forgotten> {
        let rows = self.rows("events", &self.statements.forgotten, &[]).await?;
        let row = rows.first().context("the row of the log is missing")?;
        let block = row.try_get(0).context("the row of the log")?;
        let revision = row.try_get(1).context("the row of the log")?;
        Ok(Forgotten { block, revision })
    }

    /// Blocks of events, and then, which of them are forgotten.
    pub(super) async fn blocks_from(&self, from: i64) -> anyhow::Result<EventBlocks> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&from, &BLOCKS_AT_ONCE];
        let rows = self.rows("events", &self.statements.events_from, &parameters).await?;
        // Looked at later, this says all that may be missing there.
        let forgotten = self.forgotten().await?;
        let blocks = rows.iter().map(EventBlock::of_row).collect::<anyhow::Result<_>>()?;
        Ok(EventBlocks { blocks, forgotten })
    }
}

/// Plants that were asked for.
pub(super) struct FoundPlants(HashMap<PlantId, Looked>);

impl FoundPlants {
    /// The plant with this id, if it was found. Somebody else may ask for it too.
    pub(super) fn get(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        let looked = self.0.get(&id).cloned();
        Ok(looked.map(Looked::stored_plant).transpose()?.flatten())
    }
}

/// A part of a page.
struct PagePart {
    plants: Vec<StoredPlant>,
    /// The last plant that was looked at, when there may be more.
    next: Option<PlantId>,
    looked_at: usize,
}

/// A plant that was looked at.
#[derive(Clone)]
struct Looked {
    id: PlantId,
    revision: Revision,
    /// Without one, it was removed.
    name: Option<String>,
    tag: Option<String>,
}

impl Looked {
    fn of_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            id: PlantId::from(row.try_get::<_, i64>(0)?),
            revision: Revision::from(row.try_get::<_, i64>(1)?.cast_unsigned()),
            name: row.try_get(2)?,
            tag: row.try_get(3)?,
        })
    }

    /// The plant, if it is there. It goes through the create rules again: a row that breaks one was not written by us.
    fn stored_plant(self) -> anyhow::Result<Option<StoredPlant>> {
        let Self { id, revision, name, tag } = self;
        let Some(name) = name else { return Ok(None) };
        let plant = Plant::new(name, tag)
            .with_context(|| format!("the row of plant {id} breaks the rules"))?;
        Ok(Some(StoredPlant { id, plant, revision }))
    }
}

/// Blocks of events, by ascending number.
pub(super) struct EventBlocks {
    pub(super) blocks: Vec<EventBlock>,
    pub(super) forgotten: Forgotten,
}

/// Which events are forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forgotten {
    /// All up to this block.
    pub(super) block: i64,
    /// The last of them.
    pub(super) revision: i64,
}

/// The events of one group; none where there never were any.
#[derive(Debug)]
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
