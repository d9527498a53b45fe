//! A schema for each test, and helpers for the repositories in it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantFilter, PlantId};
use plant_postgres::{PostgresConfig, PostgresRepository};
use plant_store::conformance::StoreUnderTest;
use plant_store::{
    Event, EventRetention, EventsAfter, PagePlace, PageRequest, PlantRepository, Preconditions,
    Revision, StoredPlant,
};
use plantd_tests::{DEADLINE, wait_until};
use test_postgres::Database;

use crate::user::User;

/// A new schema, on which several repositories may be opened.
pub(crate) struct Schema {
    pub(crate) database: Database,
    pub(crate) config: PostgresConfig,
}

impl Schema {
    pub(crate) fn new() -> Self {
        Self::of(test_postgres::shared())
    }

    pub(crate) fn of(database: &Database) -> Self {
        let mut config = PostgresConfig::new(database.url().parse().expect("a URL"));
        config.schema = test_postgres::fresh_schema_name().parse().expect("a name");
        Self { database: database.clone(), config }
    }

    pub(crate) fn keeping(keep_events: u64) -> Self {
        let mut schema = Self::new();
        schema.config.retention = keeping(keep_events);
        schema
    }

    pub(crate) async fn open(&self) -> PostgresRepository {
        PostgresRepository::open(&self.config).await.expect("opens")
    }

    /// Two repositories on the same tables, as two servers have them.
    pub(crate) async fn open_two(&self) -> [Arc<PostgresRepository>; 2] {
        [self.open().await, self.open().await].map(Arc::new)
    }

    /// The message of an open that is refused.
    pub(crate) async fn refusal(&self) -> String {
        let refusal = PostgresRepository::open(&self.config).await.expect_err("it must not open");
        format!("{refusal:#}")
    }

    pub(crate) async fn migrate_refusal(&self) -> String {
        let refusal = PostgresRepository::migrate(&self.config).await.expect_err("it must not");
        format!("{refusal:#}")
    }

    /// Migrates, and returns whether that made the tables.
    pub(crate) async fn migrate(&self) -> bool {
        PostgresRepository::migrate(&self.config).await.expect("migrates").made_tables
    }

    /// Runs a statement in another session. The name of the schema replaces `SCHEMA`.
    #[track_caller]
    pub(crate) fn query(&self, sql: &str) -> String {
        self.database.query(&self.named(sql))
    }

    pub(crate) fn named(&self, sql: &str) -> String {
        sql.replace("SCHEMA.", &format!("{}.", self.config.schema))
    }

    /// The same schema for a new database user without privileges.
    pub(crate) fn for_new_user(&self) -> (Self, User) {
        let user = User::new(&self.database);
        let mut config = self.config.clone();
        config.url = user.url().parse().expect("a URL");
        (Self { database: self.database.clone(), config }, user)
    }
}

#[async_trait]
impl StoreUnderTest for Schema {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        Arc::new(Self::open(self).await)
    }
}

/// A transaction of another session that pauses until it is committed or rolled back.
pub(crate) struct Resting {
    name: String,
    database: Database,
    end: JoinHandle<Result<String, String>>,
}

impl Resting {
    /// Begins a transaction, and returns when `before` is done. After the pause, the transaction runs `after`.
    #[track_caller]
    pub(crate) fn between(schema: &Schema, before: &str, after: &str) -> Self {
        let name = test_postgres::fresh_schema_name();
        let sql = schema.named(&format!(
            "SET application_name = {name}; BEGIN; {before}; \
             DO $$ BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END $$; \
             {after}; COMMIT"
        ));
        let database = schema.database.clone();
        let end = {
            let database = database.clone();
            thread::spawn(move || database.try_query(&sql))
        };
        let resting = Self { name, database, end };
        wait_until("the transaction to rest", || resting.of_session("wait_event") == "PgSleep");
        resting
    }

    pub(crate) fn of_session(&self, what: &str) -> String {
        let name = &self.name;
        self.database.query(&format!(
            "SELECT {what} FROM pg_stat_activity WHERE application_name = '{name}'"
        ))
    }

    /// Ends the pause, and waits for the commit.
    #[track_caller]
    pub(crate) fn commit(self) {
        self.of_session("pg_cancel_backend(pid)");
        self.end.join().expect("the session does not panic").expect("the transaction is committed");
    }

    #[track_caller]
    pub(crate) fn give_up(self) {
        self.of_session("pg_terminate_backend(pid)");
        self.end.join().expect("the session does not panic").expect_err("it is taken back");
    }
}

/// Creates a plant as the program does, with its own block, but does not count it.
pub(crate) fn create_by_hand(id: i64) -> String {
    format!(
        "INSERT INTO SCHEMA.plants (id, revision, name, folded_name) \
           VALUES ({id}, nextval('SCHEMA.event_blocks') * 1024, 'by hand', 'by hand'); \
         INSERT INTO SCHEMA.events (block, revisions, kinds, ids) \
           SELECT revision / 1024, ARRAY[revision], ARRAY[1::smallint], ARRAY[id] \
           FROM SCHEMA.plants WHERE id = {id}"
    )
}

pub(crate) const COUNT_BY_HAND: &str =
    "UPDATE SCHEMA.counters SET plants = plants + 1, events = events + 1 WHERE slot = 0";

