//! The contract of a plant repository.

use std::collections::BTreeSet;

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantFilter, PlantId, PlantPatch};

use crate::metrics::MetricFamily;
use crate::write::{Created, Decision, Put, Write};
use crate::{
    Author, Backup, Batch, BatchError, EventCursor, EventPage, EventsAfter, HistoryPage,
    HistoryRequest, IdempotencyDigest, Imported, OnConflict, Page, Preconditions, Revision,
    StoreError, StoreFailure, StoredPlant, TagPage, TagPageRequest, Written,
};

/// The most plants that a repository examines for one page of [`PlantRepository::list`]; the page ends early after
/// that. With an index over names, only rare combinations of common pieces get that far.
pub const PAGE_MAX_WORK: usize = 100_000;

/// Keeps plants. This documentation is the contract; the conformance suite tests an implementation against it.
///
/// - **Durable.** What a method reports as done is on disk, and survives a kill.
/// - **A read shows only what is on disk.** It never shows a change that a crash could still undo, and never hides a
///   plant because of a deletion that a crash could still undo.
/// - **Atomic.** Concurrent changes to one plant happen one after the other, each as a whole and with its event. No read
///   shows a part of a batch: each page, each answer about several plants and each snapshot is of one moment.
/// - **A canceled caller cancels nothing.** An accepted change is carried out even when its future is dropped.
/// - **Bounded.** No method reads or returns more than its caller asks for plus a constant.
/// - **No guess after a failure.** A write whose outcome is unknown says so. Once a repository cannot know what it has,
///   every later write fails until it is opened again.
///
/// An implementation provides [`Self::write`] for one plant, and [`Self::batch`] and [`Self::import`] for many.
/// [`Self::create`], [`Self::put`], [`Self::patch`] and [`Self::delete`] call [`Self::write`], and name no author.
#[async_trait]
pub trait PlantRepository: Send + Sync {
    /// Decides one write with [`Write::decide`], and makes its change durable. `by` makes the change.
    ///
    /// # Errors
    ///
    /// Those of [`Write::decide`]. [`StoreError::Busy`] when too many writes wait, [`StoreError::DiskFull`],
    /// [`StoreError::Unavailable`], [`StoreError::Refused`] and [`StoreError::Closed`], with nothing written. After
    /// [`StoreError::Failed`] the outcome is unknown: read before trying again.
    async fn write(&self, write: Write, by: Option<Author>) -> Result<Decision, StoreError>;

    /// Decides the writes of a batch in order, each on the results of those before, and makes all their changes durable
    /// at once. If one is refused, nothing is changed. The events of a batch have consecutive places in the log.
    ///
    /// A batch with the idempotency digest of an earlier one is the same batch again: it returns the same results, and
    /// writes nothing. The repository knows the digest for as long as it keeps the events of the earlier batch. It does
    /// not remember a batch that changed nothing.
    ///
    /// # Errors
    ///
    /// [`BatchError::Refused`], with an error of [`Write::decide`]; with [`StoreError::VersionGone`] if the batch is a
    /// retry, and one of its results is forgotten. [`BatchError::Store`], with another error of [`Self::write`].
    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError>;

    /// Adds a plant whose id is free.
    ///
    /// If the stored plant was created with the same `idempotency` digest, this is the same create again: it returns
    /// the plant as it was sent, and writes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::IdTaken`] when there is a plant with this id, and those of [`Self::write`].
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<Created, StoreError> {
        Ok(self.write(Write::Create(new_plant, idempotency), None).await?.into_created())
    }

    /// Creates or replaces the plant with the id of `new_plant`. An equal plant keeps its revision, without an event. A
    /// replaced plant keeps the idempotency digest of its create.
    ///
    /// # Errors
    ///
    /// [`StoreError::PreconditionFailed`], and those of [`Self::write`].
    async fn put(
        &self,
        new_plant: NewPlant,
        preconditions: Preconditions,
    ) -> Result<Put, StoreError> {
        Ok(self.write(Write::Put(new_plant, preconditions), None).await?.into_put())
    }

