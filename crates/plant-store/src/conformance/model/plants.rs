//! The plants of the model, and what a write does to them.

use std::collections::BTreeMap;

use plant_domain::{NewPlant, Plant, PlantFilter, PlantId};

use crate::write::Write;
use crate::{
    Created, EventKind, IdempotencyDigest, Preconditions, Put, Revision, StoreError, StoredPlant,
    Written,
};

/// Each plant, with the digest of its create.
#[derive(Clone, Debug, Default)]
pub(super) struct Plants(BTreeMap<PlantId, (StoredPlant, Option<IdempotencyDigest>)>);

impl Plants {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, id: PlantId) -> Option<&StoredPlant> {
        self.0.get(&id).map(|(stored, _)| stored)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredPlant> {
        self.0.values().map(|(stored, _)| stored)
    }

    pub(super) fn revision(&self, id: PlantId) -> Option<Revision> {
        self.get(id).map(|stored| stored.revision)
    }

    pub(super) fn set_revision(&mut self, id: PlantId, revision: Revision) {
        if let Some((stored, _)) = self.0.get_mut(&id) {
            stored.revision = revision;
        }
    }

    pub(super) fn matching(&self, filter: &PlantFilter) -> Vec<StoredPlant> {
        let matches =
            |stored: &&StoredPlant| filter.matches(stored.plant.name(), stored.plant.tag());
        self.iter().filter(matches).cloned().collect()
    }

    /// Carries out a write, or refuses it. Returns what happened to the plant; `None` if nothing changes. A changed
    /// plant gets this revision.
    pub(super) fn carry_out(
        &mut self,
        write: &Write,
        revision: Revision,
    ) -> Result<Option<EventKind>, StoreError> {
        let id = write.id();
        match write {
            Write::Create(new_plant, digest) => match self.0.get(&id) {
                None => Ok(self.store(new_plant.clone(), *digest, revision)),
                Some((_, known)) if digest.is_some() && known == digest => Ok(None),
                Some(_) => Err(StoreError::IdTaken(id)),
            },
            Write::Put(new_plant, preconditions) => {
                self.meets(preconditions, id)?;
                Ok(self.store(new_plant.clone(), None, revision))
            }
            Write::Patch(_, patch, preconditions) => {
                let present = self.get(id).ok_or(StoreError::NoSuchPlant(id))?;
                let patched = patch.apply(&present.plant).with_id(id);
                self.meets(preconditions, id)?;
                Ok(self.store(patched, None, revision))
            }
            Write::Delete(_, preconditions) => {
                self.get(id).ok_or(StoreError::NoSuchPlant(id))?;
                self.meets(preconditions, id)?;
                self.0.remove(&id);
                Ok(Some(EventKind::Deleted))
            }
        }
    }

    /// The error if the plant, or its absence, does not meet a precondition.
    fn meets(&self, preconditions: &Preconditions, id: PlantId) -> Result<(), StoreError> {
        preconditions.check(self.revision(id)).map_err(StoreError::PreconditionFailed)
    }

    fn store(
        &mut self,
        new_plant: NewPlant,
        digest: Option<IdempotencyDigest>,
        revision: Revision,
    ) -> Option<EventKind> {
        let (id, plant) = new_plant.into_parts();
        let (kind, digest) = match self.0.get(&id) {
            Some((present, _)) if present.plant == plant => return None,
            Some((_, digest)) => (EventKind::Updated, *digest),
            None => (EventKind::Created, digest),
        };
        self.0.insert(id, (StoredPlant { id, plant, revision }, digest));
        Some(kind)
    }

    /// What the repository should return for a write that was just carried out. `event` is what happened.
    pub(super) fn written(&self, write: &Write, event: Option<EventKind>) -> Written {
        let present = || self.get(write.id()).cloned().expect("it was written");
        match write {
            Write::Create(new_plant, _) => {
                let (present, sent): (_, &Plant) = (present(), new_plant.plant());
                let is_current = present.plant == *sent;
                let stored = StoredPlant { plant: sent.clone(), ..present };
                Written::Created(Created { stored, is_current })
            }
            Write::Put(..) => {
                Written::Put(Put { stored: present(), is_new: event == Some(EventKind::Created) })
            }
            Write::Patch(..) => Written::Patched(present()),
            Write::Delete(..) => Written::Deleted,
        }
    }
}
