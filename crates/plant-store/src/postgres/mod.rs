//! The repository in PostgreSQL, of which many may work on the same plants at once.
//!
//! Writes wait in a queue. Whoever is free takes what waits as one [`group`] and commits it in one transaction, and
//! several groups are on their way at once. The [`reader`] shows what is committed. What is said to PostgreSQL stands
//! in [`statements`], and [`schema`] makes the tables.

mod address;
mod group;
mod reader;
mod schema;
mod sessions;
mod statements;
mod upkeep;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId, PlantPatch};
use rustls::ClientConfig;
use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::group::{MAX_GROUP, Writer};
use self::reader::Reader;
use self::sessions::Sessions;
use self::statements::Statements;
use self::upkeep::Upkeep;
use crate::write::{Outcome, Write, imported};
use crate::{
    Created, DEFAULT_KEEP_EVENTS, EventPage, IdempotencyDigest, Imported, OnConflict, Page,
    PageRequest, PlantRepository, Preconditions, Put, Revision, StoreError, StoreFailure,
    StoredPlant,
};

pub use self::address::{NotAPostgresUrl, PostgresUrl};
pub use self::statements::{DEFAULT_POSTGRES_SCHEMA, NotASchemaName, SchemaName};

/// How many writes wait at most. What comes on top is refused at once ([`StoreError::Busy`]).
const QUEUE_CAPACITY: usize = 1024;

/// How many groups of writes are on their way at once, each in a session of its own. More of them make the groups
/// smaller.
const GROUPS_IN_FLIGHT: usize = 3;

/// How many reads of single plants are on their way at once. Each asks for all plants that somebody waits for.
const READS_IN_FLIGHT: usize = 3;

/// How many plants are asked for at once at most.
const MAX_READS: usize = 256;

/// How many imports are carried out at once, each in a session of its own.
const IMPORTS_AT_ONCE: usize = 2;

/// One more session, for looking whether writes are taken, and for what is done beside.
const OTHER_SESSIONS: usize = 1;

/// How many sessions with PostgreSQL a repository has at most for writing.
pub const POSTGRES_WRITING_SESSIONS: usize = GROUPS_IN_FLIGHT + IMPORTS_AT_ONCE + OTHER_SESSIONS;

/// How many sessions with PostgreSQL a repository has at most for reading, unless something else is said.
pub const DEFAULT_POSTGRES_READING_SESSIONS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// How many threads talk to PostgreSQL at most.
const MOST_THREADS: usize = 4;

/// A write that takes longer than this makes the store count as not ready.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// For how long it counts what the last look whether writes are taken has found.
const LOOK_COUNTS_FOR: Duration = Duration::from_millis(500);

/// Where the plants are, and what may be used to come to them.
///
/// ```
/// use plant_store::{DEFAULT_KEEP_EVENTS, PostgresConfig};
///
/// let config = PostgresConfig::new("postgres://plantd@localhost/plants?sslmode=disable".parse()?);
/// assert_eq!(config.keep_events, DEFAULT_KEEP_EVENTS);
/// assert_eq!(config.schema.to_string(), "plantd");
/// # Ok::<(), plant_store::NotAPostgresUrl>(())
/// ```
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    /// Where PostgreSQL is, and as whom.
    pub url: PostgresUrl,
    /// The schema of the tables.
    pub schema: SchemaName,
    /// How TLS is spoken, if it may be.
    pub tls: Option<ClientConfig>,
    /// How many of the newest events are kept at least. A few more may be.
    pub keep_events: u64,
    /// How many sessions there are at most for reading, next to [`POSTGRES_WRITING_SESSIONS`].
    pub reading_sessions: NonZeroUsize,
}

impl PostgresConfig {
    /// What is at a URL, without TLS, and with everything else as it is by default.
    #[must_use]
    pub fn new(url: PostgresUrl) -> Self {
        Self {
            url,
            schema: SchemaName::default(),
            tls: None,
            keep_events: DEFAULT_KEEP_EVENTS,
            reading_sessions: DEFAULT_POSTGRES_READING_SESSIONS,
        }
    }
}

