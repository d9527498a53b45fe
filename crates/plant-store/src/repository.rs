//! What every plant repository promises.

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantFilter, PlantId, PlantPatch};

use crate::{
    EventPage, IdempotencyDigest, Imported, OnConflict, Preconditions, Revision, StoreError,
    StoreFailure, StoredPlant,
};

/// How many of the newest events are kept unless something else is said.
pub const DEFAULT_KEEP_EVENTS: u64 = 1_000_000;

/// The most plants that a repository looks at for one page of [`PlantRepository::list`], whatever it finds. It bounds the
/// time that a page takes when the filter matches rarely.
pub const PAGE_MAX_WORK: usize = 10_000;

/// Keeps plants. This documentation is the contract; the conformance suite holds an implementation
/// against it.
///
/// - **Durable.** What a method returns as done is on disk, and stays there whatever is killed.
/// - **A read shows only what is on disk.** It never shows a change that a crash could still take
///   away, and never hides a plant because of a removal that a crash could still undo.
/// - **Atomic.** Concurrent changes to one plant happen one after the other, each as a whole, with
///   the event that tells of it.
/// - **A caller that goes away cancels nothing.** A change that was taken is carried out even when
///   the future that asked for it is dropped.
/// - **Bounded.** No method reads or returns more than a caller asks for plus a constant.
/// - **After a failure nothing pretends.** Where the outcome of a write is unknown, it is told so. Once a
///   repository cannot know any more what it holds, every later write fails too, until it is opened anew.
#[async_trait]
pub trait PlantRepository: Send + Sync {
    /// Adds a plant whose id is free.
    ///
    /// With an `idempotency` digest, a plant that was created with the same digest counts as this
    /// very plant: it is returned as it was sent, and nothing is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::IdTaken`] when there is a plant with this id, [`StoreError::Busy`] when too
    /// much waits already, [`StoreError::DiskFull`], [`StoreError::Unavailable`], [`StoreError::Refused`],
    /// [`StoreError::Closed`]; then nothing was written. After [`StoreError::Failed`] the outcome is unknown: read before
    /// trying again.
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<Created, StoreError>;

    /// Makes `new_plant` the plant with its id, whether there is one already or not. A plant that is
    /// there already, exactly so, keeps its revision, and there is no event. A plant that is replaced
    /// keeps the idempotency digest of its create.
    ///
    /// # Errors
    ///
    /// [`StoreError::PreconditionFailed`], and otherwise as for a create.
    async fn put(
        &self,
        new_plant: NewPlant,
        preconditions: Preconditions,
    ) -> Result<Put, StoreError>;

    /// Changes the plant with this id. A patch that changes nothing leaves the plant's revision as it
    /// is, and there is no event. The plant keeps the idempotency digest of its create.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchPlant`], and otherwise as for [`Self::put`]. Where there is no plant, that
    /// comes before any precondition (RFC 9110, section 13.2.1).
    async fn patch(
        &self,
        id: PlantId,
        patch: PlantPatch,
        preconditions: Preconditions,
    ) -> Result<StoredPlant, StoreError>;

    /// Removes the plant with this id, and with it the idempotency digest of its create.
    ///
    /// # Errors
    ///
    /// As for [`Self::patch`].
    async fn delete(&self, id: PlantId, preconditions: Preconditions) -> Result<(), StoreError>;

    /// Takes many plants, one after the other, each as a write of its own, and says of each what
    /// became of it. It waits for room where a create would be told [`StoreError::Busy`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`], or [`StoreError::Failed`] when the store failed: the plants up to some one were taken,
    /// and those after it not, unless somebody else changed some of them meanwhile. [`StoreError::DiskFull`] when some were
    /// not taken, which may be any of them. [`StoreError::Busy`] and [`StoreError::Unavailable`] when nothing was written.
    ///
    /// ```
    /// # use plant_domain::NewPlant;
    /// # use plant_store::{PlantRepository, SledConfig, SledRepository};
    /// use plant_store::{Imported, OnConflict};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let repository = SledRepository::open(&SledConfig::new(folder.path().join("plants")))?;
    /// let plants =
    ///     vec![NewPlant::new(1, "Salix alba", None)?, NewPlant::new(1, "Salix fragilis", None)?];
    /// let imported = repository.import(plants, OnConflict::Skip).await?;
    /// assert_eq!(imported, [Imported::Created, Imported::Skipped]);
    /// # Ok(())
    /// # }
    /// ```
    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError>;

    /// The plant with this id, or `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when it cannot be read, or when what stands there may not be on disk.
    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError>;

