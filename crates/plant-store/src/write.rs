//! One write: what it asks for, and what is decided of it.

use plant_domain::{NewPlant, PlantId, PlantPatch};

use crate::plant_record::{PlantRecord, Record};
use crate::{
    Created, EventKind, IdempotencyDigest, Imported, OnConflict, Preconditions, Put, Revision,
    StoreError, StoredPlant,
};

#[derive(Debug)]
pub(crate) enum Write {
    Create { new_plant: NewPlant, idempotency: Option<IdempotencyDigest> },
    Put { new_plant: NewPlant, preconditions: Preconditions },
    Patch { id: PlantId, patch: PlantPatch, preconditions: Preconditions },
    Delete { id: PlantId, preconditions: Preconditions },
}

/// What became of a write.
pub(crate) type Outcome = Result<Written, StoreError>;

#[derive(Debug)]
pub(crate) struct Written {
    /// What happened to the plant, if anything did.
    pub(crate) kind: Option<EventKind>,
    /// The plant after the write, as the writer is told of it; for one that was removed, the plant
    /// that it was.
    pub(crate) stored: StoredPlant,
    /// Whether there is this plant now.
    pub(crate) is_current: bool,
}

/// What is decided of a write that is not refused.
pub(crate) struct Decision {
    /// The plant after the write, or that it is gone, where that is a change.
    pub(crate) change_to: Option<Option<Record>>,
    pub(crate) decided: Decided,
}

/// What becomes of a write when its change, if there is one, is on disk.
pub(crate) struct Decided {
    kind: Option<EventKind>,
    told: Told,
    is_current: bool,
}

/// Which plant the writer is told of.
enum Told {
    /// The one that was sent, in this revision.
    Sent(u64),
    Kept(StoredPlant),
}