/// Keeps plants in PostgreSQL, with group commit: writes that wait at the same time are committed together.
///
/// Any number of repositories may work on the same tables at once, in one process or in many. Unlike a database on one
/// disk, the store does not fail for good: where PostgreSQL does not answer, each write and each read is told so after
/// a few seconds, and later ones are carried out when it answers again. A write whose outcome is not known is looked
/// for before anyone is told anything ([`StoreError::Failed`] says that it was not found out).
///
/// It has threads of its own. Dropping the repository carries out what was taken, like [`PlantRepository::close`].
#[derive(Debug)]
pub struct PostgresRepository {
    runtime: Handle,
    queue: mpsc::Sender<Waiting>,
    reads: mpsc::Sender<WaitingRead>,
    closing: CancellationToken,
    /// What has to be carried out before the end.
    under_way: TaskTracker,
    imports: Arc<Semaphore>,
    import_writer: Writer,
    reader: Reader,
    readiness: Arc<Mutex<Readiness>>,
    /// Whether something was written that upkeep has not seen.
    has_written: Arc<AtomicBool>,
    // The last one to be dropped: nobody gives the threads anything to do any more.
    _threads: Threads,
}

/// What the last look whether writes are taken has found.
#[derive(Debug)]
struct Readiness {
    writer: Writer,
    last: Option<(Instant, bool)>,
}

impl PostgresRepository {
    /// Comes to PostgreSQL, makes the tables where they are missing and brings older ones to the version of this
    /// program, as far as the user of the database may do that.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer or is not one that plants can be trusted to, or the tables cannot be made or
    /// are of a newer program. The message says which, and what to do.
    pub async fn open(config: &PostgresConfig) -> anyhow::Result<Self> {
        let threads = Threads::start()?;
        let own = config.clone();
        let prepared = threads.handle()?.spawn(async move { schema::prepare(&own).await });
        let prepared = prepared.await.context("opening panicked")?;
        prepared.with_context(|| format!("cannot use the plants in {}", config.url))?;
        Self::start(config, threads)
    }

    /// Makes the tables, or brings them to the version of this program, also while others use them. Returns the
    /// version that they had before, 0 where there were none, and the one that they have now.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and when the user of the database may not make tables.
    pub async fn migrate(config: &PostgresConfig) -> anyhow::Result<(i32, i32)> {
        let threads = Threads::start()?;
        let own = config.clone();
        let migrated = threads.handle()?.spawn(async move { schema::migrate(&own).await });
        let before = migrated.await.context("migrating panicked")?;
        let before =
            before.with_context(|| format!("cannot migrate the tables in {}", config.url))?;
        Ok((before, schema::VERSION))
    }

