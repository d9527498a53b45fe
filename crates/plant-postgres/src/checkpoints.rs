//! Checkpoints in a table. Each row names its holder by a random number. A holder keeps an advisory lock on its number in a
//! session of its own. When the holder's program ends, PostgreSQL ends that session and releases the lock, and another program
//! can take the row.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use plant_store::Checkpoint;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;

use crate::config::PostgresConfig;
use crate::reader::PostgresReader;
use crate::sessions::{Session, Sessions};

/// PostgreSQL ends the session of a program that does not call [`CheckpointTable::hold`] for half a minute, because it stands
/// still, or its machine is gone.
const END_IF_IDLE: &str = "SELECT set_config('idle_session_timeout', '30s', false)";

/// `$1`: the holder.
const LOCK_HOLDER: &str = "SELECT pg_advisory_lock($1)";

/// `$1`: the name; `$2`: who wants to hold it. Returns whether the name is held, the content, and whether the holder has lost
/// its lock. Writes nothing.
const FIND: &str = "\
    SELECT holder = $2, content, holder <> $2 AND pg_try_advisory_xact_lock(holder) \
    FROM SCHEMA.checkpoints WHERE name = $1";

/// `$1` and `$2`: as in [`FIND`]. Inserts the row, or takes it if the holder has lost its lock.
const TAKE: &str = "\
    INSERT INTO SCHEMA.checkpoints AS checkpoint (name, holder, content) VALUES ($1, $2, '') \
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder \
    WHERE checkpoint.holder <> excluded.holder AND pg_try_advisory_xact_lock(checkpoint.holder)";

/// `$1`: the name; `$2`: the holder; `$3`: the content.
const SAVE: &str =
    "UPDATE SCHEMA.checkpoints SET content = $3 WHERE name = $1 AND holder = $2 RETURNING true";

/// `$1`: the names to keep; `$2`: the holder.
const RETAIN: &str = "DELETE FROM SCHEMA.checkpoints WHERE name <> ALL ($1) AND holder = $2";

const READ: &str = "SELECT name, content FROM SCHEMA.checkpoints";

/// The checkpoints, with this program as the holder of names.
#[derive(Clone, Debug)]
pub(super) struct CheckpointTable {
    /// A random number that stands for this program.
    holder: i64,
    sessions: Sessions,
    /// The session with the advisory lock.
    locked: Arc<Mutex<Option<Session>>>,
}

impl CheckpointTable {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { holder: fastrand::i64(..), sessions, locked: Arc::default() }
    }

    pub(super) async fn hold(&self, name: &str) -> anyhow::Result<Checkpoint> {
        let mut locked = self.locked.lock().await;
        let (mut session, is_new) = match locked.take() {
            Some(session) => (session, false),
            None => (self.sessions.get().await?, true),
        };
        let held = self.hold_in(&session, is_new, name).await;
        match &held {
            Ok(_) => *locked = Some(session),
            // Ends the session, and with it the lock.
            Err(_) => session.give_up(),
        }
        held
    }

    async fn hold_in(
        &self,
        session: &Session,
        is_new: bool,
        name: &str,
    ) -> anyhow::Result<Checkpoint> {
        if is_new {
            session.rows(END_IF_IDLE, &[]).await?;
            session.rows(LOCK_HOLDER, &[&self.holder]).await?;
        }
        let parameters: [&(dyn ToSql + Sync); 2] = [&name, &self.holder];
        loop {
            let rows = session.rows(FIND, &parameters).await?;
            let (is_held, content, is_free) = match rows.first() {
                Some(row) => (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?),
                None => (false, Vec::new(), true),
            };
            if !is_free {
                return Ok(Checkpoint { is_held, content });
            }
            // Another program may do so first.
            session.rows(TAKE, &parameters).await?;
        }
    }

    /// If this fails, the outcome is unknown, and the next [`Self::hold`] shows it.
    pub(super) async fn save(&self, name: &str, content: Vec<u8>) -> anyhow::Result<bool> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&name, &self.holder, &content];
        let session = self.sessions.get().await?;
        let saved = session.rows(SAVE, &parameters).await.context("cannot save a checkpoint")?;
        Ok(!saved.is_empty())
    }

    pub(super) async fn retain(&self, names: &[String]) -> anyhow::Result<()> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&names, &self.holder];
        let session = self.sessions.get().await?;
        Ok(session.rows(RETAIN, &parameters).await.map(drop)?)
    }
}

/// The checkpoints in the tables, by name.
pub(super) async fn read(config: &PostgresConfig) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let reader = PostgresReader { sessions: Sessions::new(config, 1, Arc::default())? };
    let rows = reader.rows("the checkpoints", READ, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