/// What a write would have kept of its plant.
enum Wish<'a> {
    Refuse(StoreError),
    /// There is nothing to change.
    Keep(PlantRecord<'a>),
    Store(PlantRecord<'a>),
    Remove(PlantRecord<'a>),
}

impl Written {
    pub(crate) fn into_created(self) -> Created {
        let Self { stored, is_current, .. } = self;
        Created { stored, is_current }
    }

    pub(crate) fn into_put(self) -> Put {
        Put { is_new: self.kind == Some(EventKind::Created), stored: self.stored }
    }
}

impl Decided {
    /// What happens to the plant, if anything does.
    #[cfg(feature = "postgres")]
    pub(crate) const fn kind(&self) -> Option<EventKind> {
        self.kind
    }

    /// The same with another revision.
    #[cfg(feature = "postgres")]
    pub(crate) fn map_revision(mut self, to_other: impl Fn(u64) -> u64) -> Self {
        match &mut self.told {
            Told::Sent(revision) => *revision = to_other(*revision),
            Told::Kept(stored) => stored.revision = Revision::from(to_other(stored.revision.get())),
        }
        self
    }
}

impl Write {
    pub(crate) const fn id(&self) -> PlantId {
        match self {
            Self::Create { new_plant, .. } | Self::Put { new_plant, .. } => new_plant.id(),
            Self::Patch { id, .. } | Self::Delete { id, .. } => *id,
        }
    }

    /// What an import of plants is made of.
    pub(crate) fn of_import(new_plants: Vec<NewPlant>, on_conflict: OnConflict) -> Vec<Self> {
        let to_write = |new_plant| match on_conflict {
            OnConflict::Error | OnConflict::Skip => Self::Create { new_plant, idempotency: None },
            OnConflict::Replace => Self::Put { new_plant, preconditions: Preconditions::default() },
        };
        new_plants.into_iter().map(to_write).collect()
    }

    /// Decides, given the plant as it is now and the revision that a change would lead to. The inner error
    /// is the refusal.
    ///
    /// # Errors
    ///
    /// When the plant as it is now cannot be read.
    pub(crate) fn decide(
        &self,
        current: Option<&Record>,
        revision: u64,
    ) -> anyhow::Result<Result<Decision, StoreError>> {
        let current = current.map(Record::decode).transpose()?;
        let (told, kind, change_to) = match self.wish(current, revision) {
            Wish::Refuse(refusal) => return Ok(Err(refusal)),
            Wish::Keep(record) => (record, None, None),
            Wish::Store(record) => {
                let kind = if current.is_none() { EventKind::Created } else { EventKind::Updated };
                (record, Some(kind), Some(Some(record.encode()?)))
            }
            Wish::Remove(record) => (record, Some(EventKind::Deleted), Some(None)),
        };
        let is_current = match kind {
            None => current.is_some_and(|current| current.is_same_plant(&told)),
            Some(kind) => kind != EventKind::Deleted,
        };
        let told = match self {
            // What was sent whole is valid: only what was put together from a record goes through the
            // rules again.
            Self::Create { .. } | Self::Put { .. } => Told::Sent(told.revision),
            Self::Patch { id, .. } | Self::Delete { id, .. } => {
                Told::Kept(told.to_stored_plant(*id)?)
            }
        };
        Ok(Ok(Decision { change_to, decided: Decided { kind, told, is_current } }))
    }

    /// What the writer is told in the end.
    pub(crate) fn written(self, decided: Decided) -> Written {
        let Decided { kind, told, is_current } = decided;
        let stored = match (self, told) {
            (_, Told::Kept(stored)) => stored,
            (
                Self::Create { new_plant, .. } | Self::Put { new_plant, .. },
                Told::Sent(revision),
            ) => {
                let (id, plant) = new_plant.into_parts();
                StoredPlant { id, plant, revision: Revision::from(revision) }
            }
            (Self::Patch { .. } | Self::Delete { .. }, Told::Sent(_)) => {
                unreachable!("only a plant that was sent is told of as it was sent")
            }
        };
        Written { kind, stored, is_current }
    }

    fn wish<'a>(&'a self, current: Option<PlantRecord<'a>>, revision: u64) -> Wish<'a> {
        match self {
            Self::Create { new_plant, idempotency } => {
                let idempotency = idempotency.map(IdempotencyDigest::to_bytes);
                let record = PlantRecord::new(new_plant, idempotency, revision);
                match current {
                    None => Wish::Store(record),
                    // It is the same create, sent again.
                    Some(current)
                        if idempotency.is_some() && current.idempotency == idempotency =>
                    {
                        Wish::Keep(PlantRecord { revision: current.revision, ..record })
                    }
                    Some(_) => Wish::Refuse(StoreError::IdTaken(new_plant.id())),
                }
            }
            Self::Put { new_plant, preconditions } => {
                if let Some(refusal) = refusal(preconditions, current) {
                    return refusal;
                }
                let idempotency = current.and_then(|current| current.idempotency);
                let record = PlantRecord::new(new_plant, idempotency, revision);
                current.map_or(Wish::Store(record), |current| current.become_or_stay(record))
            }
            Self::Patch { id, patch, preconditions } => {
                let Some(current) = current else {
                    return Wish::Refuse(StoreError::NoSuchPlant(*id));
                };
                if let Some(refusal) = refusal(preconditions, Some(current)) {
                    return refusal;
                }
                let (name, tag) = patch.apply_to_parts(current.name, current.tag);
                current.become_or_stay(PlantRecord { revision, name, tag, ..current })
            }
            Self::Delete { id, preconditions } => match current {
                None => Wish::Refuse(StoreError::NoSuchPlant(*id)),
                Some(current) => {
                    refusal(preconditions, Some(current)).unwrap_or(Wish::Remove(current))
                }
            },
        }
    }
}

fn refusal<'a>(
    preconditions: &Preconditions,
    current: Option<PlantRecord<'a>>,
) -> Option<Wish<'a>> {
    let current = current.map(|current| Revision::from(current.revision));
    let failed = preconditions.check(current).err()?;
    Some(Wish::Refuse(StoreError::PreconditionFailed(failed)))
}

impl<'a> PlantRecord<'a> {
    fn new(
        new_plant: &'a NewPlant,
        idempotency: Option<[u8; IdempotencyDigest::BYTES]>,
        revision: u64,
    ) -> Self {
        let plant = new_plant.plant();
        Self { revision, idempotency, name: plant.name(), tag: plant.tag() }
    }

    /// A plant that would be the same but for its revision stays as it is.
    fn become_or_stay(self, record: Self) -> Wish<'a> {
        if self.is_same_plant(&record) { Wish::Keep(self) } else { Wish::Store(record) }
    }

    fn is_same_plant(&self, other: &PlantRecord<'_>) -> bool {
        (self.name, self.tag) == (other.name, other.tag)
    }
}

/// What became of a plant of an import, whose write had this outcome.
pub(crate) fn imported(outcome: Outcome, on_conflict: OnConflict) -> Result<Imported, StoreError> {
    match (outcome, on_conflict) {
        (Ok(Written { kind: Some(EventKind::Created), .. }), _) => Ok(Imported::Created),
        (Ok(_), _) => Ok(Imported::Replaced),
        (Err(StoreError::IdTaken(_)), OnConflict::Skip) => Ok(Imported::Skipped),
        (Err(StoreError::IdTaken(_)), _) => Ok(Imported::IdTaken),
        (Err(StoreError::Refused(cause)), _) => Ok(Imported::Refused(cause)),
        (Err(error), _) => Err(error),
    }
}
