//! Reads of past changes. The changes of a plant are a chain through the blocks of events: the row of the plant has the
//! revision of its newest event, and each event the revision before.

use std::collections::HashMap;

use anyhow::Context as _;
use plant_domain::{Plant, PlantId, PlantRef};
use plant_store::{
    Author, EventKind, HistoryPage, HistoryRequest, PastChange, Revision, StoredPlant,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::events::time_of;
use crate::reader::PostgresReader;
use crate::statements::{kind_of, stored_plant};

/// The changes of plant `$1` from revision `$2` on, or from its newest one, newest first, at most `$3`. Ends before a
/// change that is forgotten, or whose block is of an older version of the tables. The first row has no change, but says
/// whether the plant exists.
///
/// The texts of a block that several changes share are concatenated with nothing, once: else, PostgreSQL would decompress
/// all of them for each of these changes.
const CHANGES: &str = "WITH RECURSIVE log AS MATERIALIZED (SELECT forgotten_to FROM SCHEMA.log WHERE id = 1), \
     plant AS MATERIALIZED (SELECT revision, name IS NOT NULL AS is_there FROM SCHEMA.plants WHERE id = $1), \
     change AS (\
       SELECT 0 AS step, NULL::bigint AS revision, NULL::integer AS place, \
         coalesce($2::bigint, (SELECT revision FROM plant)) AS before \
       UNION ALL \
       SELECT change.step + 1, change.before, block.place, block.before[block.place] \
       FROM change CROSS JOIN LATERAL (\
         SELECT ids, before, array_position(revisions, change.before) AS place FROM SCHEMA.events \
         WHERE block = change.before / 1024 AND block > (SELECT forgotten_to FROM log) AND names IS NOT NULL OFFSET 0) \
         AS block \
       WHERE change.step < $3 AND block.ids[block.place] = $1), \
     block AS MATERIALIZED (\
       SELECT block, at_ms, kinds, CASE WHEN is_shared THEN authors || '{}'::text[] ELSE authors END AS authors, \
         CASE WHEN is_shared THEN names || '{}'::text[] ELSE names END AS names, \
         CASE WHEN is_shared THEN tags || '{}'::text[] ELSE tags END AS tags \
       FROM (SELECT revision / 1024 AS block, count(*) > 1 AS is_shared FROM change GROUP BY 1) AS chosen \
         JOIN SCHEMA.events USING (block)) \
     SELECT change.step, change.revision, block.at_ms, block.kinds[place] AS kind, block.authors[place] AS author, \
       block.names[place] AS name, block.tags[place] AS tag, coalesce((SELECT is_there FROM plant), false) AS is_there \
     FROM change LEFT JOIN block ON block.block = change.revision / 1024 ORDER BY step";

/// Plants at revisions: for each id in `$1` and its revision in `$2`, the current row of the plant or the event, or both.
/// Reads each block once, as [`CHANGES`] does.
const VERSIONS: &str = "WITH wanted AS MATERIALIZED (\
       SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS wanted (id, revision)), \
     block AS MATERIALIZED (\
       SELECT block, ids || '{}'::bigint[] AS ids, revisions || '{}'::bigint[] AS revisions, \
         names || '{}'::text[] AS names, tags || '{}'::text[] AS tags \
       FROM SCHEMA.events WHERE block IN (SELECT revision / 1024 FROM wanted) \
         AND block > (SELECT forgotten_to FROM SCHEMA.log WHERE log.id = 1)) \
     SELECT id, revision, name, tag FROM (\
       SELECT plants.id, plants.revision, plants.name, plants.tag FROM wanted \
       JOIN SCHEMA.plants ON plants.id = wanted.id AND plants.revision = wanted.revision \
       UNION ALL \
       SELECT wanted.id, wanted.revision, block.names[place], block.tags[place] \
       FROM wanted JOIN block ON block.block = wanted.revision / 1024 CROSS JOIN LATERAL (\
         SELECT array_position(block.revisions, wanted.revision) AS place OFFSET 0) AS event \
       WHERE block.ids[place] = wanted.id) AS version \
     WHERE name IS NOT NULL";

/// A page of a plant's history; `None` if nothing is known of the plant, or of the revision before which the page begins.
pub(super) async fn history(
    reader: &PostgresReader,
    HistoryRequest { id, before, limit }: HistoryRequest,
) -> anyhow::Result<Option<HistoryPage>> {
    let limit = limit.max(1);
    // The change that the request names comes first. One more change than the page has tells whether another page follows.
    let from = before.map(|before| i64::try_from(before.get()).unwrap_or(i64::MAX));
    let skipped = usize::from(before.is_some());
    let most = i32::try_from(limit.saturating_add(1 + skipped)).unwrap_or(i32::MAX);
    let id = id.get();
    let parameters: [&(dyn ToSql + Sync); 3] = [&id, &from, &most];
    let rows = reader.rows("the history of a plant", CHANGES, &parameters).await?;
    let (first, rows) = rows.split_first().context("the first row is missing")?;
    let is_there: bool = first.try_get("is_there")?;
    if rows.is_empty() && (before.is_some() || !is_there) {
        return Ok(None);
    }
    let changes = rows.iter().map(past_change).collect::<anyhow::Result<Vec<_>>>()?;
    let is_whole = changes.last().is_some_and(|oldest| oldest.kind == EventKind::Created);
    let mut changes: Vec<_> = changes.into_iter().skip(skipped).collect();
    let has_more = changes.len() > limit;
    changes.truncate(limit);
    let next = changes.last().map(|oldest| oldest.revision).filter(|_| has_more);
    Ok(Some(HistoryPage { changes, next, is_cut: !has_more && !is_whole }))
}

fn past_change(row: &Row) -> anyhow::Result<PastChange> {
    let revision: i64 = row.try_get("revision")?;
    let (name, tag): (Option<&str>, _) = (row.try_get("name")?, row.try_get("tag")?);
    let author: Option<&str> = row.try_get("author")?;
    Ok(PastChange {
        revision: Revision::from(revision.cast_unsigned()),
        kind: kind_of(row.try_get("kind")?)?,
        at: time_of(row.try_get("at_ms")?),
        by: author.map(Author::new).transpose()?,
        plant: name.map(|name| PlantRef { name, tag }.to_plant()).transpose()?,
    })
}

/// The plants at these revisions, without those that are not known.
pub(super) async fn versions(
    reader: &PostgresReader,
    wanted: &[(PlantId, Revision)],
) -> anyhow::Result<HashMap<(PlantId, Revision), Plant>> {
    let ids: Vec<i64> = wanted.iter().map(|(id, _)| id.get()).collect();
    let revisions: Vec<i64> = wanted.iter().map(|(_, it)| it.get().cast_signed()).collect();
    let rows = reader.rows("past states of plants", VERSIONS, &[&ids, &revisions]).await?;
    let plants = rows.iter().map(stored_plant).filter_map(Result::transpose);
    let keyed = |StoredPlant { id, plant, revision }| ((id, revision), plant);
    plants.map(|stored| stored.map(keyed)).collect()
}
