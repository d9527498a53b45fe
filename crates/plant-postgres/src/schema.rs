//! The tables: making them, and bringing them from one version to the next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use plant_domain::fold_name;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::config::PostgresConfig;
use crate::schema_name::SchemaName;
use crate::sessions::{Session, SessionError, Sessions};
use crate::statements::LAST_BLOCK;

/// The version of the tables that this program works with. Version 1 folded names in another way.
pub(super) const VERSION: i32 = 2;

/// How many names are folded again at a time.
const NAMES_AT_ONCE: i64 = 1000;

/// How many rows share the counting. Each group adds to one of them, and two groups that add to the same one wait for
/// each other.
pub(super) const COUNTER_SLOTS: i32 = 128;

/// How often the migration is tried while other programs make the tables too.
const ATTEMPTS: u32 = 30;

/// The pause after a conflict with such a program, in milliseconds.
const PAUSE_MS: Range<u64> = 10..200;

/// Makes the tables, but for the rows of the counters. May run again after a migration that was cut off. The low fill factor leaves room to update a counter in place.
const MAKE_TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS SCHEMA.plants (id bigint PRIMARY KEY, revision bigint NOT NULL, \
      name text COLLATE \"C\", folded_name text COLLATE \"C\", tag text COLLATE \"C\", idempotency bytea); \
    CREATE INDEX IF NOT EXISTS plants_by_tag ON SCHEMA.plants (tag, id) WHERE tag IS NOT NULL; \
    CREATE INDEX IF NOT EXISTS removed_plants ON SCHEMA.plants (revision) WHERE name IS NULL; \
    CREATE TABLE IF NOT EXISTS SCHEMA.events (block bigint PRIMARY KEY, group_id bytea UNIQUE, \
      is_seal boolean NOT NULL DEFAULT false, revisions bigint[] NOT NULL, kinds smallint[] NOT NULL, \
      ids bigint[] NOT NULL); \
    CREATE TABLE IF NOT EXISTS SCHEMA.counters (slot integer PRIMARY KEY, plants bigint NOT NULL, events bigint NOT NULL) \
      WITH (fillfactor = 10); \
    CREATE TABLE IF NOT EXISTS SCHEMA.log (id integer PRIMARY KEY, forgotten_to bigint NOT NULL, \
      forgotten_revision bigint NOT NULL, forgotten_events bigint NOT NULL); \
    INSERT INTO SCHEMA.log VALUES (1, 0, 0, 0) ON CONFLICT (id) DO NOTHING; \
    CREATE SEQUENCE IF NOT EXISTS SCHEMA.event_blocks";

/// Makes the missing rows of the counters, and counts again, while nobody writes.
const COUNT_AGAIN: &str = "\
    LOCK TABLE SCHEMA.plants, SCHEMA.events, SCHEMA.counters IN EXCLUSIVE MODE; \
    INSERT INTO SCHEMA.counters (slot, plants, events) \
      SELECT slot, 0, 0 FROM generate_series(0, COUNTER_SLOTS - 1) AS slots (slot) ON CONFLICT (slot) DO NOTHING; \
    UPDATE SCHEMA.counters SET plants = 0, events = 0; \
    UPDATE SCHEMA.counters SET \
      plants = (SELECT count(*) FROM SCHEMA.plants WHERE name IS NOT NULL), \
      events = (SELECT coalesce(sum(cardinality(ids)), 0)::bigint FROM SCHEMA.events) \
        + (SELECT forgotten_events FROM SCHEMA.log WHERE id = 1) \
      WHERE slot = 0";

/// Makes the tables if they are missing, and checks that they have the version of this program and that the server keeps
/// what it acknowledges. Returns the number of the last block of events.
pub(super) async fn prepare(config: PostgresConfig) -> anyhow::Result<i64> {
    let session = checked_session(&config).await?;
    match version(&session, &config.schema).await? {
        // The user may be allowed to use the tables, and not to make them.
        Some(VERSION) => {}
        // Servers of the older program may still write, so a start alone migrates nothing.
        Some(found @ 1..VERSION) => bail!(
            "the tables in schema {} have version {found}, and this program needs {VERSION}: run `plantd migrate`, \
             and start again",
            config.schema
        ),
        found => {
            check_not_newer(found.unwrap_or_default())?;
            migrate_with(&session, &config.schema).await?;
        }
    }
    let rows = session.rows(LAST_BLOCK, &[]).await?;
    let row = rows.first().context("the row of the log is missing")?;
    let (block, is_behind): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let sequence = session.sql("SCHEMA.event_blocks");
    ensure!(
        !is_behind,
        "the sequence {sequence} is behind the events, which end with {block}, as after a copy without it: run \
         SELECT setval('{sequence}', {block})"
    );
    Ok(block)
}

/// Makes the tables, or brings them to the version of this program. Returns the version before; 0 if there were none.
pub(super) async fn migrate(config: PostgresConfig) -> anyhow::Result<i32> {
    let session = checked_session(&config).await?;
    migrate_with(&session, &config.schema).await
}

/// A session with a server that keeps text and acknowledged commits.
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
    let statement = session.sql("SELECT version FROM SCHEMA.layout WHERE id = 1");
    match session.client()?.query_opt(&statement, &[]).await {
        Ok(row) => Ok(row.map(|row| row.try_get(0)).transpose()?),
        Err(error) => match error.code() {
            Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME) => Ok(None),
            _ => Err(SessionError::from(error))
                .with_context(|| format!("cannot read schema {schema}")),
        },
    }
}

