//! The plant repository in PostgreSQL, which any number of programs may use at once.
//!
//! [`PostgresRepository`] implements the contract of [`plant_store::PlantRepository`]. Writes wait in a `queue`. A free
//! lane takes all waiting writes as one `group`, and its `writer` commits the group in one `transaction`; several
//! groups are in flight at once. A `batch` has a transaction of its own, and an `import` is a series of groups. The
//! `reader` reads plants, `search` makes pages of them with the help of the `name_index`, a `snapshot` keeps their moment,
//! `history` reads past changes, `tags` counts tags, `events` reads events, and the `tail` follows the newest ones.
//! `checkpoints` keep the place of a reader of events.
//! `statements` and `page_statements` have the SQL, and `schema` makes the tables.
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
mod attempts;
mod batch;
mod checkpoints;
mod config;
mod event_columns;
mod event_log;
mod events;
mod group;
mod history;
mod hosts;
mod import;
mod metrics;
mod name_index;
mod page_statements;
mod plan;
mod queue;
mod reader;
mod schema;
mod search;
mod sessions;
mod snapshot;
mod statements;
mod tags;
mod tail;
mod threads;
mod transaction;
mod upkeep;
mod write_health;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use plant_store::metrics::MetricFamily;
use plant_store::write::{Decision, Write};
use plant_store::{
    Author, Backup, Batch, BatchError, Checkpoint, Checkpoints, EventCursor, EventPage,
    EventsAfter, HistoryPage, HistoryRequest, Imported, OnConflict, OpenError, Page, PageRequest,
    PlantRepository, PlantSnapshot, Revision, StoreError, StoreFailure, StoredPlant, TagPage,
    TagPageRequest, Written,
};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};

use crate::batch::BatchQueue;
use crate::checkpoints::CheckpointTable;
use crate::events::EventReader;
use crate::group::WaitingWrite;
use crate::metrics::PostgresMetrics;
use crate::name_index::KnownNameIndexes;
use crate::queue::{
    LONGEST_WAIT, QUEUE_CAPACITY, Queue, WAITING_ALONE, carry_out_alone, carry_out_groups,
};
use crate::reader::{PostgresReader, WaitingRead, read_jointly};
use crate::schema::Prepared;
use crate::sessions::Sessions;
use crate::snapshot::PostgresSnapshot;
use crate::tail::EventTail;
use crate::threads::Threads;
use crate::upkeep::Upkeep;
use crate::writer::Writer;

pub use self::address::{NotAPostgresUrl, PostgresUrl};
pub use self::config::{
    DEFAULT_READING_SESSIONS, DEFAULT_SCHEMA, NotASchemaName, PostgresConfig, SchemaName,
};
pub use self::schema::Migration;

/// How many groups of writes and batches are in flight at once, each in its own session. With more, groups would be
/// smaller.
const GROUPS_IN_FLIGHT: usize = 3;

/// How many reads of single plants may wait. Further reads wait for room.
const WAITING_READS: usize = 1024;

/// How many queries for single plants are in flight at once.
const READS_IN_FLIGHT: usize = 3;

/// The fewest sessions for reading: one for a snapshot, and one for all other reads.
pub const FEWEST_READING_SESSIONS: usize = 2;

/// How many imports are carried out at once, each in its own session.
const IMPORTS_AT_ONCE: usize = 2;

/// A session to check whether PostgreSQL takes writes, one to forget events, and one to hold checkpoints.
const OTHER_SESSIONS: usize = 3;

/// The most sessions that a repository opens for writing.
pub const WRITING_SESSIONS: usize = GROUPS_IN_FLIGHT + IMPORTS_AT_ONCE + OTHER_SESSIONS;

