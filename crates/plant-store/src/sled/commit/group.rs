//! A group whose requests are being decided.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;

use anyhow::Context as _;
use plant_domain::{Plant, PlantId};

use super::change::{BatchResults, Change, ChangeGroup, Origin};
use super::request::{Answer, Outcome, Request};
use crate::record::{EncodedPlant, PlantRecord};
use crate::sled::tree::MergeTree;
use crate::write::{Decision, Write};
use crate::{
    Author, Batch, BatchError, DiskShortage, IdempotencyDigest, Revision, StoreError, StoredResult,
    Written,
};

pub(super) struct OpenGroup<'a> {
    tree: &'a MergeTree,
    group: ChangeGroup,
    /// The plants that the group has read or changed, after the changes so far.
    plants: HashMap<PlantId, Option<EncodedPlant>>,
}

/// A request with its outcome, which is sent once the group is on disk.
pub(super) enum Decided {
    Write(Answer<Outcome>, Outcome),
    Batch(Answer<Result<Vec<Written>, BatchError>>, Result<Vec<Written>, BatchError>),
}

impl<'a> OpenGroup<'a> {
    pub(super) fn after(tree: &'a MergeTree, writes: usize) -> Self {
        Self {
            tree,
            group: ChangeGroup::after(&tree.read().totals, writes),
            plants: HashMap::with_capacity(writes),
        }
    }

    pub(super) fn into_changes(self) -> ChangeGroup {
        self.group
    }

    pub(super) fn decide(&mut self, request: Request) -> anyhow::Result<Decided> {
        Ok(match request {
            Request::Write(write, by, answer) => Decided::Write(answer, self.write(write, by)?),
            Request::Batch(batch, answer, _permit) => Decided::Batch(answer, self.batch(batch)?),
        })
    }

    fn write(&mut self, write: Write, by: Option<Author>) -> anyhow::Result<Outcome> {
        let id = write.id();
        let plant = match self.plants.entry(id) {
            Entry::Occupied(plant) => plant.into_mut(),
            Entry::Vacant(place) => {
                let record = self.tree.record(id);
                place.insert(record.with_context(|| format!("reading plant {id}"))?)
            }
        };
        let revision = self.group.first_sequence + self.group.changes.len() as u64;
        let current = plant.as_ref().map(|record| record.decode()?.to_kept_plant(id));
        let current =
            current.transpose().with_context(|| format!("the record of plant {id} is damaged"))?;
        let tag_before = current.as_ref().and_then(|current| current.stored.plant.tag());
        let tag_before = tag_before.map(Box::from);
        let decision = write.decide(current, Revision::from(revision));
        if let Ok(decision) = &decision
            && let Some(kind) = decision.event
        {
            let after = decision.after().map(|it| PlantRecord::of(it).encode()).transpose()?;
            let origin = Origin { by, before: mem::replace(plant, after.clone()) };
            self.group.changes.push(Change::new(kind, id, origin, tag_before, after));
        }
        Ok(decision)
    }

    fn batch(&mut self, batch: Batch) -> anyhow::Result<Result<Vec<Written>, BatchError>> {
        let digest = batch.idempotency.map(IdempotencyDigest::to_bytes);
        if let Some(digest) = &digest
            && let Some(results) = self.earlier_results(digest)?
        {
            let results = StoredResult::decode(&results)?;
            return batch.repeated(&results, |id, revision| self.version(id, revision));
        }
        let begin = self.group.changes.len();
        let mut decisions = Vec::with_capacity(batch.writes.len());
        for (index, write) in batch.writes.into_iter().enumerate() {
            match self.write(write, batch.by.clone())? {
                Ok(decision) => decisions.push(decision),
                Err(refusal) => {
                    self.undo(begin);
                    return Ok(Err(BatchError::Refused(index, refusal)));
                }
            }
        }
        if let Some(digest) = digest
            && self.group.changes.len() > begin
        {
            let (sequence, results) =
                (self.group.last_sequence(), StoredResult::encode(&decisions)?);
            self.group.batches.push(BatchResults { digest, sequence, results });
        }
        Ok(Ok(decisions.into_iter().map(Decision::into_written).collect()))
    }

    /// Undoes the changes from a place on.
    fn undo(&mut self, begin: usize) {
        // The state before the first change of a plant is put back last.
        for change in self.group.changes.drain(begin..).rev() {
            self.plants.insert(PlantId::from(change.id), change.origin.before);
        }
    }

    /// The encoded results of an earlier batch with this digest.
    fn earlier_results(
        &self,
        digest: &[u8; IdempotencyDigest::BYTES],
    ) -> anyhow::Result<Option<Vec<u8>>> {
        match self.group.batches.iter().find(|batch| batch.digest == *digest) {
            Some(batch) => Ok(Some(batch.results.clone())),
            None => self.tree.batch(digest),
        }
    }

    /// A plant at a revision, if that is still known.
    fn version(&self, id: PlantId, revision: Revision) -> anyhow::Result<Option<Plant>> {
        // The earlier batch may be in this group.
        let in_group = revision.get().checked_sub(self.group.first_sequence);
        let in_group =
            in_group.and_then(|place| self.group.changes.get(usize::try_from(place).ok()?));
        match in_group {
            Some(change) => change.record.as_ref().map(EncodedPlant::to_plant).transpose(),
            None => self.tree.version(id, revision.get()),
        }
    }
}

impl Decided {
    /// The outcome of a request that the disk has no room for.
    pub(super) fn refused(request: Request, shortage: DiskShortage) -> Self {
        let full = StoreError::DiskFull(shortage);
        match request {
            Request::Write(_, _, answer) => Self::Write(answer, Err(full)),
            Request::Batch(_, answer, _) => Self::Batch(answer, Err(full.into())),
        }
    }

    /// The same request, refused for want of room.
    pub(super) fn into_refused(self, shortage: DiskShortage) -> Self {
        let full = StoreError::DiskFull(shortage);
        match self {
            Self::Write(answer, _) => Self::Write(answer, Err(full)),
            Self::Batch(answer, _) => Self::Batch(answer, Err(full.into())),
        }
    }

    pub(super) fn answer(self) {
        // The caller may have been canceled.
        match self {
            Self::Write(answer, outcome) => drop(answer.send(outcome)),
            Self::Batch(answer, outcome) => drop(answer.send(outcome)),
        }
    }
}
