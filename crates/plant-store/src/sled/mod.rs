//! The durable repository on one disk.
//!
//! One thread owns every write ([`commit`]). It brings each group of writes to the disk in the [`journal`]
//! and shows it to readers in memory ([`generation`]). Another one brings many groups at once to sled
//! ([`fold`]), where many plants share an entry ([`blocks`]).

#[cfg(feature = "__internal")]
pub mod benches;
mod blocks;
mod commit;
mod config;
mod digest;
mod findings;
mod fold;
#[cfg(feature = "__internal")]
pub mod fuzzing;
mod generation;
mod health;
mod id_filter;
mod inspection;
mod journal;
mod layout;
mod open;
mod ordered_map;
mod reader;
mod recovery;
mod room;
mod scan;
mod shared;
mod verify;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId, PlantPatch};
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::commit::{Committer, Message};
use self::fold::{FoldThread, FoldWorker};
use self::health::StoreHealth;
use self::ordered_map::Db;
use self::ordered_map::guarded::{LastHandle, open_error};
use self::reader::SledReader;
use self::room::Room;
use self::shared::Shared;

use crate::decision::{Decision, Write, imported};
use crate::{
    Created, EventPage, IdempotencyDigest, Imported, OnConflict, OpenError, Page, PageRequest,
    PlantRepository, Preconditions, Put, Revision, StoreError, StoreFailure, StoredPlant, fault,
};

/// How many writes wait at most. What comes on top is refused at once ([`StoreError::Busy`]), so
/// that a write that is taken waits for a few groups only.
const QUEUE_CAPACITY: usize = 1024;

/// How many imports may have plants in the queue. It bounds how long other writes wait behind them.
const IMPORTS_IN_QUEUE: usize = 2;

/// A page without a filter of up to so many plants is read where it is asked for: to hand it to another thread
/// would take longer.
const MAX_READ_AT_ONCE: usize = 1_000;

pub use self::config::{DEFAULT_CACHE_MIB, DEFAULT_CHANGES_IN_MEMORY, SledConfig};
pub use self::inspection::{SledInspection, Verification};

/// Keeps plants in a sled database, with group commit: writes that wait at the same time are synced
/// to the disk together, in a journal beside the database, and answered after that.
///
/// A database is open in one process at a time. Its methods need a tokio runtime: pages of plants and
/// of events are read on its pool of threads for what blocks.
///
/// Dropping the repository carries out what was taken, like [`PlantRepository::close`].
#[derive(Debug)]
pub struct SledRepository {
    queue: mpsc::Sender<Message>,
    imports: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    health: Arc<StoreHealth>,
    room: Arc<Room>,
    // The fields are dropped in this order: when the queue is gone the commit thread ends, with it
    // the one that watches over it, and only when all have let go of the database may the lock fall.
    _threads: JoinOnDrop,
    reader: SledReader,
    _close: CloseOnDrop,
    _lock: std::fs::File,
}

impl SledRepository {
    /// Opens the database, or makes a new one.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, another process has the database open, its format is not
    /// ours, or it is damaged. The message says which, and what to do.
    pub fn open(config: &SledConfig) -> Result<Self, OpenError> {
        Self::try_open(config).map_err(open_error)
    }

    fn try_open(config: &SledConfig) -> anyhow::Result<Self> {
        let opened = open::open(config).with_context(|| {
            format!("cannot open the database in {}", config.directory.display())
        })?;
        let health = Arc::new(StoreHealth::new());
        let (queue, messages) = mpsc::channel(QUEUE_CAPACITY);
        let open::Opened { db, database_file, state, ids, journal, last_handle, lock } = opened;
        let shared = Arc::new(Shared::new(state, ids));
        let (reader_db, committer_db) = (Db::clone(&db), Db::clone(&db));
        let keep_events = config.keep_events;
        let file = database_file.try_clone().context("cannot look how full the disk is")?;
        let room = Arc::new(Room::new(file, config.directory.clone(), Arc::clone(&health)));
        let worker = FoldWorker {
            db: db.in_room(Arc::clone(&room)),
            file: database_file,
            shared: Arc::clone(&shared),
            keep_events,
            room: Arc::clone(&room),
        };
        let (fold_thread, fold_handle) = FoldThread::start(worker, Arc::clone(&health))?;
        let committer = Committer {
            db: committer_db,
            shared: Arc::clone(&shared),
            journal,
            fold_thread,
            changes_in_memory: fault::limit("changes-in-memory", config.changes_in_memory),
            health: Arc::clone(&health),
            room: Arc::clone(&room),
        };
        let mut threads = commit::spawn(committer, messages)?;
        // It ends when the commit thread has ended, which waits for it.
        threads.push(fold_handle);
        let reader = SledReader { db: reader_db, shared, keep_events };
        Ok(Self {
            queue,
            imports: Arc::new(Semaphore::new(IMPORTS_IN_QUEUE)),
            reads: Arc::new(Semaphore::new(reads_at_once())),
            _threads: JoinOnDrop { threads, health: Arc::clone(&health) },
            _close: CloseOnDrop {
                last_handle: Some(last_handle),
                health: Arc::clone(&health),
                room: Arc::clone(&room),
            },
            health,
            room,
            reader,
            _lock: lock,
        })
    }

