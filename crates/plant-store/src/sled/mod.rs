//! The durable repository on one disk: a log-structured merge tree over tables of sled.
//!
//! The commit thread owns every write ([`commit`]): it appends each group of writes to the [write-ahead
//! log](commit::write_ahead_log), then applies the group to the [`memtable`]. A second thread flushes full memtables to
//! [`tables`], each a sled database of its own, and starts the merges of tables of similar size ([`compaction`]).
//! `docs/storage.md` has the picture.

mod backup;
mod checkpoints;
mod commit;
mod compaction;
mod config;
#[cfg(feature = "conformance")]
pub mod damage;
mod events;
mod files;
mod health;
#[cfg(feature = "__internal")]
pub mod internal;
mod keys;
mod manifest;
mod memtable;
mod open;
mod page_in_progress;
mod plant_view;
mod reader;
mod regular_file;
mod sealed;
mod search;
mod tables;
mod tag_reader;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantFilter, PlantId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::backup::archive::thread::Archiver;
use self::checkpoints::CheckpointFile;
use self::commit::request::{Outcome, Request};
use self::commit::{Committer, Message};
use self::compaction::Compactor;
use self::compaction::thread::CompactionThread;
use self::events::EventLog;
use self::health::StoreHealth;
use self::health::disk_space::{DiskSpace, free_room};
use self::health::errors::open_error;
use self::health::metrics::EngineMetrics;
use self::plant_view::PlantView;
use self::reader::PlantReader;
use self::tree::MergeTree;

use crate::metrics::MetricFamily;
use crate::write::{Decision, Write, imported};
use crate::{
    Author, Batch, BatchError, Checkpoint, Checkpoints, EventCursor, EventPage, EventsAfter,
    HistoryPage, HistoryRequest, Imported, OnConflict, OpenError, Page, PageRequest,
    PlantRepository, PlantSnapshot, Revision, StoreError, StoreFailure, StoredPlant, TagPage,
    TagPageRequest, Written, fault,
};

/// The capacity of the write queue. Further writes are refused, so an accepted write waits for a few groups only.
const QUEUE_CAPACITY: usize = 1024;

/// How many imports may have plants in the queue. Limits how long other writes wait behind them.
const IMPORTS_IN_QUEUE: usize = 2;

/// How many batches may be in the queue. Further ones are refused. Limits how long other writes wait behind them.
const BATCHES_IN_QUEUE: usize = 32;

/// How many snapshots may exist. Each may keep replaced tables on the disk, and a copy of the map of a memtable.
const SNAPSHOTS: usize = 64;

/// Pages up to this limit, of unfiltered plants or of events in memory, are read on the calling thread, because handing
/// them to a blocking thread would take longer.
const INLINE_PAGE_MAX: usize = 1_000;

pub use self::backup::Backup;
pub use self::backup::archive::reader::{LeftOut, PointInTime};
pub use self::backup::archive::{Pruned, prune_archive};
pub use self::backup::position::{Position, Until};
pub use self::backup::reader::BackupReader;
pub use self::backup::restore::Restored;
pub use self::backup::restore_error::RestoreError;
pub use self::config::{
    DEFAULT_CACHE_MIB, DEFAULT_CHANGES_IN_MEMORY, DEFAULT_PLANTS_SCANNED_FIRST, SledConfig,
};
pub use self::health::inspection::SledInspection;
pub use self::health::verify::Verification;