    fn start(config: &PostgresConfig, threads: Threads) -> anyhow::Result<Self> {
        let runtime = threads.handle()?.clone();
        let (closing, under_way) = (threads.closing.clone(), threads.under_way.clone());
        let statements = Arc::new(Statements::new(&config.schema));
        let reachable = Arc::default();
        let writing = Sessions::new(config, POSTGRES_WRITING_SESSIONS, Arc::clone(&reachable))?;
        let reading = Sessions::new(config, config.reading_sessions.get(), reachable)?;
        let reader = Reader { sessions: reading, statements: Arc::clone(&statements) };
        // Replicas take other rows, so that they seldom wait for each other.
        let mut slots: Vec<i32> = (0..schema::COUNTER_SLOTS).collect();
        fastrand::shuffle(&mut slots);
        let mut slots = slots.into_iter();
        let mut new_writer = || Writer {
            sessions: writing.clone(),
            statements: Arc::clone(&statements),
            slot: slots.next().unwrap_or_default(),
        };
        let (queue, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let waiting = Arc::new(Mutex::new(waiting));
        let has_written = Arc::new(AtomicBool::new(true));
        for _ in 0..GROUPS_IN_FLIGHT {
            let lane = Lane {
                waiting: Arc::clone(&waiting),
                writer: new_writer(),
                closing: closing.clone(),
                has_written: Arc::clone(&has_written),
            };
            under_way.spawn_on(lane.run(), &runtime);
        }
        let (reads, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..READS_IN_FLIGHT {
            runtime.spawn(read_together(reader.clone(), Arc::clone(&waiting)));
        }
        let upkeep = Upkeep {
            reader: reader.clone(),
            sessions: writing.clone(),
            keep_events: config.keep_events,
        };
        runtime.spawn(keep_up(upkeep, Arc::clone(&has_written), closing.clone()));
        let readiness = Readiness { writer: new_writer(), last: None };
        let import_writer = new_writer();
        Ok(Self {
            runtime,
            queue,
            reads,
            closing,
            under_way,
            imports: Arc::new(Semaphore::new(IMPORTS_AT_ONCE)),
            import_writer,
            reader,
            readiness: Arc::new(Mutex::new(readiness)),
            has_written,
            _threads: threads,
        })
    }

    async fn write(&self, write: Write) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        if self.closing.is_cancelled() {
            return Err(StoreError::Closed);
        }
        match self.queue.try_send((write, answer)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(StoreError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(StoreError::Closed),
        }
        match outcome.await {
            Ok(outcome) => outcome,
            Err(_) => Err(StoreFailure::from(anyhow!("a group of writes panicked")).into()),
        }
    }

    /// Reads where the sessions are.
    async fn read<T: Send + 'static, Reading>(
        &self,
        read: impl FnOnce(Reader) -> Reading,
    ) -> Result<T, StoreError>
    where
        Reading: Future<Output = Result<T, StoreFailure>> + Send + 'static,
    {
        let read = self.runtime.spawn(read(self.reader.clone())).await;
        Ok(read.context("a read panicked").map_err(StoreFailure::from)??)
    }
}

/// A read of one plant that waits for its turn, and where what is found goes.
type WaitingRead = (PlantId, oneshot::Sender<Result<Option<StoredPlant>, StoreFailure>>);

/// Reads plants, all that wait at once, for as long as anyone may ask.
async fn read_together(reader: Reader, waiting: Arc<Mutex<mpsc::Receiver<WaitingRead>>>) {
    loop {
        let mut taken = Vec::new();
        waiting.lock().await.recv_many(&mut taken, MAX_READS).await;
        if taken.is_empty() {
            return;
        }
        let ids: Vec<PlantId> = taken.iter().map(|(id, _)| *id).collect();
        match reader.plants(&ids).await {
            Ok(found) => {
                for (id, answer) in taken {
                    // A client that has gone away does not listen: that is no error.
                    let _ = answer.send(found.get(id));
                }
            }
            Err(failure) => {
                for (_, answer) in taken {
                    let _ = answer.send(Err(failure.clone()));
                }
            }
        }
    }
}

/// A write that waits for its turn, and where its outcome goes.
type Waiting = (Write, oneshot::Sender<Outcome>);

/// Takes groups of writes out of the queue and carries them out, one after the other.
struct Lane {
    waiting: Arc<Mutex<mpsc::Receiver<Waiting>>>,
    writer: Writer,
    closing: CancellationToken,
    has_written: Arc<AtomicBool>,
}

impl Lane {
    async fn run(self) {
        loop {
            let taken = self.take().await;
            if taken.is_empty() {
                return;
            }
            let (writer, has_written) = (self.writer.clone(), Arc::clone(&self.has_written));
            // Where it panics, those who wait are told, and the next group is carried out.
            let carried_out = tokio::spawn(async move {
                let (writes, answers): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
                let outcomes = writer.carry_out(writes).await;
                has_written.store(true, Ordering::Relaxed);
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    // A client that has gone away does not listen: that is no error.
                    let _ = answer.send(outcome);
                }
            });
            if carried_out.await.is_err() {
                log::error!("a group of writes panicked");
            }
        }
    }

    /// What waits, at least one write, unless there will be none any more.
    async fn take(&self) -> Vec<Waiting> {
        let mut taken = Vec::new();
        let mut waiting = self.waiting.lock().await;
        tokio::select! {
            _ = waiting.recv_many(&mut taken, MAX_GROUP) => {}
            () = self.closing.cancelled() => {
                waiting.close();
                waiting.recv_many(&mut taken, MAX_GROUP).await;
            }
        }
        taken
    }
}