/// Waits until another session blocks one of the repository, in a statement with these words.
#[track_caller]
pub(crate) fn wait_until_blocked(schema: &Schema, words: &str) {
    let sessions = format!(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
           AND strpos(query, '{}') > 0 AND strpos(query, '{words}') > 0",
        schema.config.schema
    );
    wait_until("a session to wait for another one", || schema.query(&sessions) == "t");
}

/// Waits until at most this many events are kept.
#[track_caller]
pub(crate) fn wait_until_forgotten(schema: &Schema, most: u64) {
    wait_until("old events to be forgotten", || {
        let kept = schema.query("SELECT sum(array_length(ids, 1)) FROM SCHEMA.events");
        kept.parse::<u64>().is_ok_and(|kept| kept <= most)
    });
}

/// Waits until all changes of tags are folded.
#[track_caller]
pub(crate) fn wait_until_folded(schema: &Schema) {
    wait_until("the changes of tags to be folded", || {
        schema.query("SELECT count(*) FROM SCHEMA.tag_changes") == "0"
    });
}

pub(crate) fn plant(id: i64, name: &str, tag: Option<&str>) -> NewPlant {
    NewPlant::new(id, name, tag.map(str::to_owned)).expect("valid")
}

pub(crate) fn numbered(id: i64) -> NewPlant {
    plant(id, &format!("plant {id}"), None)
}

pub(crate) async fn create(repository: &PostgresRepository, id: i64) -> Revision {
    repository.create(numbered(id), None).await.expect("the id is free").stored.revision
}

pub(crate) async fn delete(repository: &PostgresRepository, id: i64) {
    repository.delete(PlantId::from(id), Preconditions::default()).await.expect("the plant exists");
}

pub(crate) async fn get(repository: &PostgresRepository, id: i64) -> Option<StoredPlant> {
    repository.get(PlantId::from(id)).await.expect("reads")
}

pub(crate) async fn count(repository: &PostgresRepository) -> i64 {
    repository.count(None).await.expect("reads").cast_signed()
}

/// Keeps this many of the newest events, and none because of its age.
pub(crate) fn keeping(events: u64) -> EventRetention {
    EventRetention::new(events, Duration::ZERO)
}

/// The position after the event with this revision.
pub(crate) async fn position(repository: &PostgresRepository, revision: Revision) -> EventsAfter {
    let events = page_of_events(repository, EventsAfter::Oldest).await;
    let event =
        events.iter().find(|event| event.revision() == revision).expect("the event is kept");
    EventsAfter::Cursor(event.cursor)
}

/// The events after a position that fit into one page.
pub(crate) async fn page_of_events(
    repository: &PostgresRepository,
    after: EventsAfter,
) -> Vec<Event> {
    let reading = tokio::time::timeout(DEADLINE, repository.events(after, 1000));
    reading.await.expect("an answer").expect("reads").events
}

pub(crate) async fn ids_of_events(repository: &PostgresRepository, after: EventsAfter) -> Vec<i64> {
    page_of_events(repository, after).await.iter().map(|event| event.id.get()).collect()
}

pub(crate) fn filter(name_part: Option<&str>, tag: Option<&str>) -> PlantFilter {
    PlantFilter::new(name_part, tag.map(str::to_owned)).expect("valid")
}

/// All plants that match a filter, and how many pages of `limit` plants they took. Pages backward have the same plants.
pub(crate) async fn list(
    repository: &PostgresRepository,
    filter: &PlantFilter,
    limit: usize,
) -> (Vec<StoredPlant>, usize) {
    let (mut all, mut after) = (Vec::new(), None);
    for pages in 1.. {
        let request = PageRequest { filter: filter.clone(), place: PagePlace::after(after), limit };
        let page = repository.list(request).await.expect("reads");
        let next = page.next;
        assert!(page.len() <= limit, "{} plants on a page of {limit}", page.len());
        all.extend(page.stored_plants().expect("valid plants"));
        if next.is_none() {
            assert_eq!(list_backward(repository, filter, limit).await, all, "{filter:?}");
            return (all, pages);
        }
        assert!(next > after, "the list goes back from {after:?} to {next:?}");
        after = next;
    }
    unreachable!("pages have no end")
}

async fn list_backward(
    repository: &PostgresRepository,
    filter: &PlantFilter,
    limit: usize,
) -> Vec<StoredPlant> {
    let (mut pages, mut before) = (Vec::new(), PlantId::from(i64::MAX));
    loop {
        let place = PagePlace::Before(before);
        let page = repository.list(PageRequest { filter: filter.clone(), place, limit }).await;
        let page = page.expect("reads");
        assert!(page.len() <= limit, "{} plants on a page of {limit}", page.len());
        let plants = page.stored_plants().expect("valid plants");
        assert!(plants.iter().all(|stored| stored.id < before), "before {before}: {plants:?}");
        if plants.len() == limit
            && let Some(next) = page.next
        {
            assert_eq!(plants.first().map(|stored| stored.id), Some(next));
        }
        pages.push(plants);
        match page.next {
            Some(next) => before = next,
            None => break,
        }
    }
    pages.into_iter().rev().flatten().collect()
}

pub(crate) async fn listed_ids(repository: &PostgresRepository) -> Vec<i64> {
    let (plants, _) = list(repository, &PlantFilter::default(), 7).await;
    plants.iter().map(|stored| stored.id.get()).collect()
}
