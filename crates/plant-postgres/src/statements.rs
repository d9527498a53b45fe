//! What is said to PostgreSQL, in words that the systems that speak its protocol take too.
//!
//! | table | a row is |
//! |---|---|
//! | `layout` | the version of all this; there is one row |
//! | `plants` | a plant; without a name, one that was removed and whose revision still counts |
//! | `events` | a block of [`EVENTS_IN_A_BLOCK`] revisions: the events of one group, or none; or a seal, which stays |
//! | `counters` | a part of the counts of plants and of events ever; the sum of all rows counts |
//! | `log` | which of the oldest events are forgotten; there is one row |
//!
//! The sequence `event_blocks` numbers the blocks. Nothing here relies on how many rows a command says that it has
//! changed, on locks of sessions, on notifications, or on system columns.

use std::fmt;
use std::str::FromStr;

use anyhow::Context as _;

use plant_store::EventKind;

/// How many revisions a block has. A group has no more events.
pub(super) const EVENTS_IN_A_BLOCK: i64 = 1024;

/// How many plants writes are rehearsed with, and in how many of the last blocks with events they are looked for.
const SAMPLES: i64 = 4;
const BLOCKS_OF_SAMPLES: i64 = 32;

/// What is read of a plant, in this order.
const PLANT: &str = "id, revision, name, tag";

/// Takes everything back where no counter was changed: that is the last row to be written, after all others.
const ALL_WRITTEN: &str = "1 / (SELECT count(*) FROM counted)";

/// How the kinds of events are kept.
const CREATED: i16 = 1;
const UPDATED: i16 = 2;
const DELETED: i16 = 3;

/// How the kind of an event is kept.
pub(super) const fn kind_number(kind: EventKind) -> i16 {
    match kind {
        EventKind::Created => CREATED,
        EventKind::Updated => UPDATED,
        EventKind::Deleted => DELETED,
    }
}

/// The kind of an event that is kept so.
pub(super) fn kind_of(number: i16) -> anyhow::Result<EventKind> {
    [EventKind::Created, EventKind::Updated, EventKind::Deleted]
        .into_iter()
        .find(|kind| kind_number(*kind) == number)
        .with_context(|| format!("there is no kind of event {number}"))
}

/// The schema that is used unless something else is said.
pub const DEFAULT_SCHEMA: &str = "plantd";

/// The most bytes of a name in PostgreSQL.
const NAME_MAX_BYTES: usize = 63;

/// The name of a schema of PostgreSQL: 1 to 63 lower-case letters, digits and underscores, without a digit or `pg_` at
/// its beginning.
///
/// ```
/// use plant_postgres::SchemaName;
///
/// assert_eq!("garden_2".parse::<SchemaName>()?.to_string(), "garden_2");
/// assert!("garden\"; --".parse::<SchemaName>().is_err());
/// # Ok::<(), plant_postgres::NotASchemaName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaName(String);

/// It cannot be the name of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a schema's name is 1 to {NAME_MAX_BYTES} lower-case letters, digits and underscores, without a digit or pg_ at its \
     beginning"
)]
pub struct NotASchemaName;

impl Default for SchemaName {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.to_owned())
    }
}

impl FromStr for SchemaName {
    type Err = NotASchemaName;

    fn from_str(name: &str) -> Result<Self, NotASchemaName> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_name = name.len() <= NAME_MAX_BYTES
            && name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
            // PostgreSQL keeps those for itself.
            && !name.starts_with("pg_");
        if is_name { Ok(Self(name.to_owned())) } else { Err(NotASchemaName) }
    }
}

