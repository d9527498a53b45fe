//! The durable repository on one disk.
//!
//! One thread owns every write ([`commit`]). It brings each group of writes to the disk in the
//! [`journal`] and then applies it to sled; reads go to sled directly, and so see nothing that is not
//! on disk.

mod checkpoint;
mod commit;
mod database;
mod journal;
mod layout;
mod open;
mod progress;
mod tag_index;

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use tokio::sync::{mpsc, oneshot};

use self::checkpoint::Checkpointer;
use self::commit::{Committer, Create, Message};
use self::layout::PlantRecord;
use self::progress::Progress;
use crate::{IdempotencyDigest, PlantRepository, StoreError, StoreFailure, StoredPlant};

/// How many writes wait at most. What comes on top is refused at once ([`StoreError::Busy`]), so
/// that a write that is taken waits for a few groups only.
const QUEUE_CAPACITY: usize = 1024;

/// How much memory sled's cache takes unless something else is said, in MiB.
pub const DEFAULT_CACHE_MIB: u64 = 128;

/// Where the database is, and what it may use.
///
/// ```
/// let config = plant_store::SledConfig::new("plants");
/// assert_eq!(config.cache_mib, plant_store::DEFAULT_CACHE_MIB);
/// ```
#[derive(Clone, Debug)]
pub struct SledConfig {
    /// The folder of the database. It is made when it is not there, for the owner alone (0700).
    pub directory: PathBuf,
    /// How much memory sled's cache takes, in MiB. The process takes several times as much.
    pub cache_mib: u64,
}

impl SledConfig {
    /// A database in `directory`, with everything else as it is by default.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), cache_mib: DEFAULT_CACHE_MIB }
    }
}

/// Keeps plants in a sled database, with group commit: writes that wait at the same time are synced
/// to the disk together, in a journal beside the database, and answered after that.
///
/// A database is open in one process at a time.
///
/// Dropping the repository carries out what was taken, like [`PlantRepository::close`].
#[derive(Debug)]
pub struct SledRepository {
    queue: mpsc::Sender<Message>,
    progress: Arc<Progress>,
    // The fields are dropped in this order: when the queue is gone the commit thread ends, and only
    // when that has let go of the database may the lock fall.
    _commit_thread: JoinOnDrop,
    db: sled::Db,
    _lock: std::fs::File,
}

impl SledRepository {
    /// Opens the database, or makes a new one.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, another process has the database open, its format is not
    /// ours, or it is damaged. The message says which, and what to do.
    pub fn open(config: &SledConfig) -> anyhow::Result<Self> {
        let opened = open::open_guarded(config).with_context(|| {
            format!("cannot open the database in {}", config.directory.display())
        })?;
        let progress = Arc::new(Progress::new());
        let (queue, messages) = mpsc::channel(QUEUE_CAPACITY);
        let db = opened.database.db.clone();
        let checkpointer = Checkpointer::start(db.clone(), opened.database_file)?;
        let committer =
            Committer::new(opened.database, opened.journal, checkpointer, Arc::clone(&progress));
        let thread = commit::spawn(committer, messages)?;
        Ok(Self {
            queue,
            _commit_thread: JoinOnDrop { thread: Some(thread), progress: Arc::clone(&progress) },
            progress,
            db,
            _lock: opened.lock,
        })
    }

    fn read(&self, id: PlantId) -> anyhow::Result<Option<StoredPlant>> {
        let value = self.db.get(layout::plant_key(id))?;
        value
            .map(|value| {
                let record: PlantRecord<'_> = layout::decode(&value)?;
                record.to_stored_plant(id)
            })
            .transpose()
            .with_context(|| format!("cannot read plant {id}"))
    }

    /// The failure that ended the commit thread, or that it was closed.
    fn why_no_more_writes(&self) -> StoreError {
        let failure = self.progress.failure();
        StoreError::Failed(failure.unwrap_or_else(|| anyhow::anyhow!("the store is closed").into()))
    }
}

#[async_trait]
impl PlantRepository for SledRepository {
    async fn create(
        &self,
        new_plant: NewPlant,
        idempotency: Option<IdempotencyDigest>,
    ) -> Result<StoredPlant, StoreError> {
        if let Some(failure) = self.progress.failure() {
            return Err(failure.into());
        }
        let (answer, outcome) = oneshot::channel();
        let create = Create { new_plant, idempotency, answer };
        match self.queue.try_send(Message::Create(create)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(StoreError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(self.why_no_more_writes()),
        }
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or_else(|_| Err(self.why_no_more_writes())),
            // The commit thread may be stuck in a disk that does not answer.
            failure = self.progress.failed() => Err(failure.into()),
        }
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Ok(self.read(id).map_err(StoreFailure::from)?)
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        if let Some(failure) = self.progress.failure() {
            return Err(failure.into());
        }
        if self.queue.is_closed() {
            return Err(self.why_no_more_writes());
        }
        if self.progress.is_stalled() { Err(StoreError::Busy) } else { Ok(()) }
    }

    async fn failed(&self) -> StoreFailure {
        self.progress.failed().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        let (done, closed) = oneshot::channel();
        let closing = async {
            // Where it is closed already, nobody is there to take this, nor to say that it is done.
            if self.queue.send(Message::Close(done)).await.is_ok() {
                let _ = closed.await;
            }
        };
        tokio::select! {
            () = closing => self.progress.failure().map_or(Ok(()), Err),
            failure = self.progress.failed() => Err(failure),
        }
    }
}

impl Drop for SledRepository {
    fn drop(&mut self) {
        if self.progress.failure().is_some() {
            // sled would flush when the last handle goes, and may wait for ever or panic there.
            mem::forget(self.db.clone());
        }
    }
}

#[derive(Debug)]
struct JoinOnDrop {
    thread: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
}

impl Drop for JoinOnDrop {
    fn drop(&mut self) {
        // After a failure the thread may be stuck for ever in a disk that does not answer.
        if self.progress.failure().is_none()
            && let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the commit thread panicked outside of a commit");
        }
    }
}
