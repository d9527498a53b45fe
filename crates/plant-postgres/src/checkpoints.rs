//! Checkpoints in a table. A lock on their row decides which server takes a lease; no lock outlives its statement, since a
//! transaction that stays open would keep PostgreSQL from removing old rows.

use std::collections::BTreeMap;

use async_trait::async_trait;
use plant_store::{CHECKPOINT_LEASE_SECONDS, Checkpoint, Checkpoints, OpenError, StoreError};
use tokio_postgres::types::ToSql;

use crate::config::PostgresConfig;
use crate::reader::PostgresReader;
use crate::sessions::Sessions;
use crate::threads::Threads;
use crate::{PostgresRepository, unusable};

/// `$1`: the name; `$2`: who wants to hold it; `$3`: the seconds of a lease. Returns whether it is held, and the content.
const HOLD: &str = "\
    WITH held AS ( \
      INSERT INTO SCHEMA.checkpoints AS checkpoint (name, holder, held_until, content) \
      VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3), '') \
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until \
      WHERE checkpoint.holder = excluded.holder OR checkpoint.held_until < clock_timestamp() \
      RETURNING content) \
    SELECT true, content FROM held \
    UNION ALL SELECT false, content FROM SCHEMA.checkpoints WHERE name = $1 AND NOT EXISTS (SELECT FROM held)";

/// `$1` to `$3`: as in [`HOLD`]; `$4`: the content.
const SAVE: &str = "\
    UPDATE SCHEMA.checkpoints SET content = $4, held_until = clock_timestamp() + make_interval(secs => $3) \
    WHERE name = $1 AND holder = $2 RETURNING true";

/// `$1`: the names to keep.
const RETAIN: &str = "\
    DELETE FROM SCHEMA.checkpoints \
    WHERE name <> ALL ($1) AND held_until < clock_timestamp() - interval '1 day'";

const READ: &str = "SELECT name, content FROM SCHEMA.checkpoints";

/// The checkpoints, with this program as the holder of names.
#[derive(Clone, Debug)]
pub(super) struct CheckpointTable {
    reader: PostgresReader,
    /// A random number that stands for this repository.
    holder: i64,
}

impl CheckpointTable {
    pub(super) fn new(reader: PostgresReader) -> Self {
        Self { reader, holder: fastrand::i64(..) }
    }

    async fn hold(&self, name: &str) -> anyhow::Result<Checkpoint> {
        loop {
            let parameters: [&(dyn ToSql + Sync); 3] =
                [&name, &self.holder, &(CHECKPOINT_LEASE_SECONDS as f64)];
            let rows = self.reader.rows("a checkpoint", HOLD, &parameters).await?;
            // The statement sees no row that another server inserts meanwhile, but the next one does.
            if let Some(row) = rows.first() {
                return Ok(Checkpoint { is_held: row.try_get(0)?, content: row.try_get(1)? });
            }
        }
    }

    async fn save(&self, name: &str, content: Vec<u8>) -> anyhow::Result<bool> {
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&name, &self.holder, &(CHECKPOINT_LEASE_SECONDS as f64), &content];
        Ok(!self.reader.rows("a checkpoint", SAVE, &parameters).await?.is_empty())
    }
}

#[async_trait]
impl Checkpoints for PostgresRepository {
    async fn hold(&self, name: &str) -> Result<Checkpoint, StoreError> {
        let (table, name) = (self.checkpoints.clone(), name.to_owned());
        self.read(async move { table.hold(&name).await }).await
    }

    async fn save(&self, name: &str, content: Vec<u8>) -> Result<bool, StoreError> {
        let (table, name) = (self.checkpoints.clone(), name.to_owned());
        self.read(async move { table.save(&name, content).await }).await
    }

    async fn retain(&self, names: Vec<String>) -> Result<(), StoreError> {
        let table = self.checkpoints.clone();
        let retain =
            async move { table.reader.rows("checkpoints", RETAIN, &[&names]).await.map(drop) };
        self.read(retain).await
    }
}

impl PostgresRepository {
    /// The [checkpoints](Checkpoints) in the tables, by name.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer, or has no such tables.
    pub async fn read_checkpoints(
        config: &PostgresConfig,
    ) -> Result<BTreeMap<String, Vec<u8>>, OpenError> {
        let config = config.clone();
        let read = async move {
            let reader =
                PostgresReader { sessions: Sessions::new(&config, 1, Default::default())? };
            let rows = reader.rows("the checkpoints", READ, &[]).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        };
        let threads = Threads::start().map_err(unusable)?;
        threads.run("reading the checkpoints", read).await.map_err(unusable)
    }
}
