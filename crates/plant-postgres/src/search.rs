//! Pages of plants.
//!
//! A search for a part of a name first scans plants by ascending id, which fills the page soon if matches are frequent.
//! If they seem rare, an index collects candidates. Without an index, or with too many candidates, the scan continues
//! up to [`PAGE_MAX_WORK`] plants.

use anyhow::Context as _;
use futures_util::future::join3;
use plant_domain::{NewPlantRef, PlantFilter, PlantId};
use plant_store::{PAGE_MAX_WORK, Page, PageRequest, StoredPlant};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::name_index::{KnownNameIndexes, letters, pattern};
use crate::reader::PostgresReader;
use crate::sessions::SessionError;
use crate::statements::{BEGIN_SEARCH, NameIndex, plants_by_name, plants_from, stored_plant};

/// How many rows the second and later queries for a page without a name part read, because rows of removed plants may
/// be in the way.
const MOST_ROWS: usize = 1_000;

/// How many plants a search scans first.
const FIRST_EXAMINED: usize = 2_000;

/// The next query scans this many times as many plants.
const GROWTH: usize = 4;

pub(super) async fn page(
    reader: &PostgresReader,
    name_indexes: &KnownNameIndexes,
    request: &PageRequest,
) -> anyhow::Result<Page> {
    let (filter, limit) = (&request.filter, request.limit.max(1));
    match (first_id(request), filter.folded_name_part()) {
        // No name has a NUL, and PostgreSQL takes no text with one.
        (None, _) => Ok(Page::default()),
        (_, Some(part)) if part.contains('\0') => Ok(Page::default()),
        (_, _) if filter.tag().is_some_and(|tag| tag.contains('\0')) => Ok(Page::default()),
        (Some(from), Some(part)) => {
            Search { reader, name_indexes, filter, part, limit }.page(from).await
        }
        (Some(from), None) => page_of_all(reader, filter, limit, from).await,
    }
}

/// A page of all plants, or of those with a tag.
async fn page_of_all(
    reader: &PostgresReader,
    filter: &PlantFilter,
    limit: usize,
    from: PlantId,
) -> anyhow::Result<Page> {
    let mut page = Page::default();
    let mut from = Some(from);
    let (mut rows, mut read) = (limit, 0);
    // Rows of removed plants are not on the page, so more rows are read.
    while let Some(id) = from
        && page.len() < limit
        && read < PAGE_MAX_WORK
    {
        rows = rows.max(limit - page.len());
        let (id, most_rows) = (id.get(), number(rows + 1)?);
        let tag = filter.tag();
        let statement = plants_from(tag.is_some(), false);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&id, &most_rows];
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let found = reader.rows("plants", &statement, &parameters).await?;
        page.next = None;
        let mut last = None;
        for (place, row) in found.iter().enumerate() {
            if page.len() == limit || place == rows {
                page.next = last;
                break;
            }
            last = Some(id_of(row)?);
            push(&mut page, row)?;
        }
        read += found.len().min(rows);
        rows = MOST_ROWS;
        from = page.next.and_then(PlantId::next);
    }
    Ok(page)
}

/// A search by a part of a name.
struct Search<'a> {
    reader: &'a PostgresReader,
    name_indexes: &'a KnownNameIndexes,
    filter: &'a PlantFilter,
    part: &'a str,
    limit: usize,
}

