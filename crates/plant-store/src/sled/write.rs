//! One write: what it asks for, and what is decided of it.

use plant_domain::{NewPlant, PlantId, PlantPatch};

use super::layout::PlantRecord;
use crate::{EventKind, IdempotencyDigest, Preconditions, Revision, StoreError, StoredPlant};

#[derive(Debug)]
pub(super) enum Write {
    Create { new_plant: NewPlant, idempotency: Option<IdempotencyDigest> },
    Put { new_plant: NewPlant, preconditions: Preconditions },
    Patch { id: PlantId, patch: PlantPatch, preconditions: Preconditions },
    Delete { id: PlantId, preconditions: Preconditions },
}

/// What became of a write.
pub(super) type Outcome = Result<Written, StoreError>;

#[derive(Debug)]
pub(super) struct Written {
    /// What happened to the plant, if anything did.
    pub(super) kind: Option<EventKind>,
    /// The plant after the write, as the writer is told of it; for one that was removed, the plant
    /// that it was.
    pub(super) stored: StoredPlant,
    /// Whether there is this plant now.
    pub(super) is_current: bool,
}

/// What is decided of a write.
pub(super) enum Decision<'group> {
    Refuse(StoreError),
    /// There is nothing to change; the writer is told of this plant.
    Keep(PlantRecord<'group>),
    Store(PlantRecord<'group>),
    /// Remove this plant.
    Remove(PlantRecord<'group>),
}

impl Write {
    pub(super) const fn id(&self) -> PlantId {
        match self {
            Self::Create { new_plant, .. } | Self::Put { new_plant, .. } => new_plant.id(),
            Self::Patch { id, .. } | Self::Delete { id, .. } => *id,
        }
    }

    /// The plant that the writer is told of, where `told` is what was decided. What was sent whole is
    /// valid: only what was put together from a record goes through the rules again.
    pub(super) fn stored_plant(&self, told: &PlantRecord<'_>) -> anyhow::Result<StoredPlant> {
        match self {
            Self::Create { new_plant, .. } | Self::Put { new_plant, .. } => Ok(StoredPlant {
                id: new_plant.id(),
                plant: new_plant.plant().clone(),
                revision: Revision::from(told.revision),
            }),
            Self::Patch { id, .. } | Self::Delete { id, .. } => told.to_stored_plant(*id),
        }
    }

    /// Decides, given the plant as it is now and the revision that a change would lead to.
    pub(super) fn decide<'group>(
        &'group self,
        current: Option<PlantRecord<'group>>,
        revision: u64,
    ) -> Decision<'group> {
        match self {
            Self::Create { new_plant, idempotency } => {
                let idempotency = idempotency.map(IdempotencyDigest::to_bytes);
                let record = PlantRecord::new(new_plant, idempotency, revision);
                match current {
                    None => Decision::Store(record),
                    // It is the same create, sent again.
                    Some(current)
                        if idempotency.is_some() && current.idempotency == idempotency =>
                    {
                        Decision::Keep(PlantRecord { revision: current.revision, ..record })
                    }
                    Some(_) => Decision::Refuse(StoreError::IdTaken(new_plant.id())),
                }
            }
            Self::Put { new_plant, preconditions } => {
                if let Some(refusal) = refusal(preconditions, current) {
                    return refusal;
                }
                let idempotency = current.and_then(|current| current.idempotency);
                let record = PlantRecord::new(new_plant, idempotency, revision);
                current.map_or(Decision::Store(record), |current| current.decide_to_become(record))
            }
            Self::Patch { id, patch, preconditions } => {
                let Some(current) = current else {
                    return Decision::Refuse(StoreError::NoSuchPlant(*id));
                };
                if let Some(refusal) = refusal(preconditions, Some(current)) {
                    return refusal;
                }
                let (name, tag) = patch.apply_to_parts(current.name, current.tag);
                current.decide_to_become(PlantRecord { revision, name, tag, ..current })
            }
            Self::Delete { id, preconditions } => match current {
                None => Decision::Refuse(StoreError::NoSuchPlant(*id)),
                Some(current) => {
                    refusal(preconditions, Some(current)).unwrap_or(Decision::Remove(current))
                }
            },
        }
    }
}

fn refusal<'group>(
    preconditions: &Preconditions,
    current: Option<PlantRecord<'group>>,
) -> Option<Decision<'group>> {
    let current = current.map(|current| Revision::from(current.revision));
    let failed = preconditions.check(current).err()?;
    Some(Decision::Refuse(StoreError::PreconditionFailed(failed)))
}

impl<'group> PlantRecord<'group> {
    fn new(
        new_plant: &'group NewPlant,
        idempotency: Option<[u8; IdempotencyDigest::BYTES]>,
        revision: u64,
    ) -> Self {
        let plant = new_plant.plant();
        Self { revision, idempotency, name: plant.name(), tag: plant.tag() }
    }

    /// A plant that would be the same but for its revision stays as it is.
    fn decide_to_become(self, record: Self) -> Decision<'group> {
        if self.is_same_plant(&record) { Decision::Keep(self) } else { Decision::Store(record) }
    }

    pub(super) fn is_same_plant(&self, other: &PlantRecord<'_>) -> bool {
        (self.name, self.tag) == (other.name, other.tag)
    }
}