    /// Changes the plant with this id. A patch that changes nothing keeps the revision, without an event. The plant
    /// keeps the idempotency digest of its create.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchPlant`], before any precondition (RFC 9110, section 13.2.1), and those of [`Self::put`].
    async fn patch(
        &self,
        id: PlantId,
        patch: PlantPatch,
        preconditions: Preconditions,
    ) -> Result<StoredPlant, StoreError> {
        Ok(self.write(Write::Patch(id, patch, preconditions), None).await?.plant.stored)
    }

    /// Deletes the plant with this id, and with it the idempotency digest of its create.
    ///
    /// # Errors
    ///
    /// Those of [`Self::patch`].
    async fn delete(&self, id: PlantId, preconditions: Preconditions) -> Result<(), StoreError> {
        self.write(Write::Delete(id, preconditions), None).await.map(drop)
    }

    /// Writes many plants in order, each as a write of its own, and reports the outcome of each. Waits for room in the
    /// queue where a create would fail with [`StoreError::Busy`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`] or [`StoreError::Failed`]: the plants up to some point were written, and those after it
    /// were not, except plants that another client changed meanwhile. [`StoreError::DiskFull`]: any of the plants may
    /// be missing. [`StoreError::Busy`] and [`StoreError::Unavailable`]: nothing was written.
    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
        by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError>;

    /// The plant with this id, or `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the plant cannot be read, or may not be on disk.
    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError>;

    /// The plants with these ids, without those that do not exist. [`Page::next`] is `None`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the plants cannot be read.
    async fn get_all(&self, ids: BTreeSet<PlantId>) -> Result<Page, StoreError>;

    /// A page of the changes of a plant, newest first. The repository knows a change for as long as it keeps its event,
    /// or longer. Changes from before a restore are known too, although their events are in another log.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchPlant`] when there is no such plant, and no change of it is known. [`StoreError::VersionGone`]
    /// when the page begins before a revision that is not known as one of the plant. [`StoreError::Failed`] when the
    /// changes cannot be read.
    async fn history(&self, request: HistoryRequest) -> Result<HistoryPage, StoreError>;

    /// The plant as it was at a revision.
    ///
    /// # Errors
    ///
    /// [`StoreError::VersionGone`] when the plant never had the revision, when the revision is a deletion, or when the
    /// change is forgotten. [`StoreError::Failed`] when the plant cannot be read.
    async fn version(&self, id: PlantId, revision: Revision) -> Result<StoredPlant, StoreError>;

    /// A page of the plants that match a filter, by ascending id (keyset pagination), read in either direction.
    ///
    /// The work for one page is bounded, so a page may be short or empty although more plants follow in the direction of
    /// the request; [`Page::next`] says where to continue, and the last page has none. A plant that exists and matches
    /// from the first page to the last is on exactly one page, as it was when that page was read. A plant that matches
    /// only for a time is on one page or on none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the page cannot be read.
    async fn list(&self, request: PageRequest) -> Result<Page, StoreError>;

    /// All plants of this moment, for reads of many pages. Writes continue meanwhile. The snapshot holds memory, and what
    /// the repository would else remove from its disk, until it is dropped.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] when there are too many snapshots. [`StoreError::Failed`] when the plants cannot be read.
    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError>;

    /// The number of plants, or of those with a tag. The repository maintains these numbers, so the call does not count
    /// the plants.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the number cannot be read.
    async fn count(&self, tag: Option<&str>) -> Result<u64, StoreError>;

    /// A page of the tags that plants have, each with the number of its plants (keyset pagination).
    ///
    /// The work for one page is bounded, so a page may be short or empty although more tags follow; [`TagPage::next`]
    /// says where to continue. The numbers of one page are those of one moment.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the page cannot be read.
    async fn tags(&self, request: TagPageRequest) -> Result<TagPage, StoreError>;