/// Keeps plants in a folder on one disk, with group commit: writes that wait at the same time share one sync of the
/// write-ahead log, and are answered after it.
///
/// One process at a time can open a database. The methods need a tokio runtime: pages of plants and of events are read
/// on its pool of blocking threads.
///
/// Dropping the repository carries out the accepted writes, like [`PlantRepository::close`].
#[derive(Debug)]
pub struct SledRepository {
    queue: mpsc::Sender<Message>,
    imports: Arc<Semaphore>,
    batches: Arc<Semaphore>,
    permits: ReadPermits,
    snapshots: Arc<Semaphore>,
    health: Arc<StoreHealth>,
    disk_space: Arc<DiskSpace>,
    // Fields drop in this order. Dropping the queue ends the commit thread, which ends the other threads. The lock and
    // its duplicate in `DiskSpace` are released after that.
    _threads: JoinOnDrop,
    reader: PlantReader,
    events: EventLog,
    backups: Arc<Semaphore>,
    archive: Option<Arc<Archiver>>,
    archive_required: bool,
    checkpoints: CheckpointFile,
    metrics: Arc<EngineMetrics>,
    _lock: File,
}

impl SledRepository {
    /// Opens the database, or makes a new one.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, another process has the database open, another version made it, or it is
    /// damaged. The message says which, and what to do.
    pub fn open(config: &SledConfig) -> Result<Self, OpenError> {
        // A panic is a bug of the engine, and must not take down a program that embeds it.
        let opened = panic::catch_unwind(AssertUnwindSafe(|| Self::try_open(config)));
        opened.unwrap_or_else(|_| Err(anyhow!("opening the database panicked"))).map_err(open_error)
    }

