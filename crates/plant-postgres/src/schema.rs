//! Creates the tables, or checks existing ones.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::config::{PostgresConfig, SchemaName};
use crate::name_index;
use crate::page_statements::MAKE_LETTERS_INDEX;
use crate::sessions::{Session, SessionError, Sessions, pause};
use crate::statements::LAST_BLOCK;

/// The version of the tables that this program uses.
const VERSION: i32 = 6;

/// The number of counter rows. Each group adds to one row, and two groups that add to the same row wait for each other.
pub(super) const COUNTER_SLOTS: i32 = 128;

/// The most attempts to create the tables when deadlocks occur.
const MOST_TRIES: u32 = 30;

const FIND_VERSION: &str = "SELECT version FROM SCHEMA.layout WHERE id = 1";

const MAKE_LAYOUT: &str =
    "CREATE TABLE IF NOT EXISTS SCHEMA.layout (id integer PRIMARY KEY, version integer NOT NULL)";

const NOTE_VERSION: &str =
    "INSERT INTO SCHEMA.layout (id, version) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";

/// Creates the tables, without the rows of the counters. `STORE_ID` stands for a random number. The low fill factor
/// leaves room to update counters in place.
const MAKE_TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS SCHEMA.plants (id bigint PRIMARY KEY, revision bigint NOT NULL, \
      name text COLLATE \"C\", folded_name text COLLATE \"C\", tag text COLLATE \"C\", idempotency bytea); \
    CREATE INDEX IF NOT EXISTS plants_by_tag ON SCHEMA.plants (tag, id) WHERE tag IS NOT NULL; \
    CREATE INDEX IF NOT EXISTS removed_plants ON SCHEMA.plants (revision) WHERE name IS NULL; \
    CREATE TABLE IF NOT EXISTS SCHEMA.events (block bigint PRIMARY KEY, group_id bytea UNIQUE, \
      is_seal boolean NOT NULL DEFAULT false, \
      at_ms bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
      revisions bigint[] NOT NULL, kinds smallint[] NOT NULL, ids bigint[] NOT NULL, \
      authors text[], names text[], tags text[], before bigint[], batch bytea, results bytea); \
    CREATE UNIQUE INDEX IF NOT EXISTS events_by_batch ON SCHEMA.events (batch) WHERE batch IS NOT NULL; \
    CREATE TABLE IF NOT EXISTS SCHEMA.counters (slot integer PRIMARY KEY, plants bigint NOT NULL, events bigint NOT NULL) \
      WITH (fillfactor = 10); \
    CREATE TABLE IF NOT EXISTS SCHEMA.tag_counts (tag text COLLATE \"C\" PRIMARY KEY, plants bigint NOT NULL) \
      WITH (fillfactor = 50); \
    CREATE TABLE IF NOT EXISTS SCHEMA.tag_changes (block bigint PRIMARY KEY, tags text[] NOT NULL, plants bigint[] NOT NULL); \
    CREATE TABLE IF NOT EXISTS SCHEMA.log (id integer PRIMARY KEY, forgotten_to bigint NOT NULL, \
      forgotten_revision bigint NOT NULL, forgotten_group bytea, forgotten_events bigint NOT NULL, \
      store_id bigint NOT NULL); \
    INSERT INTO SCHEMA.log VALUES (1, 0, 0, NULL, 0, STORE_ID) ON CONFLICT (id) DO NOTHING; \
    CREATE SEQUENCE IF NOT EXISTS SCHEMA.event_blocks";

/// The low fill factor leaves room to update rows in place, which a busy webhook does twenty times a second.
const MAKE_CHECKPOINTS: &str = "\
    CREATE TABLE SCHEMA.checkpoints (name text PRIMARY KEY, holder bigint NOT NULL, content bytea NOT NULL) \
      WITH (fillfactor = 10)";

/// What makes tables of a version those of the next one. Programs of the older version may go on to use them. Events of
/// version 4 have no author, and no plant for the history.
const ALTERATIONS: [(i32, &str); 2] = [
    (
        4,
        "ALTER TABLE SCHEMA.events ADD COLUMN authors text[], ADD COLUMN names text[], ADD COLUMN tags text[], \
           ADD COLUMN before bigint[], ADD COLUMN batch bytea, ADD COLUMN results bytea; \
         CREATE UNIQUE INDEX events_by_batch ON SCHEMA.events (batch) WHERE batch IS NOT NULL",
    ),
    (5, MAKE_CHECKPOINTS),
];

const RAISE_VERSION: &str = "UPDATE SCHEMA.layout SET version = version + 1 WHERE id = 1";

/// Creates missing rows of the counters and counts again, with writers locked out.
const COUNT_AGAIN: &str = "\
    LOCK TABLE SCHEMA.plants, SCHEMA.events, SCHEMA.tag_changes, SCHEMA.tag_counts, SCHEMA.counters IN EXCLUSIVE MODE; \
    DELETE FROM SCHEMA.tag_changes; \
    DELETE FROM SCHEMA.tag_counts; \
    INSERT INTO SCHEMA.tag_counts SELECT tag, count(*) FROM SCHEMA.plants WHERE tag IS NOT NULL GROUP BY tag; \
    INSERT INTO SCHEMA.counters (slot, plants, events) \
      SELECT slot, 0, 0 FROM generate_series(0, COUNTER_SLOTS - 1) AS slots (slot) ON CONFLICT (slot) DO NOTHING; \
    UPDATE SCHEMA.counters SET plants = 0, events = 0; \
    UPDATE SCHEMA.counters SET \
      plants = (SELECT count(*) FROM SCHEMA.plants WHERE name IS NOT NULL), \
      events = (SELECT coalesce(sum(cardinality(ids)), 0)::bigint FROM SCHEMA.events) \
        + (SELECT forgotten_events FROM SCHEMA.log WHERE id = 1) \
      WHERE slot = 0";

/// The result of preparing the tables.
pub(super) struct Prepared {
    /// The number of the last block of events.
    pub(super) last_block: i64,
    /// The schema of the extension, if the index over names is still to be made.
    pub(super) index_to_make: Option<String>,
}

/// The result of [`PostgresRepository::migrate`](crate::PostgresRepository::migrate).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// Whether the tables were missing.
    pub made_tables: bool,
    /// Why there is no index over names, and what to do. Searches work without it, but are slower.
    pub missing_index: Option<String>,
}