    /// The next events in order, at most `limit`, which is at least 1. Revisions ascend from event to event; the
    /// repository decides whether they have gaps. Does not wait for new events: the page is empty if there are none.
    /// May wait briefly for commits in progress. Never skips an event. Shows no event that could still be undone,
    /// except by what makes every cursor invalid, such as the promotion of an asynchronous standby.
    ///
    /// # Errors
    ///
    /// [`StoreError::EventsGone`] when the cursor belongs to another log or is ahead of this one, or when an event
    /// after it is no longer kept. [`StoreError::Failed`] when the events cannot be read.
    async fn events(&self, after: EventsAfter, limit: usize) -> Result<EventPage, StoreError>;

    /// The position of the newest event. A later read shows all changes up to here; the events after this cursor have
    /// the rest.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the position cannot be read.
    async fn newest_event(&self) -> Result<EventCursor, StoreError>;

    /// Waits until there are events after a cursor, and returns the first of them, at most `limit`. Dropping the future
    /// loses no event. A commit wakes each waiting reader, and costs nothing more while none waits. Continues to wait
    /// while a database does not answer.
    ///
    /// # Errors
    ///
    /// Those of [`Self::events`].
    async fn next_events(&self, after: EventCursor, limit: usize) -> Result<EventPage, StoreError>;

    /// Waits until every change that reads have shown is durable. Does nothing in repositories whose reads show only
    /// durable changes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when that cannot be known.
    async fn wait_until_durable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// A backup of this moment. Writes continue meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoBackups`] by default, [`StoreError::BackupRunning`], or [`StoreError::Failed`] when the disk
    /// fails.
    async fn backup(&self) -> Result<Backup, StoreError> {
        Err(StoreError::NoBackups("export the plants instead"))
    }

    /// Whether a backup could begin now.
    ///
    /// # Errors
    ///
    /// Those of [`Self::backup`].
    async fn check_backup(&self) -> Result<(), StoreError> {
        self.backup().await.map(drop)
    }

    /// Whether writes are accepted now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while the disk does not answer, [`StoreError::DiskFull`] while it is full,
    /// [`StoreError::Unavailable`] while the database takes no writes, [`StoreError::NotArchived`],
    /// [`StoreError::Closed`], or [`StoreError::Failed`] once the store has failed.
    async fn check_ready(&self) -> Result<(), StoreError>;

    /// The metrics of the repository, such as the length of its queue; none by default. Their names begin with
    /// `plantd_`, and no label has values from clients. Never waits for a disk or a network.
    fn metrics(&self) -> Vec<MetricFamily> {
        Vec::new()
    }

    /// Waits until the store has failed permanently; never returns if the store does not fail.
    async fn failed(&self) -> StoreFailure;

    /// Carries out the accepted writes, and refuses others. Reads still work.
    ///
    /// # Errors
    ///
    /// When the store has failed, now or before. Waiting callers have got the error too.
    async fn close(&self) -> Result<(), StoreFailure>;
}

/// The plants of one moment.
#[async_trait]
pub trait PlantSnapshot: Send {
    /// A page, as of [`PlantRepository::list`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the page cannot be read.
    async fn list(&mut self, request: PageRequest) -> Result<Page, StoreError>;
}

/// A request for a page of plants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Selects the plants.
    pub filter: PlantFilter,
    /// Where the page is.
    pub place: PagePlace,
    /// The most plants on the page, at least 1.
    pub limit: usize,
}

/// Where a page of plants is among all plants, which are ordered by id. Pages before an id lead back to the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// The first plants.
    First,
    /// The first plants with a greater id.
    After(PlantId),
    /// The last plants with a smaller id.
    Before(PlantId),
}

impl PagePlace {
    /// After this id, or at the start.
    #[must_use]
    pub fn after(id: Option<PlantId>) -> Self {
        id.map_or(Self::First, Self::After)
    }
}