/// Keeps plants in PostgreSQL, with group commit: writes that wait at the same time are committed together.
///
/// Any number of repositories may use the same tables at once, in one process or in many. Unlike a database on one
/// disk, the store never fails permanently: while PostgreSQL does not answer, each write and each read fails after a
/// few seconds, and later ones succeed once it answers again. If the outcome of a write is unknown, the repository
/// finds it out before it answers, or fails with [`StoreError::Failed`].
///
/// The repository has its own threads. Dropping it carries out the accepted writes, like [`PlantRepository::close`],
/// and blocks meanwhile: up to half a minute if PostgreSQL does not answer.
#[derive(Debug)]
pub struct PostgresRepository {
    queue: Arc<Queue>,
    reads: mpsc::Sender<WaitingRead>,
    imports: Arc<Semaphore>,
    batches: Arc<BatchQueue>,
    writer: Arc<Writer>,
    reader: PostgresReader,
    snapshots: Arc<Semaphore>,
    most_snapshots: usize,
    name_indexes: KnownNameIndexes,
    checkpoints: CheckpointTable,
    events: Arc<EventReader>,
    tail: Arc<EventTail>,
    metrics: Arc<PostgresMetrics>,
    // Dropped last, when nothing can give the threads more work.
    threads: Threads,
}

impl PostgresRepository {
    /// Connects to PostgreSQL. Makes missing tables and alters those of the version before, if the user of the database
    /// has the right to.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer or is configured to lose acknowledged writes, or when the tables cannot be
    /// created or have another version. The message says which, and what to do.
    pub async fn open(config: &PostgresConfig) -> Result<Self, OpenError> {
        let opened = async {
            let threads = Threads::start()?;
            let prepared = threads.run("opening", schema::prepare(config.clone())).await;
            let prepared =
                prepared.with_context(|| format!("cannot use the plants in {}", config.url))?;
            Self::start(config, prepared, threads)
        };
        opened.await.map_err(unusable)
    }

    /// Makes missing tables, alters those of the version before, and makes missing rows of the table `counters` and the
    /// index over names, also while others use the tables.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`]. The user of the database must have the right to create tables.
    pub async fn migrate(config: &PostgresConfig) -> Result<Migration, OpenError> {
        let migrated = async {
            let threads = Threads::start()?;
            let migrated = threads.run("migrating", schema::migrate(config.clone())).await;
            migrated.with_context(|| format!("cannot use the plants in {}", config.url))
        };
        migrated.await.map_err(unusable)
    }

    /// The [checkpoints](Checkpoints) in the tables, by name.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer, or has no such tables.
    pub async fn read_checkpoints(
        config: &PostgresConfig,
    ) -> Result<BTreeMap<String, Vec<u8>>, OpenError> {
        let config = config.clone();
        let threads = Threads::start().map_err(unusable)?;
        let read = async move { checkpoints::read(&config).await };
        threads.run("reading the checkpoints", read).await.map_err(unusable)
    }

    fn start(
        config: &PostgresConfig,
        prepared: Prepared,
        threads: Threads,
    ) -> anyhow::Result<Self> {
        let Threads { handle, under_way, closing, .. } = &threads;
        let reachable = Arc::default();
        let writing = Sessions::new(config, WRITING_SESSIONS, Arc::clone(&reachable))?;
        let reading_sessions = config.reading_sessions.get().max(FEWEST_READING_SESSIONS);
        let reading = Sessions::new(config, reading_sessions, reachable)?;
        let reader = PostgresReader { sessions: reading };
        let events = Arc::new(EventReader::new(reader.clone()));
        let tail = Arc::new(EventTail::new(Arc::clone(&events)));
        let metrics = Arc::<PostgresMetrics>::default();
        let last_block = prepared.last_block;
        let writer = Writer::new(writing, Arc::clone(&tail), Arc::clone(&metrics), last_block);
        let writer = Arc::new(writer);

        let queue = Arc::new(Queue::new(LONGEST_WAIT));
        let (alone, waiting_alone) = mpsc::channel(WAITING_ALONE);
        under_way.spawn_on(carry_out_alone(Arc::clone(&writer), waiting_alone), handle);
        let turns = Arc::new(Semaphore::new(GROUPS_IN_FLIGHT));
        for _ in 0..GROUPS_IN_FLIGHT {
            let (queue, writer, turns) =
                (Arc::clone(&queue), Arc::clone(&writer), Arc::clone(&turns));
            let lane = carry_out_groups(queue, writer, turns, alone.clone(), closing.clone());
            under_way.spawn_on(lane, handle);
        }
        let (reads, waiting) = mpsc::channel(WAITING_READS);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..READS_IN_FLIGHT {
            handle.spawn(read_jointly(reader.clone(), Arc::clone(&waiting)));
        }
        let upkeep = Upkeep::new(&events, &writer, config.retention);
        handle.spawn(upkeep.run(closing.clone()));
        handle.spawn(Arc::clone(&tail).run(closing.clone()));
        if let Some(extension_schema) = prepared.index_to_make {
            let config = config.clone();
            // The server answers before the index is made. If the server stops first, the next start makes the index.
            handle.spawn(async move {
                if let Err(error) = name_index::make(&config, &extension_schema).await {
                    log::warn!("{}", name_index::missing(&error));
                }
            });
        }
        let imports = Arc::new(Semaphore::new(IMPORTS_AT_ONCE));
        let batches = Arc::new(BatchQueue::new(turns));
        let most_snapshots = reading_sessions / 2;
        let snapshots = Arc::new(Semaphore::new(most_snapshots));
        let name_indexes = KnownNameIndexes::default();
        let checkpoints = CheckpointTable::new(writer.sessions.clone());
        Ok(Self {
            queue,
            reads,
            imports,
            batches,
            writer,
            checkpoints,
            reader,
            snapshots,
            most_snapshots,
            name_indexes,
            events,
            tail,
            metrics,
            threads,
        })
    }