/// Creates missing tables, and alters those of an older version. Checks that the tables have the supported version, and
/// that the server keeps what it acknowledges.
pub(super) async fn prepare(config: PostgresConfig) -> anyhow::Result<Prepared> {
    let session = checked_session(&config).await?;
    match version(&session, &config.schema).await? {
        // The user may have the right to use the tables but not to create any.
        Some(VERSION) => {}
        None | Some(_) => drop(make_tables(&session, &config.schema).await?),
    }
    let rows = session.rows(LAST_BLOCK, &[]).await?;
    let row = rows.first().context("the row of the log is missing")?;
    let (last_block, is_behind): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let sequence = session.sql("SCHEMA.event_blocks");
    ensure!(
        !is_behind,
        "the sequence {sequence} is behind the events, which end with {last_block}, as after a copy without it: run \
         SELECT setval('{sequence}', {last_block})"
    );
    let index_to_make = index_to_make(&session).await.unwrap_or_else(|error| {
        log::warn!("{}", name_index::missing(&error));
        None
    });
    Ok(Prepared { last_block, index_to_make })
}

/// Creates missing tables, alters those of an older version, counts again if rows of the counters are missing, and makes
/// the index over names.
pub(super) async fn migrate(config: PostgresConfig) -> anyhow::Result<Migration> {
    let session = checked_session(&config).await?;
    let made_tables = make_tables(&session, &config.schema).await?;
    let index = async {
        if let Some(extension_schema) = index_to_make(&session).await? {
            name_index::make(&config, &extension_schema).await?;
        }
        anyhow::Ok(())
    };
    let missing_index = index.await.err().map(|error| name_index::missing(&error));
    Ok(Migration { made_tables, missing_index })
}

/// The schema of the extension, if the index over names is missing and can be made.
async fn index_to_make(session: &Session) -> anyhow::Result<Option<String>> {
    if name_index::is_made(session).await? {
        return Ok(None);
    }
    name_index::extension_schema(session).await.map(Some)
}

/// A session, after checks that the server can store any text and keeps acknowledged commits.
async fn checked_session(config: &PostgresConfig) -> anyhow::Result<Session> {
    let session = Sessions::new(config, 1, Arc::default())?.get().await?;
    let setting = async |name: &str| -> anyhow::Result<Option<String>> {
        let row = session.row("SELECT current_setting($1, true)", &[&name]).await?;
        Ok(row.try_get(0)?)
    };
    let encoding = setting("server_encoding").await?.unwrap_or_default();
    ensure!(
        encoding == "UTF8",
        "the encoding of the database is {encoding}; plants need UTF8: create one with ENCODING 'UTF8'"
    );
    for needed in ["fsync", "full_page_writes"] {
        ensure!(
            setting(needed).await?.as_deref() != Some("off"),
            "PostgreSQL runs with {needed} = off, and would lose plants that it has acknowledged: turn it on"
        );
    }
    Ok(session)
}

