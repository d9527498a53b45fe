//! Pages of plants.
//!
//! A search for a part of a name first scans plants in the order of ids, which fills the page soon if matches are
//! frequent. If they seem rare, an index collects candidates. Without an index, or with too many candidates, the scan
//! continues up to [`PAGE_MAX_WORK`] plants.
//!
//! All plants of a page are of one moment: either one statement reads them, or a transaction.

use anyhow::Context as _;
use futures_util::future::join3;
use plant_domain::{PlantFilter, PlantId};
use plant_store::{PAGE_MAX_WORK, Page, PagePlace, PageRequest, StoredPlant};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::name_index::{KnownNameIndexes, letters, pattern};
use crate::page_statements::{
    BEGIN_MOMENT, BEGIN_SEARCH, Direction, END_SEARCH, NameIndex, plants_by_name, plants_from,
};
use crate::reader::{PostgresReader, Retries, page_of};
use crate::sessions::{Session, SessionError};
use crate::statements::stored_plant;

/// How many rows the second and later queries for a page without a name part read, because rows of removed plants may
/// be in the way.
const MOST_ROWS: usize = 1_000;

/// How many plants a search scans first.
const FIRST_EXAMINED: usize = 2_000;

/// The next query scans this many times as many plants.
const GROWTH: usize = 4;

/// A page of the plants of this moment.
pub(super) async fn page(
    reader: &PostgresReader,
    name_indexes: &KnownNameIndexes,
    request: &PageRequest,
) -> anyhow::Result<Page> {
    let mut retries = Retries::default();
    loop {
        match page_of_now(reader, name_indexes, request).await {
            Ok(page) => return Ok(page),
            Err(error) => retries.after(error).await.context("cannot read plants")?,
        }
    }
}

async fn page_of_now(
    reader: &PostgresReader,
    name_indexes: &KnownNameIndexes,
    request: &PageRequest,
) -> anyhow::Result<Page> {
    let session = reader.sessions.get().await?;
    if request.filter.folded_name_part().is_none() {
        let mut search = Search::new(&session, name_indexes, request);
        if search.find_in_one_statement().await? {
            return Ok(search.into_page());
        }
    }
    begin_moment(&session).await?;
    let page = page_of_moment(&session, name_indexes, request).await;
    session.roll_back().await;
    page
}

/// Begins a transaction whose reads are of this moment.
pub(super) async fn begin_moment(session: &Session) -> Result<(), SessionError> {
    let begun = session.answer(session.client()?.batch_execute(&session.sql(BEGIN_MOMENT))).await;
    if begun.is_err() {
        session.roll_back().await;
    }
    begun
}

/// A page of the moment of the session's transaction.
pub(super) async fn page_of_moment(
    session: &Session,
    name_indexes: &KnownNameIndexes,
    request: &PageRequest,
) -> anyhow::Result<Page> {
    let mut search = Search::new(session, name_indexes, request);
    search.find().await?;
    Ok(search.into_page())
}

/// A page in progress.
struct Search<'a> {
    session: &'a Session,
    name_indexes: &'a KnownNameIndexes,
    filter: &'a PlantFilter,
    limit: usize,
    direction: Direction,
    /// Where the next statement begins; `None` at the end of all plants.
    from: Option<PlantId>,
    /// In the order of reading.
    found: Vec<StoredPlant>,
    /// The last plant examined, if more may follow.
    next: Option<PlantId>,
}

impl<'a> Search<'a> {
    fn new(
        session: &'a Session,
        name_indexes: &'a KnownNameIndexes,
        request: &'a PageRequest,
    ) -> Self {
        let (direction, from) = match request.place {
            PagePlace::First => (Direction::Ascending, Some(PlantId::MIN)),
            PagePlace::After(id) => (Direction::Ascending, id.next()),
            PagePlace::Before(id) => (Direction::Descending, id.previous()),
        };
        let filter = &request.filter;
        // No plant has a NUL, and PostgreSQL takes no text with one.
        let has_nul = |text: Option<&str>| text.is_some_and(|text| text.contains('\0'));
        let from = from.filter(|_| !has_nul(filter.folded_name_part()) && !has_nul(filter.tag()));
        Self {
            session,
            name_indexes,
            filter,
            limit: request.limit.max(1),
            direction,
            from,
            found: Vec::new(),
            next: None,
        }
    }

    fn into_page(mut self) -> Page {
        if self.direction == Direction::Descending {
            self.found.reverse();
        }
        let mut page = page_of(&self.found);
        page.next = self.next;
        page
    }

    async fn find(&mut self) -> anyhow::Result<()> {
        match self.filter.folded_name_part() {
            Some(part) => self.find_by_name(part).await,
            None => self.find_in_order().await,
        }
    }

    /// Without a part of a name. Returns whether one statement was enough.
    async fn find_in_one_statement(&mut self) -> anyhow::Result<bool> {
        if let Some(from) = self.from {
            self.add_rows(from, self.limit).await?;
        }
        Ok(self.is_full() || self.next.is_none())
    }

    /// All plants, or those with a tag.
    async fn find_in_order(&mut self) -> anyhow::Result<()> {
        let (mut rows, mut read) = (self.limit, 0);
        // Rows of removed plants are not on the page, so more rows are read.
        while let Some(from) = self.from
            && !self.is_full()
            && read < PAGE_MAX_WORK
        {
            read += self.add_rows(from, rows.max(self.limit - self.found.len())).await?;
            rows = MOST_ROWS;
            self.from = self.next.and_then(|next| self.direction.after(next));
        }
        Ok(())
    }

