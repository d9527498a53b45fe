//! The SQL. [`Session::sql`](crate::sessions::Session::sql) replaces `SCHEMA.` by the schema's name.
//!
//! | table | a row is |
//! |---|---|
//! | `layout` | the version of the tables (one row) |
//! | `plants` | a plant; without a name, a removed plant whose revision still counts |
//! | `events` | a block of [`EVENTS_IN_A_BLOCK`] revisions: the events of one group, or none, or a permanent seal |
//! | `counters` | a share of the counts of plants and of all events ever; the counts are the sums over all rows |
//! | `tag_counts` | a tag, and the number of its plants without the changes in `tag_changes` |
//! | `tag_changes` | by how much one group changed the numbers of some tags, until upkeep adds this to `tag_counts` |
//! | `log` | which of the oldest events are forgotten (one row) |
//!
//! The sequence `event_blocks` numbers the blocks. The revisions of block `n` begin at `n * 1024`. A statement that
//! ends with `1 / (SELECT count(*) FROM counted)` fails, and rolls everything back, if it has changed no counter.
//!
//! If each group updated `tag_counts`, groups with the same tags would wait for each other. So a group only inserts its
//! changes, and readers add those that are not folded yet.

use anyhow::Context as _;
use plant_domain::{PlantId, PlantRef};
use plant_store::{EventKind, Revision, StoredPlant};
use tokio_postgres::Row;

/// The number of revisions in a block; 1024 in the SQL. A group has at most this many events.
pub(super) const EVENTS_IN_A_BLOCK: i64 = 1024;

/// The number of a kind of event in the table.
pub(super) const fn kind_number(kind: EventKind) -> i16 {
    match kind {
        EventKind::Created => 1,
        EventKind::Updated => 2,
        EventKind::Deleted => 3,
    }
}

/// The kind of event with a number in the table.
pub(super) fn kind_of(number: i16) -> anyhow::Result<EventKind> {
    EventKind::ALL
        .into_iter()
        .find(|kind| kind_number(*kind) == number)
        .with_context(|| format!("an event is of kind {number}, which is unknown"))
}

/// The columns that [`stored_plant`] reads.
pub(super) const PLANT: &str = "id, revision, name, tag";

