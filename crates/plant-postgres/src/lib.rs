//! The plant repository in PostgreSQL, of which many may work on the same plants at once.
//!
//! [`PostgresRepository`] keeps the contract of [`plant_store::PlantRepository`]. Writes wait in a queue. A free `lane`
//! takes what waits as one `group` and commits it in one transaction, and several groups are on their way at once. The
//! `reader` shows what is committed. What is said to PostgreSQL stands in `statements`, and `schema` makes the tables.
//!
//! ```no_run
//! use plant_domain::NewPlant;
//! use plant_postgres::{PostgresConfig, PostgresRepository};
//! use plant_store::PlantRepository;
//!
//! # async fn create() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "postgres://plantd@localhost/plants?sslmode=disable".parse()?;
//! let repository = PostgresRepository::open(&PostgresConfig::new(url)).await?;
//! repository.create(NewPlant::new(7, "Salix alba", None)?, None).await?;
//! # Ok(())
//! # }
//! ```
//!
//! TLS is that of rustls 0.23.

#![forbid(unsafe_code)]

mod address;
mod columns;
mod config;
mod group;
mod hosts;
mod joint_reads;
mod lane;
mod queue;
mod reader;
mod readiness;
mod schema;
mod sessions;
mod statements;
mod threads;
mod upkeep;
mod write_health;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::group::MAX_GROUP;
use crate::joint_reads::WaitingRead;
use crate::lane::{Lane, WAITING_ALONE, carry_out_alone};
use crate::queue::Queue;
use crate::reader::PostgresReader;
use crate::readiness::Readiness;
use crate::sessions::Sessions;
use crate::statements::Statements;
use crate::threads::Threads;
use crate::upkeep::Upkeep;
use crate::writer::Writer;
use plant_store::decision::{Decision, Write, imported};
use plant_store::{
    EventPage, Imported, OnConflict, OpenError, Page, PageRequest, PlantRepository, Revision,
    StoreError, StoreFailure, StoredPlant,
};

pub use self::address::{NotAPostgresUrl, PostgresUrl};
pub use self::config::{DEFAULT_READING_SESSIONS, PostgresConfig};
pub use self::statements::{DEFAULT_SCHEMA, NotASchemaName, SchemaName};

/// How many groups of writes are on their way at once, each in a session of its own. More of them make the groups
/// smaller.
const GROUPS_IN_FLIGHT: usize = 3;

/// How many reads of single plants wait to be taken. Further reads wait until there is room.
const WAITING_READS: usize = 1024;

/// How many reads of single plants are on their way at once. Each asks for all plants that somebody waits for.
const READS_IN_FLIGHT: usize = 3;

/// How many imports are carried out at once, each in a session of its own.
const IMPORTS_AT_ONCE: usize = 2;

/// One more session for looking whether writes are taken, and one for forgetting.
const OTHER_SESSIONS: usize = 2;

/// How many sessions with PostgreSQL a repository has at most for writing.
pub const WRITING_SESSIONS: usize = GROUPS_IN_FLIGHT + IMPORTS_AT_ONCE + OTHER_SESSIONS;

/// Keeps plants in PostgreSQL, with group commit: writes that wait at the same time are committed together.
///
/// Any number of repositories may work on the same tables at once, in one process or in many. Unlike a database on one
/// disk, the store does not fail for good: where PostgreSQL does not answer, each write and each read is told so after
/// a few seconds, and later ones are carried out when it answers again. A write whose outcome is not known is looked
/// for before anyone is told anything ([`StoreError::Failed`] says that it was not found out).
///
/// It has threads of its own. Dropping the repository carries out what was taken, like [`PlantRepository::close`], and
/// blocks until then: where PostgreSQL does not answer, for up to half a minute.
#[derive(Debug)]
pub struct PostgresRepository {
    runtime: Handle,
    queue: Arc<Queue>,
    reads: mpsc::Sender<WaitingRead>,
    closing: CancellationToken,
    /// What has to be carried out before the end.
    under_way: TaskTracker,
    imports: Arc<Semaphore>,
    import_writer: Writer,
    reader: PostgresReader,
    readiness: Arc<Mutex<Readiness>>,
    /// Whether something was written that upkeep has not seen.
    has_written: Arc<AtomicBool>,
    // The last one to be dropped: nobody gives the threads anything to do any more.
    _threads: Threads,
}

impl PostgresRepository {
    /// Comes to PostgreSQL, makes the tables where they are missing and brings older ones to the version of this
    /// program, as far as the user of the database may do that.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer or is not one that plants can be trusted to, or the tables cannot be made or
    /// are of a newer program. The message says which, and what to do.
    pub async fn open(config: &PostgresConfig) -> Result<Self, OpenError> {
        Self::try_open(config).await.map_err(unusable)
    }

    async fn try_open(config: &PostgresConfig) -> anyhow::Result<Self> {
        let threads = Threads::start()?;
        let own = config.clone();
        let prepared = threads.handle.spawn(async move { schema::prepare(&own).await });
        let prepared = prepared.await.context("opening panicked")?;
        let last_block =
            prepared.with_context(|| format!("cannot use the plants in {}", config.url))?;
        Self::start(config, last_block, threads)
    }

    /// Makes the tables, or brings them to the version of this program, also while others use them. Returns the
    /// version that they had before, 0 where there were none, and the one that they have now.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and when the user of the database may not make tables.
    pub async fn migrate(config: &PostgresConfig) -> Result<(i32, i32), OpenError> {
        Self::try_migrate(config).await.map_err(unusable)
    }

