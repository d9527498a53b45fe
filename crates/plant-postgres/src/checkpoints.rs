//! Checkpoints in a table. A row names its holder, a random number. The holder has an advisory lock with this number in a
//! session of its own, which PostgreSQL ends, and the lock with it, when the program ends. Then another program takes the row.

use std::collections::BTreeMap;
use std::sync::Arc;

use plant_store::Checkpoint;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;

use crate::config::PostgresConfig;
use crate::reader::PostgresReader;
use crate::sessions::{Session, Sessions};

/// Lets PostgreSQL notice within half a minute that the machine of this program is gone.
const KEEP_ALIVE: &str = "\
    SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), \
      set_config('tcp_keepalives_count', '3', false)";

/// `$1`: the holder.
const LOCK_HOLDER: &str = "SELECT pg_advisory_lock($1)";

/// `$1`: the name; `$2`: who wants to hold it. Takes a row whose holder has lost its lock. Returns whether the name is held,
/// and the content.
const HOLD: &str = "\
    WITH taken AS ( \
      INSERT INTO SCHEMA.checkpoints AS checkpoint (name, holder, content) VALUES ($1, $2, '') \
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder \
      WHERE checkpoint.holder <> excluded.holder AND pg_try_advisory_xact_lock(checkpoint.holder) \
      RETURNING content) \
    SELECT true, content FROM taken \
    UNION ALL SELECT holder = $2, content FROM SCHEMA.checkpoints \
    WHERE name = $1 AND NOT EXISTS (SELECT FROM taken)";

/// `$1`: the name; `$2`: the holder; `$3`: the content.
const SAVE: &str =
    "UPDATE SCHEMA.checkpoints SET content = $3 WHERE name = $1 AND holder = $2 RETURNING true";

/// `$1`: the names to keep; `$2`: the holder.
const RETAIN: &str = "DELETE FROM SCHEMA.checkpoints WHERE name <> ALL ($1) AND holder = $2";

const READ: &str = "SELECT name, content FROM SCHEMA.checkpoints";

/// The checkpoints, with this program as the holder of names.
#[derive(Clone, Debug)]
pub(super) struct CheckpointTable {
    reader: PostgresReader,
    /// A random number that stands for this program.
    holder: i64,
    sessions: Sessions,
    /// The session with the advisory lock.
    locked: Arc<Mutex<Option<Session>>>,
}

impl CheckpointTable {
    pub(super) fn new(reader: PostgresReader, sessions: Sessions) -> Self {
        Self { reader, holder: fastrand::i64(..), sessions, locked: Arc::default() }
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
            session.rows(KEEP_ALIVE, &[]).await?;
            session.rows(LOCK_HOLDER, &[&self.holder]).await?;
        }
        loop {
            let rows = session.rows(HOLD, &[&name, &self.holder]).await?;
            // The statement sees no row that another program inserts meanwhile, but the next one does.
            if let Some(row) = rows.first() {
                return Ok(Checkpoint { is_held: row.try_get(0)?, content: row.try_get(1)? });
            }
        }
    }

    pub(super) async fn save(&self, name: &str, content: Vec<u8>) -> anyhow::Result<bool> {
        let parameters: [&(dyn ToSql + Sync); 3] = [&name, &self.holder, &content];
        Ok(!self.reader.rows("a checkpoint", SAVE, &parameters).await?.is_empty())
    }

    pub(super) async fn retain(&self, names: &[String]) -> anyhow::Result<()> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&names, &self.holder];
        self.reader.rows("checkpoints", RETAIN, &parameters).await.map(drop)
    }
}

/// The checkpoints in the tables, by name.
pub(super) async fn read(config: &PostgresConfig) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let reader = PostgresReader { sessions: Sessions::new(config, 1, Arc::default())? };
    let rows = reader.rows("the checkpoints", READ, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