/// The version of the tables, if this user can see any.
async fn version(session: &Session, schema: &SchemaName) -> anyhow::Result<Option<i32>> {
    let statement = session.sql(FIND_VERSION);
    match session.client()?.query_opt(&statement, &[]).await {
        Ok(row) => Ok(row.map(|row| row.try_get(0)).transpose()?),
        Err(error) => match error.code() {
            Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME) => Ok(None),
            _ => Err(SessionError::from(error))
                .with_context(|| format!("cannot read schema {schema}")),
        },
    }
}

fn check_version(found: i32) -> anyhow::Result<()> {
    ensure!(
        found <= VERSION,
        "the tables have version {found}, and this program knows {VERSION}: use a newer one"
    );
    ensure!(
        found == VERSION,
        "the tables have version {found}, and this program needs {VERSION}: export the plants with the program that made \
         the tables, and import them into another schema"
    );
    Ok(())
}

async fn make_tables(session: &Session, schema: &SchemaName) -> anyhow::Result<bool> {
    // Without the extension, the tables are created all the same, and the caller says what is missing.
    let extension_schema = name_index::extension_schema(session).await.ok();
    let extension_schema = extension_schema.as_deref();
    let mut tries = 0;
    loop {
        let made = try_to_make_tables(session, session.client()?, schema, extension_schema);
        let error = match made.await {
            Ok((is_made, found)) => {
                check_version(found)?;
                return Ok(is_made);
            }
            Err(error) => error,
        };
        let is_forbidden = error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
        let error = SessionError::from(error);
        if !matches!(error, SessionError::Conflict(_)) || tries == MOST_TRIES {
            let advice =
                if is_forbidden { "; migrate as a user of the database who may" } else { "" };
            return Err(error)
                .with_context(|| format!("cannot make the tables in schema {schema}{advice}"));
        }
        // This may be a deadlock with a server that writes, or a table that another session uses.
        session.roll_back().await;
        pause(tries).await;
        tries += 1;
    }
}

/// Creates missing tables and rows, and alters tables of an older version, in one transaction. Returns whether it created
/// the tables, and their version. Leaves tables of other versions unchanged.
async fn try_to_make_tables(
    session: &Session,
    client: &Client,
    schema: &SchemaName,
    extension_schema: Option<&str>,
) -> Result<(bool, i32), tokio_postgres::Error> {
    // Recounting many plants takes longer than the usual limit. Other sessions queue behind a wait for a table.
    let begin = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '2s'";
    client.batch_execute(begin).await?;
    // A second program waits here, and then finds everything done.
    let name = schema.to_string();
    client.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&name]).await?;
    // The user may have the right to create tables in the schema but not to create a schema.
    let of_schema = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if client.query_opt(of_schema, &[&name]).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA {}", schema.quoted())).await?;
    }
    client.batch_execute(&session.sql(MAKE_LAYOUT)).await?;
    let note = session.sql(NOTE_VERSION);
    let is_made = client.execute(&note, &[&VERSION]).await? == 1;
    if is_made {
        let make = session.sql(MAKE_TABLES).replace("STORE_ID", &fastrand::i64(..).to_string());
        client.batch_execute(&make).await?;
        client.batch_execute(&session.sql(MAKE_CHECKPOINTS)).await?;
        client.batch_execute(&session.sql(MAKE_LETTERS_INDEX)).await?;
        if let Some(extension_schema) = extension_schema {
            let make = name_index::make_in_new_tables(extension_schema);
            client.batch_execute(&session.sql(&make)).await?;
        }
    }
    let mut found: i32 = client.query_one(&session.sql(FIND_VERSION), &[]).await?.try_get(0)?;
    for (before, alteration) in ALTERATIONS {
        if found == before {
            client.batch_execute(&session.sql(alteration)).await?;
            client.batch_execute(&session.sql(RAISE_VERSION)).await?;
            log::info!("altered the tables of version {found}");
            found += 1;
        }
    }
    if found == VERSION {
        let counters = session.sql("SELECT count(*) FROM SCHEMA.counters");
        let counters: i64 = client.query_one(&counters, &[]).await?.try_get(0)?;
        if counters < i64::from(COUNTER_SLOTS) {
            let slots = COUNTER_SLOTS.to_string();
            let count_again = session.sql(COUNT_AGAIN).replace("COUNTER_SLOTS", &slots);
            client.batch_execute(&count_again).await?;
        }
    }
    client.batch_execute("COMMIT").await?;
    Ok((is_made, found))
}
