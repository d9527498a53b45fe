//! The decision of one write, the same for every store.
//!
//! A store reads the current plant, calls [`Write::decide`], makes the [`Decision`] durable, and then answers. Each
//! store implements only how a decision reaches the disk.

use plant_domain::{NewPlant, Plant, PlantId, PlantPatch};

use crate::{
    EventKind, IdempotencyDigest, Imported, OnConflict, Preconditions, Revision, StoreError,
    StoredPlant,
};

/// A request to change one plant, with the arguments of the method of [`PlantRepository`](crate::PlantRepository).
#[derive(Clone, Debug)]
pub enum Write {
    /// [`PlantRepository::create`](crate::PlantRepository::create).
    Create(NewPlant, Option<IdempotencyDigest>),
    /// [`PlantRepository::put`](crate::PlantRepository::put).
    Put(NewPlant, Preconditions),
    /// [`PlantRepository::patch`](crate::PlantRepository::patch).
    Patch(PlantId, PlantPatch, Preconditions),
    /// [`PlantRepository::delete`](crate::PlantRepository::delete).
    Delete(PlantId, Preconditions),
}

/// What a [`Write`] does, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// [`Write::Create`].
    Create,
    /// [`Write::Put`].
    Put,
    /// [`Write::Patch`].
    Patch,
    /// [`Write::Delete`].
    Delete,
}

/// The result of a write: what the method of the repository for this write returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Of a [`Write::Create`].
    Created(Created),
    /// Of a [`Write::Put`].
    Put(Put),
    /// Of a [`Write::Patch`].
    Patched(StoredPlant),
    /// Of a [`Write::Delete`].
    Deleted,
}

/// The stored state of a plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPlant {
    /// The plant and its revision.
    pub stored: StoredPlant,
    /// The digest of the create that made the plant, if the create had an idempotency key.
    pub idempotency: Option<IdempotencyDigest>,
}

/// The outcome of a write that is not refused.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What the write does.
    pub kind: WriteKind,
    /// The event of the change; `None` if nothing changes and nothing is written.
    pub event: Option<EventKind>,
    /// The plant for the answer: its state after the write, or before its deletion. The store writes this plant on a
    /// create or an update.
    pub plant: KeptPlant,
    /// Whether this is the current plant. The answer to a retried create is the plant as first created, which may have
    /// changed since.
    pub is_current: bool,
}

impl Write {
    /// The id of the plant.
    #[must_use]
    pub const fn id(&self) -> PlantId {
        match self {
            Self::Create(new_plant, _) | Self::Put(new_plant, _) => new_plant.id(),
            Self::Patch(id, ..) | Self::Delete(id, _) => *id,
        }
    }

    /// What the write does.
    #[must_use]
    pub const fn kind(&self) -> WriteKind {
        match self {
            Self::Create(..) => WriteKind::Create,
            Self::Put(..) => WriteKind::Put,
            Self::Patch(..) => WriteKind::Patch,
            Self::Delete(..) => WriteKind::Delete,
        }
    }

    /// One plant of an import.
    #[must_use]
    pub fn of_import(new_plant: NewPlant, on_conflict: OnConflict) -> Self {
        match on_conflict {
            OnConflict::Error | OnConflict::Skip => Self::Create(new_plant, None),
            OnConflict::Replace => Self::Put(new_plant, Preconditions::default()),
        }
    }