    async fn try_migrate(config: &PostgresConfig) -> anyhow::Result<(i32, i32)> {
        let threads = Threads::start()?;
        let own = config.clone();
        let migrated = threads.handle.spawn(async move { schema::migrate(&own).await });
        let before = migrated.await.context("migrating panicked")?;
        let before =
            before.with_context(|| format!("cannot migrate the tables in {}", config.url))?;
        Ok((before, schema::VERSION))
    }

    fn start(config: &PostgresConfig, last_block: i64, threads: Threads) -> anyhow::Result<Self> {
        let runtime = threads.handle.clone();
        let (closing, under_way) = (threads.closing.clone(), threads.under_way.clone());
        let statements = Arc::new(Statements::new(&config.schema));
        let reachable = Arc::default();
        let writing = Sessions::new(config, WRITING_SESSIONS, Arc::clone(&reachable))?;
        let reading = Sessions::new(config, config.reading_sessions.get(), reachable)?;
        let reader = PostgresReader { sessions: reading, statements: Arc::clone(&statements) };
        let writer = Writer {
            sessions: writing.clone(),
            statements: Arc::clone(&statements),
            last_block: Arc::new(AtomicI64::new(last_block)),
            doubt: Arc::default(),
            health: Arc::default(),
        };
        let queue = Arc::<Queue>::default();
        let has_written = Arc::new(AtomicBool::new(true));
        let (alone, waiting_alone) = mpsc::channel(WAITING_ALONE);
        let carrying_out = carry_out_alone(writer.clone(), waiting_alone, Arc::clone(&has_written));
        under_way.spawn_on(carrying_out, &runtime);
        for _ in 0..GROUPS_IN_FLIGHT {
            let lane = Lane {
                queue: Arc::clone(&queue),
                writer: writer.clone(),
                alone: alone.clone(),
                closing: closing.clone(),
                has_written: Arc::clone(&has_written),
            };
            under_way.spawn_on(lane.run(), &runtime);
        }
        let (reads, waiting) = mpsc::channel(WAITING_READS);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..READS_IN_FLIGHT {
            runtime.spawn(joint_reads::read_jointly(reader.clone(), Arc::clone(&waiting)));
        }
        let upkeep = Upkeep {
            reader: reader.clone(),
            sessions: writing.clone(),
            keep_events: config.keep_events,
            gap: None,
        };
        runtime.spawn(upkeep::keep_up(upkeep, Arc::clone(&has_written), closing.clone()));
        let readiness = Readiness::new(writer.clone());
        let import_writer = writer.clone();
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

    /// Reads where the sessions are.
    async fn read<T: Send + 'static, Reading>(
        &self,
        read: impl FnOnce(PostgresReader) -> Reading,
    ) -> Result<T, StoreError>
    where
        Reading: Future<Output = anyhow::Result<T>> + Send + 'static,
    {
        let read = self.runtime.spawn(read(self.reader.clone())).await;
        Ok(read.context("a read panicked").flatten().map_err(StoreFailure::new)?)
    }
}

fn unusable(cause: anyhow::Error) -> OpenError {
    OpenError::Unusable(StoreFailure::new(cause))
}

#[async_trait]
impl PlantRepository for PostgresRepository {
    async fn write(&self, write: Write) -> Result<Decision, StoreError> {
        let (answer, outcome) = oneshot::channel();
        if self.closing.is_cancelled() {
            return Err(StoreError::Closed);
        }
        self.queue.push((write, answer))?;
        match outcome.await {
            Ok(outcome) => outcome,
            Err(_) => Err(StoreFailure::new(anyhow!("a group of writes panicked")).into()),
        }
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
    ) -> Result<Vec<Imported>, StoreError> {
        if self.closing.is_cancelled() {
            return Err(StoreError::Closed);
        }
        let writes = new_plants.into_iter().map(|it| Write::of_import(it, on_conflict));
        let mut writes: Vec<Write> = writes.collect();
        let (imports, writer) = (Arc::clone(&self.imports), self.import_writer.clone());
        let has_written = Arc::clone(&self.has_written);
        // A caller that goes away leaves it going on.
        let importing = async move {
            let _turn = imports
                .acquire_owned()
                .await
                .context("importing is closed")
                .map_err(StoreFailure::new)?;
            let mut all = Vec::with_capacity(writes.len());
            while !writes.is_empty() {
                let rest = writes.split_off(writes.len().min(MAX_GROUP));
                let outcomes = writer.carry_out_in_turn(writes).await;
                let is_nothing_written = all.is_empty() && outcomes.iter().all(Result::is_err);
                for outcome in outcomes {
                    all.push(match imported(outcome, on_conflict) {
                        // They say that nothing was written, and some of the import is.
                        Err(StoreError::Busy | StoreError::Unavailable(_))
                            if !is_nothing_written =>
                        {
                            let cause = anyhow!("PostgreSQL takes no more of an import for now");
                            return Err(StoreFailure::new(cause).into());
                        }
                        imported => imported?,
                    });
                }
                has_written.store(true, Ordering::Relaxed);
                writes = rest;
            }
            Ok(all)
        };
        let all = self.under_way.spawn_on(importing, &self.runtime).await;
        all.context("an import panicked").map_err(StoreFailure::new)?
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        let (answer, found) = oneshot::channel();
        // Where nobody takes it, nobody answers.
        let _ = self.reads.send((id, answer)).await;
        Ok(found.await.context("reading plants panicked").map_err(StoreFailure::new)??)
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
        // Those who ask at the same time wait for the same look.
        let looking = self.runtime.spawn(async move { readiness.lock().await.check().await });
        let found = looking.await.context("the look panicked").map_err(StoreFailure::new)?;
        found.map_err(StoreError::Unavailable)
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