impl Search<'_> {
    async fn page(&self, first: PlantId) -> anyhow::Result<Page> {
        let mut page = Page::default();
        let mut from = Some(first);
        let (mut examined, mut rows) = (0, FIRST_EXAMINED);
        let mut may_use_index = true;
        while let Some(id) = from
            && page.len() < self.limit
            && examined < PAGE_MAX_WORK
        {
            let seems_rare = page.len() * PAGE_MAX_WORK < self.limit * examined;
            if examined > 0
                && seems_rare
                && std::mem::take(&mut may_use_index)
                && self.fill_by_index(&mut page, id).await?
            {
                return Ok(page);
            }
            let most = rows.min(PAGE_MAX_WORK - examined);
            examined += self.fill_in_order(&mut page, id, most).await?;
            rows *= GROWTH;
            from = page.next.and_then(PlantId::next);
        }
        Ok(page)
    }

    /// Adds the matches among the next `rows` plants to the page. Returns how many plants were examined.
    async fn fill_in_order(
        &self,
        page: &mut Page,
        from: PlantId,
        rows: usize,
    ) -> anyhow::Result<usize> {
        let (from, most) = (from.get(), number(rows)?);
        let most_found = number(self.limit - page.len() + 1)?;
        let tag = self.filter.tag();
        let statement = plants_from(tag.is_some(), true);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&from, &most_found, &most, &self.part];
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let found = self.reader.rows("plants", &statement, &parameters).await?;
        page.next = None;
        let (mut last, mut examined) = (None, 0);
        for row in &found {
            examined = row.try_get("examined").context("how many plants were examined")?;
            if page.len() == self.limit {
                page.next = last;
                return Ok(rows);
            }
            last = Some(id_of(row)?);
            // The last examined row is in the result even if it does not match.
            if row.try_get("is_match").context("a match")? {
                push(page, row)?;
            }
        }
        page.next = last.filter(|_| examined >= most);
        Ok(rows)
    }

    /// Fills the page with matches from an id on. Returns false, and leaves the page as it is, if no index narrows down
    /// the search far enough.
    async fn fill_by_index(&self, page: &mut Page, from: PlantId) -> anyhow::Result<bool> {
        let indexes = self.name_indexes.get(self.reader).await?;
        let Some(index) = indexes.for_part(self.part) else { return Ok(false) };
        let found = match self.candidates(index, page, from).await {
            Ok(found) => found,
            Err(error) => {
                // The query took too long, or the index was just dropped.
                log::debug!("a search goes on without an index: {error}");
                return Ok(false);
            }
        };
        let candidates: i64 = found.first().map_or(Ok(0), |row| row.try_get("candidates"))?;
        if candidates >= number(PAGE_MAX_WORK)? {
            return Ok(false);
        }
        page.next = None;
        let mut last = None;
        for row in &found {
            // Without matches, the only row has the number of candidates.
            if row.try_get::<_, Option<i64>>(0)?.is_none() {
                break;
            }
            if page.len() == self.limit {
                page.next = last;
                break;
            }
            last = Some(id_of(row)?);
            push(page, row)?;
        }
        Ok(true)
    }

    /// Runs [`plants_by_name`].
    async fn candidates(
        &self,
        index: NameIndex,
        page: &Page,
        from: PlantId,
    ) -> Result<Vec<Row>, SessionError> {
        let session = self.reader.sessions.get().await?;
        let tag = self.filter.tag();
        let statement = session.sql(&plants_by_name(index, tag.is_some()));
        let (from, most) = (from.get(), i64::try_from(PAGE_MAX_WORK).unwrap_or(i64::MAX));
        let rows = i64::try_from(self.limit - page.len() + 1).unwrap_or(i64::MAX);
        let (pattern, letters) = (pattern(self.part), letters(self.part));
        let condition: &(dyn ToSql + Sync) = match index {
            NameIndex::Trigrams => &pattern,
            NameIndex::Letters => &letters,
        };
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&from, &most, &rows, &self.part, condition];
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let client = session.client()?;
        session
            .answer(async {
                let statement = client.prepare_cached(&statement).await?;
                // All three are sent together, in this order.
                let (begun, found, ended) = join3(
                    client.batch_execute(BEGIN_SEARCH),
                    client.query(&statement, &parameters),
                    client.batch_execute("COMMIT"),
                )
                .await;
                begun?;
                let found = found?;
                ended?;
                Ok(found)
            })
            .await
    }
}

fn number(rows: usize) -> anyhow::Result<i64> {
    i64::try_from(rows).context("a page is too large")
}

fn id_of(row: &Row) -> anyhow::Result<PlantId> {
    Ok(PlantId::from(row.try_get::<_, i64>(0)?))
}

/// Adds the plant in a row, unless it is removed.
fn push(page: &mut Page, row: &Row) -> anyhow::Result<()> {
    if let Some(StoredPlant { id, plant, revision }) = stored_plant(row)? {
        let (name, tag) = plant.members();
        page.push(NewPlantRef { id, name, tag }, revision);
    }
    Ok(())
}

fn first_id(request: &PageRequest) -> Option<PlantId> {
    match request.place {
        plant_store::PagePlace::First => Some(PlantId::MIN),
        plant_store::PagePlace::After(id) => id.next(),
        plant_store::PagePlace::Before(_) => None,
    }
}