    /// Reads on the repository's threads, to which the sessions belong.
    async fn read<T: Send + 'static>(
        &self,
        reading: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.threads.run("a read", reading).await.map_err(StoreFailure::new)?)
    }

    /// Carries out a task that goes on if its caller is canceled.
    async fn carry_out<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreFailure> {
        let done = self.threads.under_way.spawn_on(work, &self.threads.handle).await;
        done.with_context(|| format!("{what} panicked")).map_err(StoreFailure::new)
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.threads.closing.is_cancelled() { Err(StoreError::Closed) } else { Ok(()) }
    }
}

fn unusable(cause: anyhow::Error) -> OpenError {
    OpenError::Unusable(StoreFailure::new(cause))
}

#[async_trait]
impl PlantRepository for PostgresRepository {
    async fn write(&self, write: Write, by: Option<Author>) -> Result<Decision, StoreError> {
        self.check_open()?;
        let (waiting, outcome) = WaitingWrite::new(write, by);
        self.queue.push(waiting).inspect_err(|error| {
            if matches!(error, StoreError::Busy) {
                self.metrics.commit.note_refused();
            }
        })?;
        match outcome.await {
            Ok(outcome) => outcome,
            Err(_) => Err(StoreFailure::new(anyhow!("a group of writes panicked")).into()),
        }
    }

    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError> {
        self.check_open()?;
        let place = self.batches.place().inspect_err(|_| self.metrics.commit.note_refused())?;
        let (batches, writer) = (Arc::clone(&self.batches), Arc::clone(&self.writer));
        let reader = self.reader.clone();
        let carried_out = async move {
            let _place = place;
            batches.carry_out(&writer, &reader, &batch).await
        };
        let written = self.carry_out("a batch", carried_out).await.map_err(StoreError::from)??;
        self.metrics.commit.note_batch(written.len());
        Ok(written)
    }

    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        on_conflict: OnConflict,
        by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError> {
        self.check_open()?;
        let writes = new_plants.into_iter().map(|it| Write::of_import(it, on_conflict)).collect();
        let (imports, writer) = (Arc::clone(&self.imports), Arc::clone(&self.writer));
        let importing = async move {
            let turn = imports.acquire_owned().await.context("importing is closed");
            let _turn = turn.map_err(StoreFailure::new)?;
            import::import(&writer, writes, on_conflict, by.as_ref()).await
        };
        self.carry_out("an import", importing).await?
    }

    async fn get(&self, id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        let (answer, found) = oneshot::channel();
        // If this fails, the next line reports it.
        let _ = self.reads.send((id, answer)).await;
        Ok(found.await.context("reading plants panicked").map_err(StoreFailure::new)??)
    }

    async fn get_all(&self, ids: BTreeSet<PlantId>) -> Result<Page, StoreError> {
        let reader = self.reader.clone();
        self.read(async move { reader.page_of(&ids).await }).await
    }

    async fn history(&self, request: HistoryRequest) -> Result<HistoryPage, StoreError> {
        let reader = self.reader.clone();
        let page = self.read(async move { history::history(&reader, request).await }).await?;
        page.ok_or_else(|| request.unknown())
    }

