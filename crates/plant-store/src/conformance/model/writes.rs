//! Writes to the repository and to the model.

use std::fmt::Debug;

use plant_domain::{NewPlant, PlantId};

use super::operations::{Operation, PlannedWrite};
use super::{ExpectedChange, KeptEvents, KnownBatch, Model, Resendable};
use crate::write::Write;
use crate::{
    Author, Batch, BatchError, EventKind, IdempotencyDigest, Imported, OnConflict, PlantRepository,
    Revision, StoreError, StoredPlant, Written,
};

impl Model {
    /// Carries out an operation that writes, and compares its outcome.
    pub(super) async fn carry_out(
        &mut self,
        repository: &dyn PlantRepository,
        operation: &Operation,
        kept: KeptEvents,
    ) {
        match operation {
            Operation::Write(planned, by) => {
                let write = self.write_of(planned);
                if matches!(write, Write::Create(_, Some(_))) {
                    self.last_with_key = Some(Resendable::Create(write.clone(), by.clone()));
                }
                self.write(repository, &write, by.clone()).await;
            }
            Operation::Batch(planned, by, key) => {
                let writes: Vec<_> = planned.iter().map(|planned| self.write_of(planned)).collect();
                let text = format!("{writes:?}");
                let digest = |key| IdempotencyDigest::of_batch(key, text.as_bytes());
                let idempotency = key.map(digest);
                let batch = Batch { writes, by: by.clone(), idempotency };
                if idempotency.is_some() {
                    self.last_with_key = Some(Resendable::Batch(batch.clone()));
                }
                self.batch(repository, batch, kept).await;
            }
            Operation::Resend => match self.last_with_key.clone() {
                Some(Resendable::Create(write, by)) => self.write(repository, &write, by).await,
                Some(Resendable::Batch(batch)) => self.batch(repository, batch, kept).await,
                None => {}
            },
            Operation::Import(new_plants, on_conflict, by) => {
                self.import(repository, new_plants, *on_conflict, by).await;
            }
            Operation::Reopen | Operation::Kill | Operation::Restore => {}
        }
    }

    fn write_of(&self, planned: &PlannedWrite) -> Write {
        planned.to_write(|id| self.plants.revision(id))
    }

    async fn write(&mut self, repository: &dyn PlantRepository, write: &Write, by: Option<Author>) {
        let outcome = send(repository, write.clone(), by.clone()).await;
        let refusal = self.plants.clone().carry_out(write, Revision::BEFORE_ALL).err();
        match (outcome, refusal) {
            (outcome, Some(refusal)) => assert_refused(outcome, &refusal),
            (outcome, None) => {
                let written = outcome.unwrap_or_else(|error| panic!("{write:?} failed: {error}"));
                self.check_written(write, &written, by);
            }
        }
    }

    /// Carries out a write in the model that the repository has carried out.
    fn check_written(&mut self, write: &Write, written: &Written, by: Option<Author>) {
        let revision = stored_in(written).map(|stored| stored.revision);
        let shown = revision.unwrap_or(Revision::BEFORE_ALL);
        let event = self.plants.carry_out(write, shown).expect("it was not refused");
        assert_eq!(*written, self.plants.written(write, event), "{write:?}");
        self.expect_change(event, write.id(), revision, by);
    }

    fn expect_change(
        &mut self,
        event: Option<EventKind>,
        id: PlantId,
        revision: Option<Revision>,
        by: Option<Author>,
    ) {
        if let Some(kind) = event {
            let plant = self.plants.get(id).map(|stored| stored.plant.clone());
            self.new_changes.push(ExpectedChange { kind, id, revision, by, plant });
        }
    }

