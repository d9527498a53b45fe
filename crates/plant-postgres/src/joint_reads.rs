//! Reads of single plants: those that wait at the same time become one query.

use std::sync::Arc;

use plant_domain::PlantId;
use plant_store::{StoreFailure, StoredPlant};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::reader::PostgresReader;

/// How many plants one query reads at most.
const MAX_READS: usize = 256;

/// A read of one plant that waits, and where its result goes.
pub(super) type WaitingRead = (PlantId, oneshot::Sender<Result<Option<StoredPlant>, StoreFailure>>);

/// Reads all plants that wait, again and again, until the senders are gone.
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
        // A panic drops the senders, which tells the callers; the next reads go on.
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
        // The client may be gone.
        let _ = answer.send(plant);
    }
}
