//! The tables: how they are made, and brought from one version to the next.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use plant_domain::fold_name;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::PostgresConfig;
use crate::sessions::{Session, SessionError, Sessions};
use crate::statements::{SchemaName, Statements};

/// The version of the tables that this program works with. In version 1, names were folded in another way.
pub(super) const VERSION: i32 = 2;

/// How many names are folded again at a time.
const NAMES_AT_ONCE: i64 = 1000;

/// How many rows share the counting. Each write adds to one of them, and two writes that add to the same one wait for
/// each other.
pub(super) const COUNTER_SLOTS: i32 = 128;

/// How often it is tried to make the tables while others do so too.
const ATTEMPTS: u32 = 30;

/// How long one who met another at it waits, in milliseconds.
const PAUSE_MS: Range<u64> = 10..200;

/// What speaks the protocol of PostgreSQL, as far as its tables are made in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    PostgreSql,
    /// PostgreSQL with its tables distributed over many machines.
    Citus,
    CockroachDb,
    YugabyteDb,
}

impl Engine {
    async fn of(session: &Session) -> anyhow::Result<Self> {
        let version: String = session.rows("SELECT version()", &[]).await?[0].try_get(0)?;
        if version.contains("CockroachDB") {
            return Ok(Self::CockroachDb);
        }
        if version.contains("-YB-") {
            return Ok(Self::YugabyteDb);
        }
        let citus = "SELECT extname::text FROM pg_extension WHERE extname = 'citus'";
        let is_citus = !session.rows(citus, &[]).await?.is_empty();
        Ok(if is_citus { Self::Citus } else { Self::PostgreSql })
    }

    /// The type of a text that is compared byte by byte.
    const fn text(self) -> &'static str {
        match self {
            Self::CockroachDb => "text",
            Self::PostgreSql | Self::Citus | Self::YugabyteDb => "text COLLATE \"C\"",
        }
    }

    /// How the rows of a key lie: in its order, which only one system does not do by itself.
    const fn ascending(self) -> &'static str {
        match self {
            Self::YugabyteDb => " ASC",
            Self::PostgreSql | Self::Citus | Self::CockroachDb => "",
        }
    }

    /// What leaves room to change a row in its place.
    const fn with_room(self) -> &'static str {
        match self {
            Self::PostgreSql | Self::Citus => " WITH (fillfactor = 10)",
            Self::CockroachDb | Self::YugabyteDb => "",
        }
    }

    /// The statements that make the tables. Each may be run again where it was run before.
    fn make_tables(self, schema: &SchemaName) -> Vec<String> {
        let schema = schema.quoted();
        let (text, ascending, with_room) = (self.text(), self.ascending(), self.with_room());
        let mut statements = vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {schema}.plants (\
                   id bigint NOT NULL, revision bigint NOT NULL, name {text}, folded_name {text}, tag {text}, \
                   idempotency bytea, PRIMARY KEY (id{ascending}))"
            ),
            format!(
                "CREATE INDEX IF NOT EXISTS plants_by_tag ON {schema}.plants (tag{ascending}, id{ascending}) \
                 WHERE tag IS NOT NULL"
            ),
            format!(
                "CREATE INDEX IF NOT EXISTS removed_plants ON {schema}.plants (revision{ascending}) \
                 WHERE name IS NULL"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {schema}.events (\
                   block bigint NOT NULL, group_id bytea UNIQUE, is_seal boolean NOT NULL DEFAULT false, revisions bigint[] NOT NULL, \
                   kinds smallint[] NOT NULL, ids bigint[] NOT NULL, PRIMARY KEY (block{ascending}))"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {schema}.counters (\
                   slot integer NOT NULL PRIMARY KEY, plants bigint NOT NULL, events bigint NOT NULL){with_room}"
            ),
            make_counters(&schema),
            format!(
                "CREATE TABLE IF NOT EXISTS {schema}.log (\
                   id integer NOT NULL PRIMARY KEY, forgotten_to bigint NOT NULL, \
                   forgotten_revision bigint NOT NULL, forgotten_events bigint NOT NULL)"
            ),
            format!(
                "INSERT INTO {schema}.log (id, forgotten_to, forgotten_revision, forgotten_events) \
                 VALUES (1, 0, 0, 0) ON CONFLICT (id) DO NOTHING"
            ),
            format!("CREATE SEQUENCE IF NOT EXISTS {schema}.event_blocks"),
        ];
        if self == Self::Citus {
            // What a group of writes touches beside the plants stays where the groups are put together.
            statements.push(format!(
                "SELECT create_distributed_table('{schema}.plants', 'id') WHERE NOT EXISTS \
                   (SELECT FROM pg_dist_partition WHERE logicalrelid = '{schema}.plants'::regclass)"
            ));
        }
        statements
    }
}