    async fn write(&self, write: Write) -> Result<Decision, StoreError> {
        self.health.check()?;
        let (answer, outcome) = oneshot::channel();
        match self.queue.try_send(Message::Write(write, answer)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(StoreError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(self.why_no_more_writes()),
        }
        tokio::select! {
            biased;
            Ok(outcome) = outcome => outcome,
            // The commit thread may be stuck in a disk that does not answer. Where it has dropped what
            // it took, it has panicked, and nobody knows what is on the disk: the failure follows.
            failure = self.health.failed() => Err(failure.into()),
        }
    }

    /// The outcomes of the writes, in their order.
    async fn write_all(
        &self,
        writes: Vec<Write>,
    ) -> Result<Vec<Result<Decision, StoreError>>, StoreError> {
        self.health.check()?;
        let count = writes.len();
        let mut outcomes = Vec::with_capacity(count);
        let (answers, mut answered) = mpsc::unbounded_channel();
        // The turn goes with the writes: a caller that goes away leaves them in the queue.
        let turn = Arc::clone(&self.imports).acquire_owned().await.context("importing is closed");
        let turn = turn.map_err(StoreFailure::new)?;
        if self.queue.send(Message::Import(writes, answers, turn)).await.is_err() {
            return Err(self.why_no_more_writes());
        }
        while let Some(outcome) = answered.recv().await {
            outcomes.push(outcome);
        }
        if outcomes.len() < count {
            return Err(self.health.failed().await.into());
        }
        Ok(outcomes)
    }

    /// Reads what may take a while on a thread where it keeps nobody waiting, a few at a time, so that
    /// they leave the commit thread its share of the processor.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&SledReader) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = self.reader.clone();
        let turn = Arc::clone(&self.reads).acquire_owned().await.context("reading is closed");
        let turn = turn.map_err(StoreFailure::new)?;
        let read = tokio::task::spawn_blocking(move || {
            // A caller that goes away leaves the read going on.
            let _turn = turn;
            read(&reader)
        })
        .await;
        Ok(read.context("a read panicked").flatten().map_err(StoreFailure::new)?)
    }

    /// The failure that ended the commit thread, or that it was closed.
    fn why_no_more_writes(&self) -> StoreError {
        self.health.failure().map_or(StoreError::Closed, StoreError::Failed)
    }
}

#[async_trait]
impl PlantRepository for SledRepository {
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<Created, StoreError> {
        Ok(self.write(Write::Create { new_plant, idempotency }).await?.into_created())
    }

    async fn put(
        &self,
        new_plant: NewPlant,
        preconditions: Preconditions,
    ) -> Result<Put, StoreError> {
        Ok(self.write(Write::Put { new_plant, preconditions }).await?.into_put())
    }

    async fn patch(
        &self,
        id: PlantId,
        patch: PlantPatch,
        preconditions: Preconditions,
    ) -> Result<StoredPlant, StoreError> {
        let decision = self.write(Write::Patch { id, patch, preconditions }).await?;
        Ok(decision.plant.stored)
    }

    async fn delete(&self, id: PlantId, preconditions: Preconditions) -> Result<(), StoreError> {
        self.write(Write::Delete { id, preconditions }).await?;
        Ok(())
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError> {
        let writes = new_plants.into_iter().map(|it| Write::of_import(it, on_conflict)).collect();
        let outcomes = tokio::select! {
            biased;
            outcomes = self.write_all(writes) => outcomes?,
            failure = self.health.failed() => return Err(failure.into()),
        };
        outcomes.into_iter().map(|outcome| imported(outcome, on_conflict)).collect()
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(self.reader.plant(id).map_err(StoreFailure::new)?)
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        if request.filter.matches_all() && request.limit <= MAX_READ_AT_ONCE {
            return Ok(self.reader.page(&request).map_err(StoreFailure::new)?);
        }
        self.read(move |reader| reader.page(&request)).await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Ok(self.reader.count())
    }

    async fn events(&self, after: Revision, limit: usize) -> Result<EventPage, StoreError> {
        self.read(move |reader| reader.events(after, limit)).await
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.health.check()?;
        if self.queue.is_closed() {
            return Err(self.why_no_more_writes());
        }
        if self.room.is_full() {
            return Err(StoreError::DiskFull);
        }
        if self.health.is_stalled() { Err(StoreError::Busy) } else { Ok(()) }
    }

    async fn failed(&self) -> StoreFailure {
        self.health.failed().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        let (done, closed) = oneshot::channel();
        let closing = async {
            // Where it is closed already, nobody is there to take this, nor to say that it is done.
            if self.queue.send(Message::Close(done)).await.is_ok() { closed.await } else { Ok(()) }
        };
        tokio::select! {
            // Where the commit thread ends without a word, the failure follows.
            Ok(()) = closing => self.health.check(),
            failure = self.health.failed() => Err(failure),
        }
    }
}

/// How many pages are read at the same time.
fn reads_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Closes sled when the repository is dropped, unless it has failed or the disk is full: sled may wait for ever
/// then.
#[derive(Debug)]
struct CloseOnDrop {
    last_handle: Option<LastHandle>,
    health: Arc<StoreHealth>,
    room: Arc<Room>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if (self.health.failure().is_some() || self.room.is_full())
            && let Some(last_handle) = self.last_handle.take()
        {
            last_handle.leave_open();
        }
    }
}

#[derive(Debug)]
struct JoinOnDrop {
    threads: Vec<JoinHandle<()>>,
    health: Arc<StoreHealth>,
}

impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // After a failure a thread may be stuck for ever in a disk that does not answer.
            if self.health.failure().is_none() && thread.join().is_err() {
                log::error!("a thread of the store panicked");
            }
        }
    }
}