fn check_not_newer(version: i32) -> anyhow::Result<()> {
    ensure!(
        version <= VERSION,
        "the tables have version {version}, and this program knows {VERSION}: use a newer one"
    );
    Ok(())
}

async fn migrate_with(session: &Session, schema: &SchemaName) -> anyhow::Result<i32> {
    let mut attempt = 1;
    loop {
        match try_to_migrate(session, session.client()?, schema).await {
            Ok(version) => {
                check_not_newer(version)?;
                if version != VERSION {
                    log::info!("migrated schema {schema} from version {version} to {VERSION}");
                }
                return Ok(version);
            }
            Err(error) if is_conflict(&error) && attempt < ATTEMPTS => {
                attempt += 1;
                session.roll_back().await;
                tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
            }
            Err(error) => {
                let is_forbidden = error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
                let advice = if is_forbidden {
                    "; run `plantd migrate` as a user of the database who may"
                } else {
                    ""
                };
                return Err(SessionError::from(error))
                    .with_context(|| format!("cannot make the tables in schema {schema}{advice}"));
            }
        }
    }
}

/// Whether two programs made the same thing at once, which PostgreSQL reports in several ways.
fn is_conflict(error: &tokio_postgres::Error) -> bool {
    let conflicts = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // "tuple concurrently updated"
        SqlState::INTERNAL_ERROR,
    ];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// One try. Returns the version before.
async fn try_to_migrate(
    session: &Session,
    client: &Client,
    schema: &SchemaName,
) -> Result<i32, tokio_postgres::Error> {
    // An index on many plants takes longer to make than anything else may take.
    client.batch_execute("SET statement_timeout = 0").await?;
    // The user may be allowed to make tables in a schema, and not to make a schema.
    let of_schema = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if client.query_opt(of_schema, &[&schema.to_string()]).await?.is_none() {
        let make_schema = format!("CREATE SCHEMA IF NOT EXISTS {}", schema.quoted());
        client.batch_execute(&make_schema).await?;
    }
    let make_layout = "CREATE TABLE IF NOT EXISTS SCHEMA.layout (id integer PRIMARY KEY, version integer NOT NULL); \
         INSERT INTO SCHEMA.layout (id, version) VALUES (1, 0) ON CONFLICT (id) DO NOTHING";
    client.batch_execute(&session.sql(make_layout)).await?;
    // A second program waits for this row, and then finds everything done.
    client.batch_execute("BEGIN").await?;
    let lock = session.sql("SELECT version FROM SCHEMA.layout WHERE id = 1 FOR UPDATE");
    let version: i32 = client.query_one(&lock, &[]).await?.try_get(0)?;
    if version < 1 {
        client.batch_execute(&session.sql(MAKE_TABLES)).await?;
    }
    let counters = session.sql("SELECT count(*) FROM SCHEMA.counters");
    let counters: i64 = client.query_one(&counters, &[]).await?.try_get(0)?;
    if version <= VERSION && counters < i64::from(COUNTER_SLOTS) {
        let slots = COUNTER_SLOTS.to_string();
        let count_again = session.sql(COUNT_AGAIN).replace("COUNTER_SLOTS", &slots);
        client.batch_execute(&count_again).await?;
    }
    client.batch_execute("COMMIT").await?;
    if version <= VERSION {
        fold_names_again(session, client).await?;
    }
    if version < VERSION {
        // A newer program may have migrated meanwhile.
        let note =
            session.sql("UPDATE SCHEMA.layout SET version = $1 WHERE id = 1 AND version < $1");
        client.execute(&note, &[&VERSION]).await?;
    }
    Ok(version)
}

/// Folds again the names that an older program folded; its servers do so until they are replaced. All versions fold ASCII
/// names alike, so those are left out.
async fn fold_names_again(session: &Session, client: &Client) -> Result<(), tokio_postgres::Error> {
    let select = session.sql(
        "SELECT id, name, folded_name FROM SCHEMA.plants \
         WHERE id >= $1 AND octet_length(name) > char_length(name) ORDER BY id LIMIT $2",
    );
    // A name that has changed meanwhile was folded by the program that changed it.
    let update = session.sql(
        "UPDATE SCHEMA.plants SET folded_name = new.folded_name \
         FROM unnest($1::bigint[], $2::text[], $3::text[]) AS new (id, name, folded_name) \
         WHERE plants.id = new.id AND plants.name = new.name",
    );
    let (select, update) = (client.prepare(&select).await?, client.prepare(&update).await?);
    let mut from = Some(i64::MIN);
    while let Some(first) = from {
        let rows = client.query(&select, &[&first, &NAMES_AT_ONCE]).await?;
        let (mut ids, mut names, mut folded_names) = (Vec::new(), Vec::new(), Vec::new());
        from = None;
        for row in &rows {
            let (id, name): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
            from = id.checked_add(1);
            let folded_name = fold_name(name);
            if row.try_get::<_, Option<&str>>(2)? != Some(folded_name.as_str()) {
                ids.push(id);
                names.push(name);
                folded_names.push(folded_name);
            }
        }
        if !ids.is_empty() {
            client.execute(&update, &[&ids, &names, &folded_names]).await?;
        }
    }
    Ok(())
}