    async fn batch(&mut self, repository: &dyn PlantRepository, batch: Batch, kept: KeptEvents) {
        let known = batch.idempotency.and_then(|digest| self.batches.get(&digest));
        if known.is_some_and(|known| !self.is_kept(known.changes - 1, kept)) {
            // The repository may have forgotten the batch, or not.
            return;
        }
        let outcome = repository.batch(batch.clone()).await;
        if let Some(known) = known {
            return self.check_repeated(outcome, &known.results, kept);
        }
        let mut plants = self.plants.clone();
        let refusals = batch.writes.iter().enumerate().filter_map(|(index, write)| {
            Some((index, plants.carry_out(write, Revision::BEFORE_ALL).err()?))
        });
        if let Some((index, refusal)) = { refusals }.next() {
            return assert_refused(outcome, &BatchError::Refused(index, refusal));
        }
        let results = outcome.expect("a batch is carried out");
        assert_eq!(results.len(), batch.writes.len());
        for (write, written) in batch.writes.iter().zip(&results) {
            self.check_written(write, written, batch.by.clone());
        }
        if let Some(digest) = batch.idempotency
            && !self.new_changes.is_empty()
        {
            let changes = self.changes.len() + self.new_changes.len();
            self.batches.insert(digest, KnownBatch { results, changes });
        }
    }

    /// A retry has the same results as the batch, unless one of them is forgotten.
    fn check_repeated(
        &self,
        outcome: Result<Vec<Written>, BatchError>,
        results: &[Written],
        kept: KeptEvents,
    ) {
        match outcome {
            Ok(repeated) => assert_eq!(repeated, results),
            Err(BatchError::Refused(index, StoreError::VersionGone(id, revision))) => {
                let Written::Patched(stored) = &results[index] else {
                    panic!("result {index} needs no version: {results:?}");
                };
                assert_eq!((stored.id, stored.revision), (id, revision));
                let place =
                    self.changes.iter().position(|change| change.event.revision() == revision);
                let is_kept = self.is_kept(place.expect("a change made it"), kept);
                assert!(!is_kept, "the version of {stored:?} is kept");
            }
            Err(error) => panic!("a repeated batch failed: {error}"),
        }
    }

    async fn import(
        &mut self,
        repository: &dyn PlantRepository,
        new_plants: &[NewPlant],
        on_conflict: OnConflict,
        by: &Option<Author>,
    ) {
        let outcome = repository.import(new_plants.to_vec(), on_conflict, by.clone()).await;
        let outcome = outcome.expect("an import is carried out");
        assert_eq!(outcome.len(), new_plants.len());
        for (new_plant, imported) in new_plants.iter().zip(outcome) {
            let write = Write::of_import(new_plant.clone(), on_conflict);
            let event = self.plants.carry_out(&write, Revision::BEFORE_ALL);
            let expected = match (&event, on_conflict) {
                (Ok(Some(EventKind::Created)), _) => Imported::Created,
                (Ok(_), _) => Imported::Replaced,
                (Err(_), OnConflict::Skip) => Imported::Skipped,
                (Err(_), _) => Imported::IdTaken,
            };
            assert_eq!(imported, expected, "{new_plant:?}");
            self.expect_change(event.unwrap_or_default(), new_plant.id(), None, by.clone());
        }
    }
}

/// Sends a write. Without an author, each kind of write has a method of its own.
async fn send(
    repository: &dyn PlantRepository,
    write: Write,
    by: Option<Author>,
) -> Result<Written, StoreError> {
    if by.is_some() {
        return Ok(repository.write(write, by).await?.into_written());
    }
    Ok(match write {
        Write::Create(new_plant, digest) => {
            Written::Created(repository.create(new_plant, digest).await?)
        }
        Write::Put(new_plant, preconditions) => {
            Written::Put(repository.put(new_plant, preconditions).await?)
        }
        Write::Patch(id, patch, preconditions) => {
            Written::Patched(repository.patch(id, patch, preconditions).await?)
        }
        Write::Delete(id, preconditions) => {
            repository.delete(id, preconditions).await?;
            Written::Deleted
        }
    })
}

const fn stored_in(written: &Written) -> Option<&StoredPlant> {
    match written {
        Written::Created(created) => Some(&created.stored),
        Written::Put(put) => Some(&put.stored),
        Written::Patched(stored) => Some(stored),
        Written::Deleted => None,
    }
}

#[track_caller]
fn assert_refused<T: Debug, E: Debug>(outcome: Result<T, E>, expected: &E) {
    let refusal = outcome.map(drop).expect_err("it must be refused");
    assert_eq!(format!("{refusal:?}"), format!("{expected:?}"));
}
