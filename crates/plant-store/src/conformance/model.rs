//! Random operations on a repository and on a model, which is too simple to be wrong.

mod events;
mod histories;
mod operations;
mod plants;
mod reads;
mod writes;

use std::collections::HashMap;

use plant_domain::{Plant, PlantId};

use self::operations::Operation;
pub use self::operations::{Operations, operations};
use self::plants::Plants;
use super::store_under_test::StoreUnderTest;
use crate::write::Write;
use crate::{Author, Batch, Event, EventCursor, EventKind, IdempotencyDigest, Revision, Written};

/// No plant ever has this id.
const UNUSED_ID: i64 = 77;

/// How many of the newest events a repository keeps. Histories and the results of batches may be kept for longer.
#[derive(Clone, Copy, Debug)]
pub enum KeptEvents {
    /// Exactly this number.
    Exactly(usize),
    /// At least this number, and possibly older ones.
    AtLeast(usize),
}

impl KeptEvents {
    const fn at_least(self) -> usize {
        let (Self::Exactly(events) | Self::AtLeast(events)) = self;
        events
    }
}

/// Runs the operations on an empty store and on the model. After each operation, compares its outcome and everything
/// readable.
///
/// # Panics
///
/// At the first difference.
pub async fn check(
    store: &impl StoreUnderTest,
    Operations(operations): &Operations,
    kept: KeptEvents,
) {
    let mut repository = store.open().await;
    let start = repository.newest_event().await.expect("reads");
    let mut model = Model { start: Some(start), ..Model::default() };
    for (step, operation) in operations.iter().enumerate() {
        match operation {
            Operation::Reopen => {
                repository.close().await.expect("closes");
                drop(repository);
                store.verify().await;
                repository = store.open().await;
            }
            Operation::Kill => {
                store.kill(repository).await;
                repository = store.open().await;
            }
            Operation::Restore => {
                let is_restored = store.restore(repository).await;
                repository = store.open().await;
                if is_restored {
                    model.begin_log(&*repository).await;
                }
            }
            _ => {
                let snapshot = repository.snapshot().await.expect("there are no others");
                let before = model.plants.clone();
                model.carry_out(&*repository, operation, kept).await;
                model.check_new_events(&*repository).await;
                before.check_snapshot(snapshot, step).await;
            }
        }
        model.plants.check(&repository, step).await;
        model.check_events(&*repository, kept).await;
        model.check_histories(&*repository, kept, step).await;
    }
    repository.close().await.expect("closes");
    drop(repository);
    store.verify().await;
}

/// What the repository should hold.
#[derive(Default)]
struct Model {
    /// The position before all events of the log.
    start: Option<EventCursor>,
    /// How many changes were made before the log began: a restored store has a new log.
    before_log: usize,
    plants: Plants,
    /// All changes, oldest first.
    changes: Vec<Change>,
    /// What the last operation did.
    new_changes: Vec<ExpectedChange>,
    /// The batches that the repository may recognize.
    batches: HashMap<IdempotencyDigest, KnownBatch>,
    last_with_key: Option<Resendable>,
}

/// An event, and the plant after the change; `None` after a deletion.
#[derive(Debug)]
struct Change {
    event: Event,
    plant: Option<Plant>,
}

/// A batch with an idempotency digest that was carried out.
#[derive(Debug)]
struct KnownBatch {
    results: Vec<Written>,
    /// How many changes the model had after the batch.
    changes: usize,
}

/// A create or a batch with an idempotency key.
#[derive(Clone, Debug)]
enum Resendable {
    Create(Write, Option<Author>),
    Batch(Batch),
}

/// A change whose event the model has not seen yet.
struct ExpectedChange {
    kind: EventKind,
    id: PlantId,
    /// The revision in the outcome, if it has one.
    revision: Option<Revision>,
    by: Option<Author>,
    plant: Option<Plant>,
}