/// Forgets now and then what there is too much, until the end.
async fn keep_up(upkeep: Upkeep, has_written: Arc<AtomicBool>, closing: CancellationToken) {
    let mut turns = interval(upkeep::INTERVAL);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while closing.run_until_cancelled(turns.tick()).await.is_some() {
        if has_written.swap(false, Ordering::Relaxed)
            && let Err(failure) = upkeep.forget().await
        {
            log::debug!("{failure}; it is tried again");
            has_written.store(true, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl PlantRepository for PostgresRepository {
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
        Ok(self.write(Write::Patch { id, patch, preconditions }).await?.stored)
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
        if self.closing.is_cancelled() {
            return Err(StoreError::Closed);
        }
        let mut writes = Write::of_import(new_plants, on_conflict);
        let (imports, writer) = (Arc::clone(&self.imports), self.import_writer.clone());
        let has_written = Arc::clone(&self.has_written);
        // A caller that goes away leaves it going on.
        let importing = async move {
            let _turn = imports
                .acquire_owned()
                .await
                .context("importing is closed")
                .map_err(StoreFailure::from)?;
            let mut all = Vec::with_capacity(writes.len());
            while !writes.is_empty() {
                let rest = writes.split_off(writes.len().min(MAX_GROUP));
                for outcome in writer.carry_out_in_turn(writes).await {
                    all.push(imported(outcome, on_conflict)?);
                }
                has_written.store(true, Ordering::Relaxed);
                writes = rest;
            }
            Ok(all)
        };
        let all = self.under_way.spawn_on(importing, &self.runtime).await;
        all.context("an import panicked").map_err(StoreFailure::from)?
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        let (answer, found) = oneshot::channel();
        let asked = self.reads.send((id, answer)).await.is_ok();
        match found.await {
            Ok(found) if asked => Ok(found?),
            _ => Err(StoreFailure::from(anyhow!("reading plants panicked")).into()),
        }
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        self.read(move |reader| async move { reader.page(&request).await }).await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.read(move |reader| async move { reader.count().await }).await
    }

    async fn events(&self, after: Revision, limit: usize) -> Result<EventPage, StoreError> {
        self.read(move |reader| async move { reader.events(after, limit).await }).await
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        if self.closing.is_cancelled() {
            return Err(StoreError::Closed);
        }
        let readiness = Arc::clone(&self.readiness);
        // Whoever asks at the same time waits for the same look.
        let looking = self.runtime.spawn(async move {
            let mut readiness = readiness.lock().await;
            match readiness.last {
                Some((looked, found)) if looked.elapsed() < LOOK_COUNTS_FOR => found,
                _ => {
                    let look = timeout(READY_WITHIN, readiness.writer.write_nothing());
                    let found = matches!(look.await, Ok(Ok(())));
                    readiness.last = Some((Instant::now(), found));
                    found
                }
            }
        });
        if looking.await.unwrap_or(false) { Ok(()) } else { Err(StoreError::Busy) }
    }

    async fn failed(&self) -> StoreFailure {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        self.closing.cancel();
        self.under_way.close();
        self.under_way.wait().await;
        Ok(())
    }
}

/// Threads for what is said to PostgreSQL. They end when this is dropped, after what has to be carried out.
#[derive(Debug)]
struct Threads {
    runtime: Option<Runtime>,
    closing: CancellationToken,
    under_way: TaskTracker,
}

impl Threads {
    fn start() -> anyhow::Result<Self> {
        let half = thread::available_parallelism().map_or(1, NonZeroUsize::get) / 2;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(half.clamp(1, MOST_THREADS))
            .thread_name("plant-postgres")
            .enable_all()
            .build()
            .context("cannot start the threads that talk to PostgreSQL")?;
        let (closing, under_way) = (CancellationToken::new(), TaskTracker::new());
        Ok(Self { runtime: Some(runtime), closing, under_way })
    }

    fn handle(&self) -> anyhow::Result<&Handle> {
        Ok(self.runtime.as_ref().context("the threads have ended")?.handle())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.closing.cancel();
        self.under_way.close();
        let (runtime, under_way) = (self.runtime.take(), self.under_way.clone());
        // A thread of another runtime may not wait for this one.
        let ending = thread::spawn(move || {
            if let Some(runtime) = runtime {
                runtime.block_on(under_way.wait());
            }
        });
        if ending.join().is_err() {
            log::error!("the threads that talk to PostgreSQL panicked");
        }
    }
}