/// The plant in a row that begins with the columns [`PLANT`]; `None` for a removed plant. Checks the create rules,
/// because this program writes no row that breaks one.
pub(super) fn stored_plant(row: &Row) -> anyhow::Result<Option<StoredPlant>> {
    let (id, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (name, tag): (Option<&str>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
    let Some(name) = name else { return Ok(None) };
    let plant = PlantRef { name, tag }.to_plant();
    let plant = plant.with_context(|| format!("the row of plant {id} breaks the rules"))?;
    let revision = Revision::from(revision.cast_unsigned());
    Ok(Some(StoredPlant { id: PlantId::from(id), plant, revision }))
}

/// Inserts new rows, their events and their counts in one statement, and returns the block. Fails if an id is taken.
/// `$1` to `$6`: as in [`INSERT_PLANTS`]; `$7`: the group's id; `$8` to `$14`: numbers, kinds, ids, authors, names, tags
/// and revisions before of the events; `$15`: the counter's slot; `$16`: the growth of the count of plants; `$17` and
/// `$18`: each tag once, and how many of the plants have it.
///
/// `indexed` writes nothing. It fails if no unique index protects the ids, and costs less than `ON CONFLICT` on all
/// rows, which is a fifth slower. The counter comes last, so a writer that waits for an id holds no counter.
pub(super) const CREATE_PLANTS: &str = "WITH block AS MATERIALIZED (SELECT nextval('SCHEMA.event_blocks') AS number), \
     indexed AS (\
       INSERT INTO SCHEMA.plants (id, revision) SELECT 0, 0 WHERE false ON CONFLICT (id) DO NOTHING), \
     inserted AS (\
       INSERT INTO SCHEMA.plants (id, revision, name, folded_name, tag, idempotency) \
       SELECT new.id, block.number * 1024 + new.number, new.name, new.folded_name, new.tag, new.idempotency \
       FROM block, unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) \
         AS new (id, number, name, folded_name, tag, idempotency) \
       RETURNING id), \
     logged AS (\
       INSERT INTO SCHEMA.events (block, group_id, revisions, kinds, ids, authors, names, tags, before) \
       SELECT block.number, $7::bytea, \
         ARRAY(SELECT block.number * 1024 + event.number \
           FROM unnest($8::bigint[]) AS event (number) ORDER BY event.number), \
         $9::smallint[], $10::bigint[], $11::text[], $12::text[], $13::text[], \
         CASE WHEN $14::bigint[] IS NOT NULL THEN ARRAY(SELECT event.before \
             - CASE WHEN event.before >= 4611686018427387904 THEN 4611686018427387904 - block.number * 1024 ELSE 0 END \
           FROM unnest($8::bigint[], $14::bigint[]) AS event (number, before) ORDER BY event.number) END \
       FROM block RETURNING block), \
     tagged AS (\
       INSERT INTO SCHEMA.tag_changes (block, tags, plants) \
       SELECT block.number, $17::text[], $18::bigint[] FROM block WHERE cardinality($17::text[]) > 0 RETURNING block), \
     counted AS (\
       UPDATE SCHEMA.counters SET plants = plants + $16::bigint, events = events + cardinality($10::bigint[]) \
       WHERE slot = $15 \
         AND (SELECT count(*) FROM inserted) = cardinality($1::bigint[]) \
         AND (SELECT count(*) FROM logged) = 1 \
         AND (SELECT count(*) FROM tagged) = least(cardinality($17::text[]), 1) \
       RETURNING slot) \
     SELECT number, 1 / (SELECT count(*) FROM counted) FROM block";

/// Begins a transaction and takes the next block. Not prepared.
pub(super) const BEGIN: &str = "BEGIN; SELECT nextval('SCHEMA.event_blocks')";

/// Takes the next block in a transaction that has begun. Not prepared.
pub(super) const TAKE_BLOCK: &str = "SELECT nextval('SCHEMA.event_blocks')";

/// Inserts the rows with free ids, and returns these ids.
pub(super) const INSERT_PLANTS: &str = "INSERT INTO SCHEMA.plants (id, revision, name, folded_name, tag, idempotency) \
     SELECT id, currval('SCHEMA.event_blocks') * 1024 + number, name, folded_name, tag, idempotency \
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) \
       AS new (id, number, name, folded_name, tag, idempotency) \
     ON CONFLICT (id) DO NOTHING RETURNING id";

/// Updates the rows that have the expected revision (`$7`), and returns their ids.
///
/// `currval` fails in a session that has taken no block yet. A probe runs this statement in such a session, but without
/// rows, so `currval` is compared with `new`, which is then empty, and not with the table.
pub(super) const UPDATE_PLANTS: &str = "UPDATE SCHEMA.plants SET revision = currval('SCHEMA.event_blocks') * 1024 + new.number, name = new.name, \
       folded_name = new.folded_name, tag = new.tag, idempotency = new.idempotency \
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bigint[]) \
       AS new (id, number, name, folded_name, tag, idempotency, expected) \
     WHERE plants.id = new.id AND plants.revision = new.expected \
       AND new.expected < currval('SCHEMA.event_blocks') * 1024 RETURNING plants.id";

/// Inserts the events of the rows that this transaction has written. `$1`: the group's id; `$2` and `$3`: the digest and
/// the results of a batch, or NULL; `$4` to `$10`: the columns of the events. A column without any value is NULL.
pub(super) const INSERT_EVENTS: &str = "INSERT INTO SCHEMA.events \
       (block, group_id, batch, results, revisions, kinds, ids, authors, names, tags, before) \
     SELECT currval('SCHEMA.event_blocks'), $1::bytea, $2::bytea, $3::bytea, \
       coalesce(array_agg(currval('SCHEMA.event_blocks') * 1024 + event.number ORDER BY event.number), '{}'), \
       coalesce(array_agg(event.kind ORDER BY event.number), '{}'), \
       coalesce(array_agg(event.id ORDER BY event.number), '{}'), \
       CASE WHEN count(event.author) > 0 THEN array_agg(event.author ORDER BY event.number) END, \
       coalesce(array_agg(event.name ORDER BY event.number), '{}'), \
       CASE WHEN count(event.tag) > 0 THEN array_agg(event.tag ORDER BY event.number) END, \
       CASE WHEN count(event.before) > 0 THEN array_agg(event.before \
           - CASE WHEN event.before >= 4611686018427387904 \
               THEN 4611686018427387904 - currval('SCHEMA.event_blocks') * 1024 ELSE 0 END \
         ORDER BY event.number) END \
     FROM unnest($4::bigint[], $5::smallint[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::bigint[]) \
       AS event (number, kind, id, author, name, tag, before) \
     JOIN SCHEMA.plants ON plants.id = event.id \
       AND plants.revision >= currval('SCHEMA.event_blocks') * 1024 \
       AND plants.revision < currval('SCHEMA.event_blocks') * 1024 + 1024";

/// Adds the events of group `$2` to the counter in slot `$1`.
pub(super) const ADD_TO_COUNTER: &str = "WITH counted AS (\
       UPDATE SCHEMA.counters SET plants = counters.plants + more.plants, events = counters.events + more.events \
       FROM (SELECT count(*) AS events, \
           coalesce(sum(CASE kind WHEN 1 THEN 1 WHEN 3 THEN -1 ELSE 0 END), 0) AS plants \
         FROM (SELECT unnest(kinds) AS kind FROM SCHEMA.events WHERE group_id = $2) AS told) AS more \
       WHERE slot = $1 AND EXISTS (SELECT FROM SCHEMA.events WHERE group_id = $2) RETURNING slot) \
     SELECT 1 / (SELECT count(*) FROM counted)";

/// Inserts the changes of tag counts by the rows that this transaction has written: the plant with an id in `$1` adds
/// the number in `$3` to the tag in `$2`. `$4`: the number of events if all rows were written; no row is then read
/// again.
pub(super) const INSERT_TAG_CHANGES: &str = "WITH summed AS MATERIALIZED (\
       SELECT change.tag, sum(change.more)::bigint AS more \
       FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS change (id, tag, more) \
       WHERE (SELECT cardinality(ids) = $4 FROM SCHEMA.events WHERE block = currval('SCHEMA.event_blocks')) \
         OR EXISTS (SELECT FROM SCHEMA.plants WHERE plants.id = change.id \
           AND plants.revision >= currval('SCHEMA.event_blocks') * 1024 \
           AND plants.revision < currval('SCHEMA.event_blocks') * 1024 + 1024) \
       GROUP BY change.tag HAVING sum(change.more) <> 0), \
     counted AS (\
       INSERT INTO SCHEMA.tag_changes (block, tags, plants) \
       SELECT currval('SCHEMA.event_blocks'), array_agg(tag), array_agg(more) FROM summed HAVING count(*) > 0 \
       RETURNING block) \
     SELECT 1 / (SELECT count(*) FROM counted) WHERE EXISTS (SELECT FROM summed)";

/// Adds the oldest rows of `tag_changes`, at most `$1`, to `tag_counts`. Returns the number of these rows, and the tags
/// without plants. `ORDER BY` keeps two servers from waiting for each other.
pub(super) const FOLD_TAG_CHANGES: &str = "WITH taken AS (\
       DELETE FROM SCHEMA.tag_changes \
       WHERE block = ANY(ARRAY(SELECT block FROM SCHEMA.tag_changes ORDER BY block LIMIT $1)) RETURNING tags, plants), \
     summed AS (\
       SELECT change.tag, sum(change.more)::bigint AS plants \
       FROM taken, unnest(taken.tags, taken.plants) AS change (tag, more) \
       GROUP BY change.tag HAVING sum(change.more) <> 0), \
     folded AS (\
       INSERT INTO SCHEMA.tag_counts (tag, plants) SELECT tag, plants FROM summed ORDER BY tag COLLATE \"C\" \
       ON CONFLICT (tag) DO UPDATE SET plants = tag_counts.plants + excluded.plants RETURNING tag, plants) \
     SELECT (SELECT count(*) FROM taken), ARRAY(SELECT tag FROM folded WHERE plants = 0)";

pub(super) const FORGET_UNUSED_TAGS: &str =
    "DELETE FROM SCHEMA.tag_counts WHERE tag = ANY($1::text[]) AND plants = 0";

/// The number of plants with tag `$1`.
pub(super) const COUNT_WITH_TAG: &str = "SELECT (coalesce((SELECT plants FROM SCHEMA.tag_counts WHERE tag = $1), 0) \
       + coalesce((SELECT sum(change.more) \
         FROM SCHEMA.tag_changes, unnest(tags, plants) AS change (tag, more) WHERE change.tag = $1), 0))::bigint";

/// Tags from `$1` on, and the numbers of their plants, which may be 0. Examines at most `$2` tags of `tag_counts`.
/// `last_tag` is the last one examined if more may follow, otherwise NULL.
pub(super) const TAGS_FROM: &str = "WITH counted AS MATERIALIZED (\
       SELECT tag, plants FROM SCHEMA.tag_counts WHERE tag >= $1 ORDER BY tag LIMIT $2), \
     examined AS MATERIALIZED (SELECT CASE WHEN count(*) >= $2 THEN max(tag) END AS last_tag FROM counted), \
     changed AS MATERIALIZED (\
       SELECT change.tag COLLATE \"C\" AS tag, change.more AS plants \
       FROM SCHEMA.tag_changes, unnest(tags, plants) AS change (tag, more) WHERE change.tag COLLATE \"C\" >= $1) \
     SELECT tag, sum(plants)::bigint AS plants, last_tag \
     FROM (SELECT * FROM counted UNION ALL SELECT * FROM changed) AS numbers, examined \
     WHERE last_tag IS NULL OR tag <= last_tag \
     GROUP BY tag, last_tag ORDER BY tag COLLATE \"C\"";

/// Writes the session's last block without events, unless the block exists.
pub(super) const SKIP_BLOCK: &str = "INSERT INTO SCHEMA.events (block, revisions, kinds, ids) \
     SELECT currval('SCHEMA.event_blocks'), '{}', '{}', '{}' ON CONFLICT (block) DO NOTHING";

/// Seals group `$1`: a group that is not committed yet never will be. With NULL, writes nothing.
pub(super) const SEAL_GROUP: &str = "INSERT INTO SCHEMA.events (block, group_id, is_seal, revisions, kinds, ids) \
     SELECT nextval('SCHEMA.event_blocks'), $1::bytea, true, '{}', '{}', '{}' \
     WHERE $1::bytea IS NOT NULL ON CONFLICT (group_id) DO NOTHING";

pub(super) const EVENTS_OF_GROUP: &str = "SELECT block, ids FROM SCHEMA.events WHERE group_id = $1";

/// Seals the missing blocks from `$1` to `$2`, so that they can never be committed.
pub(super) const SEAL_BLOCKS: &str = "INSERT INTO SCHEMA.events (block, is_seal, revisions, kinds, ids) \
     SELECT block, true, '{}', '{}', '{}' FROM generate_series($1::bigint, $2::bigint) AS gap (block) \
     ON CONFLICT (block) DO NOTHING";

/// A no-op update whose commit still waits for the disk.
pub(super) const TOUCH_COUNTER: &str = "WITH counted AS (UPDATE SCHEMA.counters SET plants = plants + 0 WHERE slot = $1 RETURNING slot) \
     SELECT 1 / (SELECT count(*) FROM counted)";

/// The rows with ids `$1`, by ascending id.
pub(super) const PLANTS_WITH_IDS: &str = "SELECT id, revision, name, tag, idempotency FROM SCHEMA.plants \
     WHERE id = ANY($1::bigint[]) ORDER BY id";

/// Like [`PLANTS_WITH_IDS`], and keeps others from changing these rows until the transaction ends.
pub(super) const LOCK_PLANTS_WITH_IDS: &str = "SELECT id, revision, name, tag, idempotency FROM SCHEMA.plants \
     WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE";

/// The block and the results of the batch with digest `$1`.
pub(super) const EARLIER_BATCH: &str =
    "SELECT block, results FROM SCHEMA.events WHERE batch = $1::bytea";

/// Up to four plants of the newest blocks, except those with ids `$1`.
pub(super) const NEWEST_PLANTS: &str = "SELECT id, revision, name, tag FROM SCHEMA.plants \
     WHERE id = ANY(ARRAY(SELECT unnest(ids) FROM (\
         SELECT ids FROM SCHEMA.events WHERE cardinality(ids) > 0 ORDER BY block DESC LIMIT 32) AS newest)) \
       AND id <> ALL($1::bigint[]) AND name IS NOT NULL \
     ORDER BY revision DESC LIMIT 4";

/// Sorts the newest names, which each search reads one by one, into the index. Only the owner of the index may.
pub(super) const SORT_NEWEST_NAMES: &str = "SELECT gin_clean_pending_list('SCHEMA.plants_by_name')";

pub(super) const COUNT: &str = "SELECT coalesce(sum(plants), 0)::bigint FROM SCHEMA.counters";

/// The beginning of every query for events: the row of the log, and what identifies the log. A promoted standby has
/// another timeline, and may lack the newest changes unless commits wait for a standby.
macro_rules! with_log {
    ($rest:literal) => {
        concat!(
            "WITH log AS MATERIALIZED (SELECT forgotten_to, forgotten_revision, forgotten_group, store_id, \
               ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint AS timeline, \
               current_setting('synchronous_standby_names') <> '' \
                 AND current_setting('synchronous_commit') <> 'local' AS is_synchronous \
             FROM SCHEMA.log WHERE id = 1) ",
            $rest
        )
    };
}

pub(super) const LOG: &str = with_log!("SELECT * FROM log");

/// The row of the log, with up to `$2` blocks from number `$1` on that are not forgotten.
pub(super) const EVENTS_FROM: &str = with_log!(
    "SELECT log.*, block, group_id, at_ms, revisions, kinds, ids, authors FROM log \
     LEFT JOIN LATERAL (SELECT * FROM SCHEMA.events WHERE block >= $1 AND block > log.forgotten_to \
       ORDER BY block LIMIT $2) AS blocks ON true \
     ORDER BY block"
);

/// The row of the log, with the last block before the first gap after block `$1`, and the last event up to there. If
/// the database was reset to an earlier state, block `$1` is missing, and the search starts over.
pub(super) const NEWEST_EVENT: &str = with_log!(
    ", start AS MATERIALIZED (SELECT CASE WHEN $1::bigint > forgotten_to \
         AND EXISTS (SELECT FROM SCHEMA.events WHERE block = $1) THEN $1 ELSE forgotten_to END AS block FROM log), \
     reached AS MATERIALIZED (\
       SELECT coalesce(max(later.block), (SELECT block FROM start)) AS block FROM (\
         SELECT block, row_number() OVER (ORDER BY block) AS number FROM SCHEMA.events \
         WHERE block > (SELECT block FROM start)) AS later \
       WHERE later.block = (SELECT block FROM start) + later.number) \
     SELECT log.*, reached.block, newest.group_id, newest.revision FROM log, reached \
     LEFT JOIN LATERAL (\
       SELECT group_id, revisions[cardinality(revisions)] AS revision FROM SCHEMA.events \
       WHERE block <= reached.block AND block > (SELECT forgotten_to FROM log) AND cardinality(revisions) > 0 \
       ORDER BY block DESC LIMIT 1) AS newest ON true"
);

pub(super) const NEWEST_BLOCK: &str = "SELECT coalesce(max(block), 0) FROM SCHEMA.events";

/// The number of the last block, and whether the sequence is behind it.
pub(super) const LAST_BLOCK: &str = "SELECT last.block, last.block > (SELECT last_value FROM SCHEMA.event_blocks) AS is_behind \
     FROM (SELECT greatest((SELECT coalesce(max(block), 0) FROM SCHEMA.events), \
       (SELECT forgotten_to FROM SCHEMA.log WHERE id = 1)) AS block) AS last";

pub(super) const KEPT_EVENTS: &str = "SELECT coalesce(sum(events), 0)::bigint \
       - (SELECT forgotten_events FROM SCHEMA.log WHERE id = 1) FROM SCHEMA.counters";

/// Milliseconds since 1970, by the clock that all servers share.
pub(super) const NOW_MS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Notes that blocks up to `$2` are forgotten, if `$1` is still the last forgotten one. `$3` and `$4`: the last
/// revision in the blocks and its group, if they have any; `$5`: their number of events.
pub(super) const NOTE_FORGOTTEN: &str = "UPDATE SCHEMA.log SET forgotten_to = $2, \
       forgotten_revision = coalesce($3::bigint, forgotten_revision), \
       forgotten_group = CASE WHEN $3 IS NULL THEN forgotten_group ELSE $4::bytea END, \
       forgotten_events = forgotten_events + $5 \
     WHERE id = 1 AND forgotten_to = $1 RETURNING forgotten_to";

pub(super) const FORGET_EVENTS: &str =
    "DELETE FROM SCHEMA.events WHERE block > $1 AND block <= $2 AND NOT is_seal";

pub(super) const FORGET_REMOVED_PLANTS: &str =
    "DELETE FROM SCHEMA.plants WHERE name IS NULL AND revision < $1";