impl SchemaName {
    /// As it stands in a statement: a name may be a word of SQL too.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The statements that are prepared, about the tables of one schema.
#[derive(Debug)]
pub(super) struct Statements {
    /// Makes new rows, tells of them and counts them, all at once, or fails where one of their ids is taken. `$1` to `$6`
    /// as in [`Self::insert_plants`], `$7` id of the group, `$8` to `$10` numbers, kinds and ids of the events, `$11` slot
    /// of the counter, `$12` and `$13` by how many plants and events it grows: the block.
    pub(super) create_plants: String,
    /// Begins a transaction with the number of a block that nobody else gets. It is not prepared.
    pub(super) begin: String,
    /// Takes rows whose ids are free, and returns those.
    pub(super) insert_plants: String,
    /// Changes rows that have the revision that is expected, and returns those.
    pub(super) update_plants: String,
    /// Tells of the rows that this transaction has written.
    pub(super) insert_events: String,
    /// Counts what was told, as the writer does where all of it is written for sure.
    pub(super) add_to_counter: String,
    /// Writes the block that this session got last as one without events, unless it is written.
    pub(super) skip_block: String,
    /// Takes the place of a group that is not committed, so that it never will be. `$1` id of the group; NULL writes
    /// nothing.
    pub(super) seal_group: String,
    /// The events of a group.
    pub(super) events_of_group: String,
    /// Takes the places of events that are not there, so that they never will be.
    pub(super) seal_blocks: String,
    /// Is as a change for the disk, and changes nothing.
    pub(super) touch_counter: String,
    /// `$1` ids: [`PLANT`], and the idempotency digest.
    pub(super) plants_with_ids: String,
    /// Id, name and tag of some of the plants that were written last, without those whose ids are in `$1`.
    pub(super) newest_plants: String,
    /// `$1` first id, `$2` how many: [`PLANT`].
    pub(super) plants_from: String,
    /// As [`Self::plants_from`], with `$3` tag.
    pub(super) plants_from_with_tag: String,
    /// `$1` first id, `$2` how many, `$3` how many are looked at, `$4` part of the folded name: [`PLANT`], how many were
    /// looked at, and whether it is a match, which the last one that was looked at need not be.
    pub(super) plants_from_with_name: String,
    /// As [`Self::plants_from_with_name`], with `$5` tag.
    pub(super) plants_from_with_tag_and_name: String,
    pub(super) count: String,
    pub(super) events_from: String,
    pub(super) newest_block: String,
    pub(super) forgotten: String,
    /// The number of the last block, and whether the sequence is behind it.
    pub(super) last_block: String,
    pub(super) kept_events: String,
    pub(super) forget_events: String,
    pub(super) forget_removed_plants: String,
    pub(super) note_forgotten: String,
}

impl Statements {
    pub(super) fn new(schema: &SchemaName) -> Self {
        let schema = schema.quoted();
        // Their order is that of the index by tags, and of no other: along the ids, there may be nothing but other tags
        // for long.
        let with_tag =
            |tag: &str| format!("(tag, id) >= ({tag}, $1) AND tag <= {tag} ORDER BY tag, id");
        let with_name_part = |chosen: &str| {
            format!(
                "WITH looked_at AS (\
                   SELECT id, revision, name, folded_name, tag FROM {schema}.plants \
                   WHERE {chosen} LIMIT $3) \
                 SELECT {PLANT}, \
                   (SELECT count(*) FROM looked_at) AS looked_at, \
                   strpos(coalesce(folded_name, ''), $4) > 0 AS is_match \
                 FROM looked_at \
                 WHERE strpos(coalesce(folded_name, ''), $4) > 0 \
                   OR id = (SELECT max(id) FROM looked_at) \
                 ORDER BY id LIMIT $2"
            )
        };
        // Of the transaction that asks, or of the one before it.
        let block = format!("currval('{schema}.event_blocks')");
        let first_revision = format!("{block} * {EVENTS_IN_A_BLOCK}");
        Self {
            // `indexed` writes nothing, and fails where no index keeps an id from being taken twice: to insert all rows with
            // ON CONFLICT costs a fifth more. The counter comes last, so that a writer that waits for an id holds no
            // counter that others wait for.
            create_plants: format!(
                "WITH block AS MATERIALIZED (SELECT nextval('{schema}.event_blocks') AS number), \
                 indexed AS (\
                   INSERT INTO {schema}.plants (id, revision) SELECT 0, 0 WHERE false \
                   ON CONFLICT (id) DO NOTHING), \
                 inserted AS (\
                   INSERT INTO {schema}.plants (id, revision, name, folded_name, tag, idempotency) \
                   SELECT new.id, block.number * {EVENTS_IN_A_BLOCK} + new.number, new.name, \
                     new.folded_name, new.tag, new.idempotency \
                   FROM block, \
                     unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) \
                     AS new (id, number, name, folded_name, tag, idempotency) \
                   RETURNING id), \
                 logged AS (\
                   INSERT INTO {schema}.events (block, group_id, revisions, kinds, ids) \
                   SELECT block.number, $7::bytea, \
                     ARRAY(SELECT block.number * {EVENTS_IN_A_BLOCK} + event.number \
                       FROM unnest($8::bigint[]) AS event (number) ORDER BY event.number), \
                     $9::smallint[], $10::bigint[] \
                   FROM block RETURNING block), \
                 counted AS (\
                   UPDATE {schema}.counters \
                   SET plants = plants + $12::bigint, events = events + $13::bigint \
                   WHERE slot = $11 \
                     AND (SELECT count(*) FROM inserted) = cardinality($1::bigint[]) \
                     AND (SELECT count(*) FROM logged) = 1 \
                   RETURNING slot) \
                 SELECT number, {ALL_WRITTEN} FROM block"
            ),
            begin: format!("BEGIN; SELECT nextval('{schema}.event_blocks')"),
            insert_plants: format!(
                "INSERT INTO {schema}.plants (id, revision, name, folded_name, tag, idempotency) \
                 SELECT id, {first_revision} + number, name, folded_name, tag, idempotency \
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) \
                   AS new (id, number, name, folded_name, tag, idempotency) \
                 ON CONFLICT (id) DO NOTHING RETURNING id"
            ),
            // `currval` fails in a session that has had no block. Such a session runs this for no rows, so `currval` is
            // compared with `new`, which has no rows then, and not with the rows of the table.
            update_plants: format!(
                "UPDATE {schema}.plants SET revision = {first_revision} + new.number, name = new.name, \
                   folded_name = new.folded_name, tag = new.tag, idempotency = new.idempotency \
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[], \
                   $7::bigint[]) \
                   AS new (id, number, name, folded_name, tag, idempotency, expected) \
                 WHERE plants.id = new.id AND plants.revision = new.expected \
                   AND new.expected < {first_revision} RETURNING plants.id"
            ),
            insert_events: format!(
                "INSERT INTO {schema}.events (block, group_id, revisions, kinds, ids) \
                 SELECT {block}, $1::bytea, \
                   coalesce(array_agg({first_revision} + event.number ORDER BY event.number), '{{}}'), \
                   coalesce(array_agg(event.kind ORDER BY event.number), '{{}}'), \
                   coalesce(array_agg(event.id ORDER BY event.number), '{{}}') \
                 FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS event (number, kind, id) \
                 JOIN {schema}.plants ON plants.id = event.id \
                   AND plants.revision >= {first_revision} \
                   AND plants.revision < {first_revision} + {EVENTS_IN_A_BLOCK}"
            ),
            add_to_counter: format!(
                "WITH counted AS (\
                 UPDATE {schema}.counters SET plants = counters.plants + more.plants, events = counters.events + more.events \
                 FROM (SELECT count(*) AS events, \
                     coalesce(sum(CASE kind WHEN {CREATED} THEN 1 WHEN {DELETED} THEN -1 ELSE 0 END), 0) \
                       AS plants \
                   FROM (SELECT unnest(kinds) AS kind FROM {schema}.events WHERE group_id = $2) AS told \
                 ) AS more WHERE slot = $1 \
                   AND EXISTS (SELECT FROM {schema}.events WHERE group_id = $2) RETURNING slot) \
                 SELECT {ALL_WRITTEN}"
            ),
            skip_block: format!(
                "INSERT INTO {schema}.events (block, revisions, kinds, ids) \
                 SELECT {block}, '{{}}', '{{}}', '{{}}' ON CONFLICT (block) DO NOTHING"
            ),
            seal_group: format!(
                "INSERT INTO {schema}.events (block, group_id, is_seal, revisions, kinds, ids) \
                 SELECT nextval('{schema}.event_blocks'), $1::bytea, true, '{{}}', '{{}}', '{{}}' \
                 WHERE $1::bytea IS NOT NULL \
                 ON CONFLICT (group_id) DO NOTHING"
            ),
            events_of_group: format!("SELECT block, ids FROM {schema}.events WHERE group_id = $1"),
            seal_blocks: format!(
                "INSERT INTO {schema}.events (block, is_seal, revisions, kinds, ids) \
                 SELECT block, true, '{{}}', '{{}}', '{{}}' FROM generate_series($1::bigint, $2::bigint) AS gap (block) \
                 ON CONFLICT (block) DO NOTHING"
            ),
            touch_counter: format!(
                "WITH counted AS (\
                 UPDATE {schema}.counters SET plants = plants + 0 WHERE slot = $1 RETURNING slot) \
                 SELECT {ALL_WRITTEN}"
            ),
            plants_with_ids: format!(
                "SELECT {PLANT}, idempotency FROM {schema}.plants WHERE id = ANY($1::bigint[])"
            ),
            newest_plants: format!(
                "SELECT id, name, tag FROM {schema}.plants \
                 WHERE id = ANY(ARRAY(SELECT unnest(ids) FROM (\
                     SELECT ids FROM {schema}.events WHERE cardinality(ids) > 0 \
                     ORDER BY block DESC LIMIT {BLOCKS_OF_SAMPLES}) AS newest)) \
                   AND id <> ALL($1::bigint[]) AND name IS NOT NULL \
                 ORDER BY revision DESC LIMIT {SAMPLES}"
            ),
            plants_from: format!(
                "SELECT {PLANT} FROM {schema}.plants WHERE id >= $1 ORDER BY id LIMIT $2"
            ),
            plants_from_with_tag: format!(
                "SELECT {PLANT} FROM {schema}.plants WHERE {} LIMIT $2",
                with_tag("$3")
            ),
            plants_from_with_name: with_name_part("id >= $1 ORDER BY id"),
            plants_from_with_tag_and_name: with_name_part(&with_tag("$5")),
            count: format!("SELECT coalesce(sum(plants), 0)::bigint FROM {schema}.counters"),
            events_from: format!(
                "SELECT block, revisions, kinds, ids FROM {schema}.events \
                 WHERE block >= $1 ORDER BY block LIMIT $2"
            ),
            last_block: format!(
                "SELECT last.block, last.block > (SELECT last_value FROM {schema}.event_blocks) AS is_behind \
                 FROM (SELECT greatest((SELECT coalesce(max(block), 0) FROM {schema}.events), \
                   (SELECT forgotten_to FROM {schema}.log WHERE id = 1)) AS block) AS last"
            ),
            newest_block: format!("SELECT coalesce(max(block), 0) FROM {schema}.events"),
            forgotten: format!(
                "SELECT forgotten_to, forgotten_revision FROM {schema}.log WHERE id = 1"
            ),
            kept_events: format!(
                "SELECT coalesce(sum(events), 0)::bigint \
                   - (SELECT forgotten_events FROM {schema}.log WHERE id = 1) \
                 FROM {schema}.counters"
            ),
            forget_events: format!(
                "DELETE FROM {schema}.events \
                 WHERE block > $1 AND block <= $2 AND NOT is_seal"
            ),
            forget_removed_plants: format!(
                "DELETE FROM {schema}.plants WHERE name IS NULL AND revision < $1"
            ),
            note_forgotten: format!(
                "UPDATE {schema}.log SET forgotten_to = $2, forgotten_revision = $3, \
                   forgotten_events = forgotten_events + $4 \
                 WHERE id = 1 AND forgotten_to = $1 RETURNING forgotten_to"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_end_a_statement_is_no_name_of_a_schema() {
        for name in ["plantd", "_", "a1", &"a".repeat(63)] {
            assert!(name.parse::<SchemaName>().is_ok(), "{name}");
        }
        for name in ["", "1a", "A", "a b", "a\"", "a'", "a.b", "a;", "ä", "pg_a", &"a".repeat(64)]
        {
            assert_eq!(name.parse::<SchemaName>(), Err(NotASchemaName), "{name}");
        }
    }
}
