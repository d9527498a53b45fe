//! Reads of plants. PostgreSQL shows a transaction once its commit is on disk and, with synchronous replication, on the
//! standby. If the writer's session ends during the commit, the transaction may become visible a little earlier.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use plant_domain::{NewPlantRef, PlantId};
use plant_store::{Page, StoreFailure, StoredPlant};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::sessions::{PATIENCE, SessionError, Sessions, pause};
use crate::statements::{COUNT, PLANTS_WITH_IDS, stored_plant};

/// The most plants that one query reads.
const MAX_READS: usize = 256;

/// A waiting read of one plant, and the sender for its result.
pub(super) type WaitingRead = (PlantId, oneshot::Sender<Result<Option<StoredPlant>, StoreFailure>>);

/// Reads plants, and runs the other modules' queries with retries.
#[derive(Clone, Debug)]
pub(super) struct PostgresReader {
    pub(super) sessions: Sessions,
}

impl PostgresReader {
    /// The rows of a prepared statement. Retries for a while if PostgreSQL does not answer.
    pub(super) async fn rows(
        &self,
        what: &str,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> anyhow::Result<Vec<Row>> {
        let mut retries = Retries::default();
        loop {
            let answer = async {
                let session = self.sessions.get().await?;
                anyhow::Ok(session.rows(statement, parameters).await?)
            };
            match answer.await {
                Ok(rows) => return Ok(rows),
                Err(error) => {
                    retries.after(error).await.with_context(|| format!("cannot read {what}"))?;
                }
            }
        }
    }

    pub(super) async fn number(&self, what: &str, statement: &str) -> anyhow::Result<i64> {
        let rows = self.rows(what, statement, &[]).await?;
        let row = rows.first().with_context(|| format!("{what} is missing"))?;
        row.try_get(0).with_context(|| what.to_owned())
    }

    /// Those of these plants that exist. A plant with a damaged row has a failure of its own.
    pub(super) async fn plants(
        &self,
        ids: &[PlantId],
    ) -> anyhow::Result<HashMap<PlantId, Result<Option<StoredPlant>, StoreFailure>>> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = self.rows("plants", PLANTS_WITH_IDS, &[&ids]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let id = PlantId::from(row.try_get::<_, i64>(0)?);
            found.insert(id, stored_plant(row).map_err(StoreFailure::new));
        }
        Ok(found)
    }

    /// A page of those of these plants that exist.
    pub(super) async fn page_of(&self, ids: &BTreeSet<PlantId>) -> anyhow::Result<Page> {
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = self.rows("plants", PLANTS_WITH_IDS, &[&ids]).await?;
        let plants = rows.iter().map(stored_plant).filter_map(Result::transpose);
        Ok(page_of(&plants.collect::<anyhow::Result<Vec<_>>>()?))
    }

    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        let count = self.number("how many plants there are", COUNT).await?;
        u64::try_from(count).context("the count of the plants is wrong")
    }
}

/// A page of these plants, which are in the order of their ids.
pub(super) fn page_of(plants: &[StoredPlant]) -> Page {
    let mut page = Page::with_capacity(plants.len());
    for StoredPlant { id, plant, revision } in plants {
        page.push(NewPlantRef { id: *id, plant: plant.members() }, *revision);
    }
    page
}

/// The attempts of one read.
pub(super) struct Retries {
    begun: Instant,
    tries: u32,
    was_stale: bool,
}

impl Default for Retries {
    fn default() -> Self {
        Self { begun: Instant::now(), tries: 0, was_stale: false }
    }
}

impl Retries {
    /// Waits before the next attempt, or returns the error if there is none.
    pub(super) async fn after(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match error.downcast_ref() {
            Some(SessionError::StaleStatement(_)) if !self.was_stale => self.was_stale = true,
            Some(
                SessionError::NoAnswer(_)
                | SessionError::Unavailable(_)
                | SessionError::Conflict(_),
            ) if self.begun.elapsed() < PATIENCE => {
                pause(self.tries).await;
                self.tries += 1;
            }
            _ => return Err(error),
        }
        Ok(())
    }
}

/// Answers waiting reads in batches, until the senders are dropped.
pub(super) async fn read_jointly(
    reader: PostgresReader,
    waiting: Arc<Mutex<mpsc::Receiver<WaitingRead>>>,
) {
    loop {
        let mut taken = Vec::new();
        waiting.lock().await.recv_many(&mut taken, MAX_READS).await;
        if taken.is_empty() {
            return;
        }
        // After a panic, the dropped senders tell the callers, and the next reads continue.
        if tokio::spawn(answer(reader.clone(), taken)).await.is_err() {
            log::error!("reading plants panicked");
        }
    }
}

async fn answer(reader: PostgresReader, taken: Vec<WaitingRead>) {
    let ids: Vec<PlantId> = taken.iter().map(|(id, _)| *id).collect();
    let found = reader.plants(&ids).await.map_err(StoreFailure::new);
    for (id, answer) in taken {
        let plant = match &found {
            Ok(found) => found.get(&id).cloned().unwrap_or(Ok(None)),
            Err(failure) => Err(failure.clone()),
        };
        // The client may have disconnected.
        let _ = answer.send(plant);
    }
}