    /// The [checkpoints](crate::Checkpoints) of a database, by name. Another process may have the database open.
    ///
    /// # Errors
    ///
    /// When their file cannot be read or is damaged.
    pub fn read_checkpoints(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, OpenError> {
        checkpoints::read(directory).map_err(open_error)
    }

    fn try_open(config: &SledConfig) -> anyhow::Result<Self> {
        let health = Arc::new(StoreHealth::default());
        let opened = open::open(config, Arc::clone(&health)).with_context(|| {
            format!("cannot open the database in {}", config.directory.display())
        })?;
        let (queue, messages) = mpsc::channel(QUEUE_CAPACITY);
        let open::Opened {
            files,
            manifest,
            tables,
            write_ahead_log,
            to_archive,
            checkpoints,
            lock,
        } = opened;
        let (event_log, totals) = (manifest.event_log, manifest.totals);
        let tree = Arc::new(MergeTree::new(tables, totals));
        let events =
            EventLog { tree: Arc::clone(&tree), id: event_log, retention: config.retention };
        let lock_of_threads = lock.try_clone().context("cannot keep the lock")?;
        let directory = config.directory.clone();
        let disk_space = DiskSpace::new(free_room, lock_of_threads, directory, Arc::clone(&health));
        let disk_space = Arc::new(disk_space);
        let metrics = Arc::<EngineMetrics>::default();
        let compactor = Compactor::new(
            files,
            manifest,
            events.clone(),
            Arc::clone(&disk_space),
            Arc::clone(&metrics),
        );
        let (compaction, compaction_handle) =
            CompactionThread::start(compactor, Arc::clone(&health))?;
        let archive = config.archive.clone();
        let archive = archive.map(|it| Archiver::start(it, event_log, totals, &to_archive));
        let archive = archive.transpose()?;
        let committer = Committer {
            tree: Arc::clone(&tree),
            write_ahead_log,
            compaction,
            archive: archive.clone(),
            changes_in_memory: fault::limit("changes-in-memory", config.changes_in_memory),
            health: Arc::clone(&health),
            disk_space: Arc::clone(&disk_space),
            metrics: Arc::clone(&metrics),
        };
        // Otherwise the archive thread would keep the archive locked.
        let mut threads = commit::spawn(committer, messages)
            .inspect_err(|_| archive.iter().for_each(|archive| archive.end()))?;
        // Joined last, because the compaction thread ends after the commit thread.
        threads.push(compaction_handle);
        Ok(Self {
            queue,
            imports: Arc::new(Semaphore::new(IMPORTS_IN_QUEUE)),
            batches: Arc::new(Semaphore::new(BATCHES_IN_QUEUE)),
            permits: ReadPermits {
                reads: Arc::new(Semaphore::new(concurrent_reads())),
                searches: Arc::new(Semaphore::new(concurrent_reads())),
            },
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS)),
            _threads: JoinOnDrop { threads, health: Arc::clone(&health) },
            health,
            disk_space,
            reader: PlantReader {
                tree,
                plants_scanned_first: fault::limit(
                    "plants-scanned-first",
                    config.plants_scanned_first,
                ),
            },
            events,
            backups: Arc::new(Semaphore::new(1)),
            archive,
            archive_required: config.archive_required,
            checkpoints,
            metrics,
            _lock: lock,
        })
    }

    /// Sends the writes of an import to the commit thread, and waits for all outcomes.
    async fn write_all(
        &self,
        writes: impl Iterator<Item = Write> + Send,
        by: Option<Author>,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.health.check()?;
        let with_answers = writes.map(|write| {
            let (answer, outcome) = oneshot::channel();
            (Request::Write(write, by.clone(), answer), outcome)
        });
        let (requests, answered): (Vec<_>, Vec<_>) = with_answers.unzip();
        // The permit travels with the writes, which stay in the queue if the caller is canceled.
        let permit = Arc::clone(&self.imports).acquire_owned().await;
        let permit = permit.context("importing is closed").map_err(StoreFailure::new)?;
        if self.queue.send(Message::Import(requests, permit)).await.is_err() {
            return Err(self.why_no_more_writes());
        }
        let mut outcomes = Vec::with_capacity(answered.len());
        for outcome in answered {
            match outcome.await {
                Ok(outcome) => outcomes.push(outcome),
                Err(_) => return Err(self.health.failed().await.into()),
            }
        }
        Ok(outcomes)
    }

    /// Sends a request to the commit thread, and waits for its outcome.
    async fn carry_out<T>(
        &self,
        request: Request,
        outcome: oneshot::Receiver<T>,
    ) -> Result<T, StoreError> {
        self.health.check()?;
        match self.queue.try_send(Message::Request(request)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.metrics.commit.note_refused();
                return Err(StoreError::Busy);
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(self.why_no_more_writes()),
        }
        tokio::select! {
            biased;
            Ok(outcome) = outcome => Ok(outcome),
            // The commit thread may hang on a disk that does not answer, or may have panicked and dropped the write.
            // The state on disk is then unknown, and the failure is reported soon.
            failure = self.health.failed() => Err(failure.into()),
        }
    }

    /// Reads on a blocking thread, under a permit. There are as many permits as processors, so the commit thread gets
    /// its share.
    async fn read<T: Send + 'static>(
        permits: &Arc<Semaphore>,
        read: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(permits).acquire_owned().await;
        let permit = permit.context("reading is closed").map_err(StoreFailure::new)?;
        let read = tokio::task::spawn_blocking(move || {
            // A canceled caller does not stop the read, so the read holds the permit.
            let _permit = permit;
            read()
        })
        .await;
        Ok(read.context("a read panicked").flatten().map_err(StoreFailure::new)?)
    }

    /// The failure that ended the commit thread, or [`StoreError::Closed`].
    fn why_no_more_writes(&self) -> StoreError {
        self.health.failure().map_or(StoreError::Closed, StoreError::Failed)
    }
}