/// Makes the rows of the counters that are missing.
fn make_counters(schema: &str) -> String {
    format!(
        "INSERT INTO {schema}.counters (slot, plants, events) \
         SELECT slot, 0, 0 FROM generate_series(0, {COUNTER_SLOTS} - 1) AS slots (slot) \
         ON CONFLICT (slot) DO NOTHING"
    )
}

/// Counts again where rows of the counters were missing, while nobody writes.
fn count_again(schema: &str) -> [String; 4] {
    [
        format!("LOCK TABLE {schema}.plants, {schema}.events, {schema}.counters IN EXCLUSIVE MODE"),
        make_counters(schema),
        format!("UPDATE {schema}.counters SET plants = 0, events = 0"),
        format!(
            "UPDATE {schema}.counters SET \
               plants = (SELECT count(*) FROM {schema}.plants WHERE name IS NOT NULL), \
               events = (SELECT coalesce(sum(cardinality(ids)), 0)::bigint FROM {schema}.events) \
                 + (SELECT forgotten_events FROM {schema}.log WHERE id = 1) \
             WHERE slot = 0"
        ),
    ]
}

/// Makes sure that the tables are there, as far as the user of the database may make them, that they have the version of
/// this program, and that the server is one that plants can be trusted to. Returns the number of the last block of events.
pub(super) async fn prepare(config: &PostgresConfig) -> anyhow::Result<i64> {
    let session = session(config).await?;
    check_server(&session).await?;
    match version(&session, &config.schema).await? {
        // A user may have the right to use the tables, and not to make them.
        Some(VERSION) => {}
        // Servers of the older program may still write, so a start alone changes nothing for them.
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
    last_block(&session, &config.schema).await
}

/// The number of the last block of events. Nobody may get it again, as could be where tables were copied without their
/// sequence.
async fn last_block(session: &Session, schema: &SchemaName) -> anyhow::Result<i64> {
    let rows = session.rows(&Statements::new(schema).last_block, &[]).await?;
    let row = rows.first().context("the row of the log is missing")?;
    let (block, is_behind): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    let sequence = format!("{}.event_blocks", schema.quoted());
    ensure!(
        !is_behind,
        "the sequence {sequence} is behind the events, which end with {block}, as after a copy without it: run \
         SELECT setval('{sequence}', {block})"
    );
    Ok(block)
}

/// Makes the tables, or brings them to the version of this program. Returns the version that they had before; 0 is none.
pub(super) async fn migrate(config: &PostgresConfig) -> anyhow::Result<i32> {
    let session = session(config).await?;
    check_server(&session).await?;
    migrate_with(&session, &config.schema).await
}

async fn session(config: &PostgresConfig) -> anyhow::Result<Session> {
    Ok(Sessions::new(config, 1, Arc::default())?.get().await?)
}

async fn check_server(session: &Session) -> anyhow::Result<()> {
    let setting = async |session: &Session, name: &str| -> anyhow::Result<Option<String>> {
        let rows = session.rows("SELECT current_setting($1, true)", &[&name]).await?;
        let row = rows.first().context("a setting is one row")?;
        Ok(row.try_get(0)?)
    };
    let encoding = setting(session, "server_encoding").await?;
    ensure!(
        encoding.as_deref().is_none_or(|encoding| ["UTF8", "utf8", "UTF-8"].contains(&encoding)),
        "the encoding of the database is {}; plants need UTF8: create one with ENCODING 'UTF8'",
        encoding.unwrap_or_default()
    );
    for needed in ["fsync", "full_page_writes"] {
        ensure!(
            setting(session, needed).await?.as_deref() != Some("off"),
            "PostgreSQL runs with {needed} = off, and would lose plants that it has acknowledged: turn it on"
        );
    }
    Ok(())
}

/// The version of the tables, if there are any that may be seen.
async fn version(session: &Session, schema: &SchemaName) -> anyhow::Result<Option<i32>> {
    let statement = format!("SELECT version FROM {}.layout WHERE id = 1", schema.quoted());
    match session.client()?.query_opt(&statement, &[]).await {
        Ok(Some(row)) => Ok(Some(row.try_get(0)?)),
        Ok(None) => Ok(None),
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
    let engine = Engine::of(session).await?;
    let mut attempt = 1;
    loop {
        match try_to_migrate(session.client()?, engine, schema).await {
            Ok(version) => {
                check_not_newer(version)?;
                if version != VERSION {
                    log::info!(
                        "the tables in schema {schema} have version {VERSION} now, before {version}"
                    );
                }
                return Ok(version);
            }
            // Two programs that make the same thing at once meet a conflict, of more than one kind.
            Err(error) if is_conflict(&error) && attempt < ATTEMPTS => {
                attempt += 1;
                session.roll_back().await;
                let pause = Duration::from_millis(fastrand::u64(PAUSE_MS));
                tokio::time::sleep(pause).await;
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

/// One try. Returns the version that was there.
async fn try_to_migrate(
    client: &Client,
    engine: Engine,
    schema: &SchemaName,
) -> Result<i32, tokio_postgres::Error> {
    let name = schema.quoted();
    // An index of many plants takes longer to make than anything else may take.
    client.batch_execute("SET statement_timeout = 0").await?;
    // A user may have the right to make tables in a schema, and not to make a schema.
    let of_schema = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if client.query_opt(of_schema, &[&schema.to_string()]).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {name}")).await?;
    }
    client
        .batch_execute(&format!(
            "CREATE TABLE IF NOT EXISTS {name}.layout (id integer NOT NULL PRIMARY KEY, version integer NOT NULL)"
        ))
        .await?;
    client
        .batch_execute(&format!(
            "INSERT INTO {name}.layout (id, version) VALUES (1, 0) ON CONFLICT (id) DO NOTHING"
        ))
        .await?;
    // A second program waits for this row, and then finds everything done.
    client.batch_execute("BEGIN").await?;
    let lock = format!("SELECT version FROM {name}.layout WHERE id = 1 FOR UPDATE");
    let version: i32 = client.query_one(&lock, &[]).await?.try_get(0)?;
    if version < 1 {
        for statement in engine.make_tables(schema) {
            client.batch_execute(&statement).await?;
        }
    }
    let counters = format!("SELECT count(*) FROM {name}.counters");
    let counters: i64 = client.query_one(&counters, &[]).await?.try_get(0)?;
    if version <= VERSION && counters < i64::from(COUNTER_SLOTS) {
        for statement in count_again(&name) {
            client.batch_execute(&statement).await?;
        }
    }
    client.batch_execute("COMMIT").await?;
    if version <= VERSION {
        fold_names_again(client, &name).await?;
    }
    if version < VERSION {
        // A newer program may have migrated meanwhile.
        let note = format!(
            "UPDATE {name}.layout SET version = {VERSION} WHERE id = 1 AND version < {VERSION}"
        );
        client.batch_execute(&note).await?;
    }
    Ok(version)
}

/// Folds again the names that an older program folded: its servers go on doing so until they are replaced. Every version
/// folds names in ASCII alike, so these are left out.
async fn fold_names_again(client: &Client, schema: &str) -> Result<(), tokio_postgres::Error> {
    let select = format!(
        "SELECT id, name, folded_name FROM {schema}.plants \
         WHERE id >= $1 AND octet_length(name) > char_length(name) ORDER BY id LIMIT $2"
    );
    // A name that has changed meanwhile was folded by the program that changed it.
    let update = format!(
        "UPDATE {schema}.plants SET folded_name = new.folded_name \
         FROM unnest($1::bigint[], $2::text[], $3::text[]) AS new (id, name, folded_name) \
         WHERE plants.id = new.id AND plants.name = new.name"
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