    /// Some of the plants that a filter lets through, by ascending id.
    ///
    /// The work for one page is bounded, so a page may be short, or even empty, although more plants
    /// follow: [`Page::next`] says where to go on. Over all pages, a plant that is there and matches
    /// from the first page to the last is on exactly one of them, as it was when that was read; a
    /// plant that comes or goes meanwhile, or matches only for a time, is on one or on none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when it cannot be read.
    ///
    /// ```
    /// # use plant_domain::{NewPlant, PlantFilter};
    /// # use plant_store::{OnConflict, SledConfig, SledRepository};
    /// use plant_store::{Page, PageRequest, PlantRepository};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let repository = SledRepository::open(&SledConfig::new(folder.path().join("plants")))?;
    /// # let plants: Result<_, _> =
    /// #     [(1, "a"), (2, "b"), (3, "c")].map(|(id, name)| NewPlant::new(id, name, None)).into_iter().collect();
    /// # repository.import(plants?, OnConflict::Error).await?;
    /// let mut names = Vec::new();
    /// let mut after = None;
    /// loop {
    ///     let request = PageRequest { filter: PlantFilter::default(), after, limit: 2 };
    ///     let Page { plants, next } = repository.list(request).await?;
    ///     names.extend(plants.iter().map(|stored| stored.plant.name().to_owned()));
    ///     // An empty page is not the end; one without a next one is.
    ///     if next.is_none() {
    ///         break;
    ///     }
    ///     after = next;
    /// }
    /// assert_eq!(names, ["a", "b", "c"]);
    /// # Ok(())
    /// # }
    /// ```
    async fn list(&self, request: PageRequest) -> Result<Page, StoreError>;

    /// How many plants there are. It counts nothing: the number is kept.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when it cannot be read.
    async fn count(&self) -> Result<u64, StoreError>;

    /// The events after the one that led to the revision `after`, in order, at most `limit`. Every
    /// event has the number of the revision that it led to. The numbers grow; whether they grow
    /// without gaps is the repository's own affair. [`Revision::BEFORE_ALL`] asks for the oldest.
    ///
    /// A repository may forget old events: then it says so, rather than leave them out in silence.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when they cannot be read.
    ///
    /// ```
    /// # use plant_domain::{NewPlant, PlantId};
    /// # use plant_store::{PlantRepository, Preconditions, SledConfig, SledRepository};
    /// use plant_store::{EventKind, EventPage, Revision};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let repository = SledRepository::open(&SledConfig::new(folder.path().join("plants")))?;
    /// # let willow = NewPlant::new(7, "Salix alba", None)?;
    /// repository.create(willow, None).await?;
    /// repository.delete(PlantId::from(7), Preconditions::default()).await?;
    ///
    /// let EventPage::Kept(events) = repository.events(Revision::BEFORE_ALL, 100).await? else {
    ///     panic!("two events are kept");
    /// };
    /// assert_eq!(events[0].kind, EventKind::Created);
    /// // Those after an event that is known already.
    /// let later = repository.events(events[0].revision, 100).await?;
    /// assert_eq!(later, EventPage::Kept(vec![events[1]]));
    /// # Ok(())
    /// # }
    /// ```
    async fn events(&self, after: Revision, limit: usize) -> Result<EventPage, StoreError>;

    /// Whether writes are taken now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while the disk does not answer, [`StoreError::DiskFull`] while it is full,
    /// [`StoreError::Unavailable`] while the database takes no writes, [`StoreError::Closed`], or
    /// [`StoreError::Failed`] once the store has failed.
    async fn check_ready(&self) -> Result<(), StoreError>;

    /// Waits until the store has failed for good; for a store that does not fail, for ever.
    async fn failed(&self) -> StoreFailure;

    /// Carries out what was taken, then takes no more writes. Reading goes on.
    ///
    /// # Errors
    ///
    /// When the store has failed, now or before; those who were waiting have been told.
    async fn close(&self) -> Result<(), StoreFailure>;
}

/// What became of a [`PlantRepository::create`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The plant as it was sent, with the revision that the plant has now.
    pub stored: StoredPlant,
    /// Whether that still is the plant: one that was created by the same request before may have
    /// changed since.
    pub is_current: bool,
}

/// What became of a [`PlantRepository::put`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The plant as it is kept now.
    pub stored: StoredPlant,
    /// Whether there was no plant with this id before.
    pub is_new: bool,
}

/// Which page of which plants is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Which plants.
    pub filter: PlantFilter,
    /// Only those with a greater id.
    pub after: Option<PlantId>,
    /// How many at most; one at least.
    pub limit: usize,
}

impl PageRequest {
    /// The least id that may be on the page; `None` when none may.
    #[must_use]
    pub fn first_id(&self) -> Option<PlantId> {
        self.after.map_or(Some(PlantId::MIN), PlantId::next)
    }
}

/// Some plants, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The plants, by ascending id.
    pub plants: Vec<StoredPlant>,
    /// Where to go on: the [`PageRequest::after`] of the next page, when there may be one.
    pub next: Option<PlantId>,
}
