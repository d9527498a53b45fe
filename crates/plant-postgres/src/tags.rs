//! The counts of tags: reading them, and folding the changes of groups into one row for each tag.

use anyhow::Context as _;
use plant_store::{TagCount, TagPage, TagPageRequest};
use tokio_postgres::types::ToSql;

use crate::reader::PostgresReader;
use crate::sessions::Sessions;
use crate::statements::{COUNT_WITH_TAG, FOLD_TAG_CHANGES, FORGET_UNUSED_TAGS, TAGS_FROM};

/// The changes of this many groups are folded at a time.
const MOST_FOLDED: i64 = 1_000;

/// The number of plants with a tag.
pub(super) async fn count_with_tag(reader: &PostgresReader, tag: &str) -> anyhow::Result<u64> {
    // No tag has a NUL, and PostgreSQL takes no text with one.
    if tag.contains('\0') {
        return Ok(0);
    }
    let rows = reader.rows("how many plants have a tag", COUNT_WITH_TAG, &[&tag]).await?;
    let row = rows.first().context("the number of plants with a tag is missing")?;
    plants(row.try_get(0)?)
}

/// A page of tags. One statement reads both tables, so all counts are of one moment.
pub(super) async fn tag_page(
    reader: &PostgresReader,
    request: &TagPageRequest,
) -> anyhow::Result<TagPage> {
    let mut page = TagPage::default();
    if request.prefix.contains('\0') {
        return Ok(page);
    }
    let limit = request.limit.max(1);
    // Two more than the page: one of the tags may be `after`, and one tells whether another page follows.
    let most_tags = i64::try_from(limit.saturating_add(2)).context("a page is too large")?;
    // Tags have no NUL, so the tags greater than this text are those greater than its beginning before the NUL.
    let start = request.start().split('\0').next().unwrap_or_default();
    let rows = reader.rows("tags", TAGS_FROM, &[&start, &most_tags]).await?;
    for row in &rows {
        let (tag, number): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        if number == 0 || !request.selects(&tag) {
            continue;
        }
        if page.tags.len() == limit {
            page.next = page.tags.last().map(|last| last.tag.clone());
            return Ok(page);
        }
        page.tags.push(TagCount { tag, plants: plants(number)? });
    }
    // All other examined tags have no plants now.
    let last_tag: Option<String> = rows.first().map_or(Ok(None), |row| row.try_get(2))?;
    page.next = last_tag.filter(|last| last.starts_with(&request.prefix));
    Ok(page)
}

fn plants(number: i64) -> anyhow::Result<u64> {
    u64::try_from(number).context("the number of plants with a tag is wrong: count again")
}

/// Adds the changes that groups have inserted to the counts of tags, so that readers have few changes to add.
pub(super) async fn fold_tag_changes(sessions: &Sessions) -> anyhow::Result<()> {
    loop {
        let session = sessions.get().await?;
        let client = session.client()?;
        let (fold, forget) = (session.sql(FOLD_TAG_CHANGES), session.sql(FORGET_UNUSED_TAGS));
        let folded = session
            .answer(async {
                let fold = client.prepare_cached(&fold).await?;
                let forget = client.prepare_cached(&forget).await?;
                client.batch_execute("BEGIN").await?;
                let row = client.query_one(&fold, &[&MOST_FOLDED]).await?;
                let (groups, unused): (i64, Vec<String>) = (row.try_get(0)?, row.try_get(1)?);
                if !unused.is_empty() {
                    let unused: [&(dyn ToSql + Sync); 1] = [&unused];
                    client.execute(&forget, &unused).await?;
                }
                client.batch_execute("COMMIT").await?;
                Ok(groups)
            })
            .await;
        match folded {
            Ok(groups) if groups < MOST_FOLDED => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                session.roll_back().await;
                return Err(error.into());
            }
        }
    }
}