    /// Decides the write, given the current plant and the revision that a change would get.
    ///
    /// # Errors
    ///
    /// When the write is refused.
    pub fn decide(
        self,
        current: Option<KeptPlant>,
        revision: Revision,
    ) -> Result<Decision, StoreError> {
        let kind = self.kind();
        match self {
            Self::Create(new_plant, idempotency) => {
                let (id, plant) = new_plant.into_parts();
                match current {
                    None => Ok(Decision::created(kind, id, plant, idempotency, revision)),
                    // A retried create.
                    Some(current)
                        if idempotency.is_some() && current.idempotency == idempotency =>
                    {
                        let is_current = current.stored.plant == plant;
                        let stored = StoredPlant { plant, ..current.stored };
                        let plant = KeptPlant { stored, idempotency };
                        Ok(Decision { kind, event: None, plant, is_current })
                    }
                    Some(_) => Err(StoreError::IdTaken(id)),
                }
            }
            Self::Put(new_plant, preconditions) => {
                check(&preconditions, current.as_ref())?;
                let (id, plant) = new_plant.into_parts();
                Ok(match current {
                    None => Decision::created(kind, id, plant, None, revision),
                    Some(current) => Decision::updated(kind, current, plant, revision),
                })
            }
            Self::Patch(id, patch, preconditions) => {
                let current = current.ok_or(StoreError::NoSuchPlant(id))?;
                check(&preconditions, Some(&current))?;
                let plant = patch.apply(&current.stored.plant);
                Ok(Decision::updated(kind, current, plant, revision))
            }
            Self::Delete(id, preconditions) => {
                let plant = current.ok_or(StoreError::NoSuchPlant(id))?;
                check(&preconditions, Some(&plant))?;
                Ok(Decision { kind, event: Some(EventKind::Deleted), plant, is_current: false })
            }
        }
    }
}

fn check(preconditions: &Preconditions, current: Option<&KeptPlant>) -> Result<(), StoreError> {
    let revision = current.map(|current| current.stored.revision);
    preconditions.check(revision).map_err(StoreError::PreconditionFailed)
}

impl Decision {
    fn created(
        kind: WriteKind,
        id: PlantId,
        plant: Plant,
        idempotency: Option<IdempotencyDigest>,
        revision: Revision,
    ) -> Self {
        let plant = KeptPlant { stored: StoredPlant { id, plant, revision }, idempotency };
        Self { kind, event: Some(EventKind::Created), plant, is_current: true }
    }

    /// An equal plant keeps its revision.
    fn updated(kind: WriteKind, mut current: KeptPlant, plant: Plant, revision: Revision) -> Self {
        if current.stored.plant == plant {
            return Self { kind, event: None, plant: current, is_current: true };
        }
        current.stored = StoredPlant { plant, revision, ..current.stored };
        Self { kind, event: Some(EventKind::Updated), plant: current, is_current: true }
    }

    /// The plant after the change; `None` when it was deleted.
    #[must_use]
    pub fn after(&self) -> Option<&KeptPlant> {
        (self.event != Some(EventKind::Deleted)).then_some(&self.plant)
    }

    /// The result of the write.
    #[must_use]
    pub fn into_written(self) -> Written {
        match self.kind {
            WriteKind::Create => Written::Created(self.into_created()),
            WriteKind::Put => Written::Put(self.into_put()),
            WriteKind::Patch => Written::Patched(self.plant.stored),
            WriteKind::Delete => Written::Deleted,
        }
    }

    /// The answer to a create.
    #[must_use]
    pub fn into_created(self) -> Created {
        Created { stored: self.plant.stored, is_current: self.is_current }
    }

    /// The answer to a put.
    #[must_use]
    pub fn into_put(self) -> Put {
        Put { is_new: self.event == Some(EventKind::Created), stored: self.plant.stored }
    }
}

/// The result of a [`PlantRepository::create`](crate::PlantRepository::create).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The plant as it was sent, with its current revision.
    pub stored: StoredPlant,
    /// Whether the plant still equals the one that was sent. It may have changed since an earlier attempt of the same
    /// request created it.
    pub is_current: bool,
}

/// The result of a [`PlantRepository::put`](crate::PlantRepository::put).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The plant as it is stored now.
    pub stored: StoredPlant,
    /// Whether the put created the plant.
    pub is_new: bool,
}

/// The report on one plant of an import.
///
/// # Errors
///
/// If the import as a whole cannot continue.
pub fn imported(
    decided: Result<Decision, StoreError>,
    on_conflict: OnConflict,
) -> Result<Imported, StoreError> {
    match (decided, on_conflict) {
        (Ok(Decision { event: Some(EventKind::Created), .. }), _) => Ok(Imported::Created),
        (Ok(_), _) => Ok(Imported::Replaced),
        (Err(StoreError::IdTaken(_)), OnConflict::Skip) => Ok(Imported::Skipped),
        (Err(StoreError::IdTaken(_)), _) => Ok(Imported::IdTaken),
        (Err(StoreError::Refused(cause)), _) => Ok(Imported::Refused(cause)),
        (Err(error), _) => Err(error),
    }
}