#[async_trait]
impl PlantRepository for SledRepository {
    async fn write(&self, write: Write, by: Option<Author>) -> Result<Decision, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.carry_out(Request::Write(write, by, answer), outcome).await?
    }

    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError> {
        // A larger batch would never fit into a group.
        batch.check()?;
        let permit = Arc::clone(&self.batches).try_acquire_owned();
        let permit = permit.inspect_err(|_| self.metrics.commit.note_refused());
        let permit = permit.map_err(|_| StoreError::Busy)?;
        let (answer, outcome) = oneshot::channel();
        let written = self.carry_out(Request::Batch(batch, answer, permit), outcome).await??;
        self.metrics.commit.note_batch(written.len());
        Ok(written)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
        by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError> {
        let writes = new_plants.into_iter().map(|it| Write::of_import(it, on_conflict));
        let outcomes = tokio::select! {
            biased;
            outcomes = self.write_all(writes, by) => outcomes?,
            failure = self.health.failed() => return Err(failure.into()),
        };
        outcomes.into_iter().map(|outcome| imported(outcome, on_conflict)).collect()
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(self.reader.plant(id).map_err(StoreFailure::new)?)
    }

    async fn get_all(&self, ids: BTreeSet<PlantId>) -> Result<Page, StoreError> {
        let reader = self.reader.clone();
        Self::read(&self.permits.reads, move || reader.plants(&ids)).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<HistoryPage, StoreError> {
        let events = self.events.clone();
        let page = Self::read(&self.permits.reads, move || events.history(request)).await?;
        page.ok_or_else(|| request.unknown())
    }

    async fn version(&self, id: PlantId, revision: Revision) -> Result<StoredPlant, StoreError> {
        let tree = Arc::clone(&self.reader.tree);
        let plant =
            Self::read(&self.permits.reads, move || tree.version(id, revision.get())).await?;
        let plant = plant.ok_or(StoreError::VersionGone(id, revision))?;
        Ok(StoredPlant { id, plant, revision })
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        if request.filter.matches_all() && request.limit <= INLINE_PAGE_MAX {
            return Ok(self.reader.page(&request).map_err(StoreFailure::new)?);
        }
        let reader = self.reader.clone();
        Self::read(self.permits.of_page(&request.filter), move || reader.page(&request)).await
    }

    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError> {
        let permit = Arc::clone(&self.snapshots).try_acquire_owned();
        let permit = permit.map_err(|_| StoreError::Busy)?;
        Ok(Box::new(SledSnapshot {
            plants: Arc::new(self.reader.tree.plants(true)),
            plants_scanned_first: self.reader.plants_scanned_first,
            permits: self.permits.clone(),
            _permit: permit,
        }))
    }

    async fn count(&self, tag: Option<&str>) -> Result<u64, StoreError> {
        let Some(tag) = tag.map(str::to_owned) else { return Ok(self.reader.count()) };
        let reader = self.reader.clone();
        Self::read(&self.permits.reads, move || reader.count_with_tag(&tag)).await
    }

    async fn tags(&self, request: TagPageRequest) -> Result<TagPage, StoreError> {
        let reader = self.reader.clone();
        Self::read(&self.permits.reads, move || reader.tags(&request)).await
    }

    async fn events(&self, after: EventsAfter, limit: usize) -> Result<EventPage, StoreError> {
        let page = if self.events.is_in_memory(after) && limit <= INLINE_PAGE_MAX {
            self.events.page(after, limit).map_err(StoreFailure::new)?
        } else {
            let events = self.events.clone();
            Self::read(&self.permits.reads, move || events.page(after, limit)).await?
        };
        page.ok_or(StoreError::EventsGone)
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        Ok(self.events.newest())
    }

    async fn next_events(&self, after: EventCursor, limit: usize) -> Result<EventPage, StoreError> {
        let mut page = self.events(EventsAfter::Cursor(after), limit).await?;
        while page.events.is_empty() {
            self.events.tree.shows_after(after.revision.get()).await;
            page = self.events(EventsAfter::Cursor(after), limit).await?;
        }
        Ok(page)
    }

    async fn backup(&self) -> Result<Backup, StoreError> {
        // Each backup may keep a whole generation of tables on the disk, so only one runs at a time.
        let permit = Arc::clone(&self.backups).try_acquire_owned();
        let permit = permit.map_err(|_| StoreError::BackupRunning)?;
        let (tree, event_log) = (Arc::clone(&self.events.tree), self.events.id);
        Self::read(&self.permits.reads, move || Backup::of(tree.snapshot(), event_log, permit))
            .await
    }

    async fn check_backup(&self) -> Result<(), StoreError> {
        if self.backups.available_permits() == 0 { Err(StoreError::BackupRunning) } else { Ok(()) }
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.health.check()?;
        if self.queue.is_closed() {
            return Err(self.why_no_more_writes());
        }
        if let Some(shortage) = self.disk_space.shortage() {
            return Err(StoreError::DiskFull(shortage));
        }
        if let Some(archive) = self.archive.as_ref().filter(|_| self.archive_required) {
            archive.check().map_err(StoreError::NotArchived)?;
        }
        if self.health.is_stalled() { Err(StoreError::Busy) } else { Ok(()) }
    }

    fn metrics(&self) -> Vec<MetricFamily> {
        let queue_length = self.queue.max_capacity() - self.queue.capacity();
        let snapshots = SNAPSHOTS - self.snapshots.available_permits();
        let mut families = self.metrics.commit.collect(queue_length, QUEUE_CAPACITY, snapshots);
        let is_stopped = self.health.is_waiting_for_compaction();
        let tree = &self.reader.tree;
        families.extend(self.metrics.collect(tree, &self.disk_space, is_stopped));
        families.extend(self.archive.iter().flat_map(|archive| archive.metrics()));
        families
    }

    async fn failed(&self) -> StoreFailure {
        self.health.failed().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        let (done, closed) = oneshot::channel();
        let closing = async {
            // A closed queue means that the repository is already closed.
            if self.queue.send(Message::Close(done)).await.is_ok() { closed.await } else { Ok(()) }
        };
        tokio::select! {
            // If the commit thread ends without an answer, a failure is reported soon.
            Ok(()) = closing => self.health.check(),
            failure = self.health.failed() => Err(failure),
        }
    }
}

/// No other process can have the database open, so this one holds every name.
#[async_trait]
impl Checkpoints for SledRepository {
    async fn hold(&self, name: &str) -> Result<Checkpoint, StoreError> {
        let content = self.checkpoints.hold(name).await.map_err(StoreFailure::new)?;
        Ok(Checkpoint { is_held: true, content })
    }

    async fn save(&self, name: &str, content: Vec<u8>) -> Result<bool, StoreError> {
        Ok(self.checkpoints.save(name, content).await.map_err(StoreFailure::new)?)
    }

    async fn retain(&self, names: Vec<String>) -> Result<(), StoreError> {
        Ok(self.checkpoints.retain(&names).await.map_err(StoreFailure::new)?)
    }
}

/// All plants of one moment. Keeps the tables of that moment on the disk.
struct SledSnapshot {
    plants: Arc<PlantView>,
    plants_scanned_first: usize,
    permits: ReadPermits,
    _permit: OwnedSemaphorePermit,
}

#[async_trait]
impl PlantSnapshot for SledSnapshot {
    async fn list(&mut self, request: PageRequest) -> Result<Page, StoreError> {
        let (plants, plants_scanned_first) = (Arc::clone(&self.plants), self.plants_scanned_first);
        let permits = self.permits.of_page(&request.filter);
        SledRepository::read(permits, move || plants.page(&request, plants_scanned_first)).await
    }
}

/// How many reads may be under way at once.
#[derive(Clone, Debug)]
struct ReadPermits {
    reads: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

impl ReadPermits {
    /// Searches may take long, so other reads have permits of their own.
    fn of_page(&self, filter: &PlantFilter) -> &Arc<Semaphore> {
        if filter.matches_all() { &self.reads } else { &self.searches }
    }
}

fn concurrent_reads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[derive(Debug)]
struct JoinOnDrop {
    threads: Vec<JoinHandle<()>>,
    health: Arc<StoreHealth>,
}

impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // After a failure, a thread may hang forever on a disk that does not answer.
            if self.health.failure().is_none() && thread.join().is_err() {
                log::error!("a thread of the store panicked");
            }
        }
    }
}