    async fn version(&self, id: PlantId, revision: Revision) -> Result<StoredPlant, StoreError> {
        let reader = self.reader.clone();
        let wanted = (id, revision);
        let known = self.read(async move { history::versions(&reader, &[wanted]).await }).await?;
        let plant = known.get(&wanted).cloned().ok_or(StoreError::VersionGone(id, revision))?;
        Ok(StoredPlant { id, plant, revision })
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        let (reader, name_indexes) = (self.reader.clone(), self.name_indexes.clone());
        self.read(async move { search::page(&reader, &name_indexes, &request).await }).await
    }

    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError> {
        let (reader, permits) = (self.reader.clone(), Arc::clone(&self.snapshots));
        let name_indexes = self.name_indexes.clone();
        let begun = async move { Ok(PostgresSnapshot::begin(reader, permits, name_indexes).await) };
        Ok(Box::new(self.read(begun).await??))
    }

    async fn count(&self, tag: Option<&str>) -> Result<u64, StoreError> {
        let reader = self.reader.clone();
        let tag = tag.map(str::to_owned);
        self.read(async move {
            match tag {
                Some(tag) => tags::count_with_tag(&reader, &tag).await,
                None => reader.count().await,
            }
        })
        .await
    }

    async fn tags(&self, request: TagPageRequest) -> Result<TagPage, StoreError> {
        let reader = self.reader.clone();
        self.read(async move { tags::tag_page(&reader, &request).await }).await
    }

    async fn events(&self, after: EventsAfter, limit: usize) -> Result<EventPage, StoreError> {
        let events = Arc::clone(&self.events);
        let page = self.read(async move { events.page(after, limit).await }).await?;
        page.ok_or(StoreError::EventsGone)
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        let events = Arc::clone(&self.events);
        self.read(async move { Ok(events.newest().await?.cursor) }).await
    }

    async fn next_events(
        &self,
        mut after: EventCursor,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        loop {
            self.tail.wait(after).await;
            if let Some(page) = self.tail.page(after, limit) {
                return Ok(page);
            }
            // The follower is behind the tail's memory, or its cursor is of another log.
            let page = self.events(EventsAfter::Cursor(after), limit).await?;
            if !page.events.is_empty() {
                return Ok(page);
            }
            after = page.next;
        }
    }

    async fn wait_until_durable(&self) -> Result<(), StoreError> {
        let events = Arc::clone(&self.events);
        self.read(async move { events.make_reads_durable().await }).await
    }

    async fn backup(&self) -> Result<Backup, StoreError> {
        Err(StoreError::NoBackups(
            "its plants are in PostgreSQL, so use PostgreSQL's own tools: pg_basebackup or pgBackRest",
        ))
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_open()?;
        let writer = Arc::clone(&self.writer);
        let check = async move { Ok(writer.health.check_ready(&writer.sessions).await) };
        let found = self.threads.run("the check", check).await.map_err(StoreFailure::new)?;
        found.map_err(StoreError::Unavailable)
    }

    fn metrics(&self) -> Vec<MetricFamily> {
        let snapshots = self.most_snapshots - self.snapshots.available_permits();
        let queue_length = self.queue.length();
        let mut families = self.metrics.commit.collect(queue_length, QUEUE_CAPACITY, snapshots);
        let (writing, reading) = (self.writer.sessions.usage(), self.reader.sessions.usage());
        families.extend(self.metrics.collect(writing, reading));
        families
    }

    async fn failed(&self) -> StoreFailure {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        self.threads.closing.cancel();
        self.threads.under_way.close();
        self.threads.under_way.wait().await;
        Ok(())
    }
}

#[async_trait]
impl Checkpoints for PostgresRepository {
    async fn hold(&self, name: &str) -> Result<Checkpoint, StoreError> {
        let (table, name) = (self.checkpoints.clone(), name.to_owned());
        self.read(async move { table.hold(&name).await }).await
    }

    async fn save(&self, name: &str, content: Vec<u8>) -> Result<bool, StoreError> {
        let (table, name) = (self.checkpoints.clone(), name.to_owned());
        self.read(async move { table.save(&name, content).await }).await
    }

    async fn retain(&self, names: Vec<String>) -> Result<(), StoreError> {
        let table = self.checkpoints.clone();
        self.read(async move { table.retain(&names).await }).await
    }
}

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
