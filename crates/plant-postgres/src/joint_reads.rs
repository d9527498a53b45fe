//! Reads of single plants: those that wait at the same time are asked for together.

use std::sync::Arc;

use plant_domain::PlantId;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::reader::PostgresReader;
use plant_store::{StoreFailure, StoredPlant};

/// How many plants are asked for at once at most.
const MAX_READS: usize = 256;

/// A read of one plant that waits for its turn, and where what is found goes.
pub(super) type WaitingRead = (PlantId, oneshot::Sender<Result<Option<StoredPlant>, StoreFailure>>);

/// Reads plants, all that wait at once, for as long as anyone may ask.
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
        // Where it panics, those who wait are told, and the next ones are read.
        let reading = tokio::spawn(answer(reader.clone(), taken));
        if reading.await.is_err() {
            log::error!("reading plants panicked");
        }
    }
}

async fn answer(reader: PostgresReader, taken: Vec<WaitingRead>) {
    let ids: Vec<PlantId> = taken.iter().map(|(id, _)| *id).collect();
    let found = reader.plants(&ids).await.map_err(StoreFailure::new);
    for (id, answer) in taken {
        let found = found
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|found| found.get(id).map_err(StoreFailure::new));
        // A client that has gone away does not listen: that is no error.
        let _ = answer.send(found);
    }
}