    /// Adds the plants of the next rows, at most `most`. Returns how many rows were read.
    async fn add_rows(&mut self, from: PlantId, most: usize) -> anyhow::Result<usize> {
        let (from, one_more) = (from.get(), number(most.saturating_add(1))?);
        let tag = self.filter.tag();
        let statement = plants_from(self.direction, tag.is_some(), false);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&from, &one_more];
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let rows = self.session.rows(&statement, &parameters).await?;
        self.next = None;
        let mut last = None;
        for (place, row) in rows.iter().enumerate() {
            if self.is_full() || place == most {
                self.next = last;
                break;
            }
            last = Some(id_of(row)?);
            self.add(row)?;
        }
        Ok(rows.len().min(most))
    }

    async fn find_by_name(&mut self, part: &str) -> anyhow::Result<()> {
        let (mut examined, mut rows) = (0, FIRST_EXAMINED);
        let mut may_use_index = true;
        while let Some(from) = self.from
            && !self.is_full()
            && examined < PAGE_MAX_WORK
        {
            let seems_rare = self.found.len() * PAGE_MAX_WORK < self.limit * examined;
            if examined > 0
                && seems_rare
                && std::mem::take(&mut may_use_index)
                && self.fill_by_index(part, from).await?
            {
                return Ok(());
            }
            let most = rows.min(PAGE_MAX_WORK - examined);
            self.fill_in_order(part, from, most).await?;
            examined += most;
            rows *= GROWTH;
            self.from = self.next.and_then(|next| self.direction.after(next));
        }
        Ok(())
    }

    /// Adds the matches among the next `rows` plants.
    async fn fill_in_order(
        &mut self,
        part: &str,
        from: PlantId,
        rows: usize,
    ) -> anyhow::Result<()> {
        let (from, most) = (from.get(), number(rows)?);
        let most_found = number((self.limit - self.found.len()).saturating_add(1))?;
        let tag = self.filter.tag();
        let statement = plants_from(self.direction, tag.is_some(), true);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&from, &most_found, &most, &part];
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let rows = self.session.rows(&statement, &parameters).await?;
        self.next = None;
        let (mut last, mut examined) = (None, 0);
        for row in &rows {
            examined = row.try_get("examined").context("how many plants were examined")?;
            if self.is_full() {
                self.next = last;
                return Ok(());
            }
            last = Some(id_of(row)?);
            // The last examined row is in the result even if it does not match.
            if row.try_get("is_match").context("a match")? {
                self.add(row)?;
            }
        }
        self.next = last.filter(|_| examined >= most);
        Ok(())
    }

    /// Fills the page with matches from an id on. Returns false, and leaves the page as it is, if no index narrows down
    /// the search far enough.
    async fn fill_by_index(&mut self, part: &str, from: PlantId) -> anyhow::Result<bool> {
        let indexes = self.name_indexes.get(self.session).await?;
        let Some(index) = indexes.for_part(part) else { return Ok(false) };
        let rows = match self.candidates(index, part, from).await {
            Ok(rows) => rows,
            Err(error) => {
                // The query took too long, or the index was just dropped.
                log::debug!("a search goes on without an index: {error}");
                return Ok(false);
            }
        };
        let candidates: i64 = rows.first().map_or(Ok(0), |row| row.try_get("candidates"))?;
        if candidates >= number(PAGE_MAX_WORK)? {
            return Ok(false);
        }
        self.next = None;
        let mut last = None;
        for row in &rows {
            // Without matches, the only row has the number of candidates.
            if row.try_get::<_, Option<i64>>(0)?.is_none() {
                break;
            }
            if self.is_full() {
                self.next = last;
                break;
            }
            last = Some(id_of(row)?);
            self.add(row)?;
        }
        Ok(true)
    }

    /// Runs [`plants_by_name`].
    async fn candidates(
        &self,
        index: NameIndex,
        part: &str,
        from: PlantId,
    ) -> Result<Vec<Row>, SessionError> {
        let tag = self.filter.tag();
        let statement = plants_by_name(self.direction, index, tag.is_some());
        let statement = self.session.sql(&statement);
        let (from, most) = (from.get(), i64::try_from(PAGE_MAX_WORK).unwrap_or(i64::MAX));
        let rows = (self.limit - self.found.len()).saturating_add(1);
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let (pattern, letters) = (pattern(part), letters(part));
        let condition: &(dyn ToSql + Sync) = match index {
            NameIndex::Trigrams => &pattern,
            NameIndex::Letters => &letters,
        };
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&from, &most, &rows, &part, condition];
        if let Some(tag) = &tag {
            parameters.push(tag);
        }
        let client = self.session.client()?;
        self.session
            .answer(async {
                let statement = client.prepare_cached(&statement).await?;
                // All three are sent together, in this order.
                let (begun, found, ended) = join3(
                    client.batch_execute(BEGIN_SEARCH),
                    client.query(&statement, &parameters),
                    client.batch_execute(END_SEARCH),
                )
                .await;
                begun?;
                ended?;
                found
            })
            .await
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Adds the plant in a row, unless it is removed.
    fn add(&mut self, row: &Row) -> anyhow::Result<()> {
        self.found.extend(stored_plant(row)?);
        Ok(())
    }
}

fn number(rows: usize) -> anyhow::Result<i64> {
    i64::try_from(rows).context("a page is too large")
}

fn id_of(row: &Row) -> anyhow::Result<PlantId> {
    Ok(PlantId::from(row.try_get::<_, i64>(0)?))
}
