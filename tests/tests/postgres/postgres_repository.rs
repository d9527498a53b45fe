//! The repository in PostgreSQL: the contract, and promises that are its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantFilter, PlantId};
use plant_postgres::{PostgresConfig, PostgresRepository};
use plant_store::conformance::model::KeptEvents;
use plant_store::conformance::{self, StoreUnderTest, model};
use plant_store::{
    Event, EventKind, EventRetention, EventsAfter, IdempotencyDigest, Imported, OnConflict,
    PageRequest, PlantRepository, Preconditions, Revision, StoreError, StoredPlant,
};
use plantd_tests::{DEADLINE, wait_for, wait_until};
use proptest::prelude::ProptestConfig;
use proptest::proptest;
use test_postgres::{Cluster, Database};

use crate::user::User;

const FEW_EVENTS: usize = 16;

/// How many plants are looked at for one page at most.
const MAX_LOOKED_AT: i64 = 10_000;

/// How many plants are imported at once: more than are written in one transaction.
const IMPORTED: i64 = 600;

/// The longest wait until an unused block is given up, on a busy machine.
const MOMENT: Duration = Duration::from_secs(3);

/// A fresh schema, of which several repositories may be opened.
struct Schema {
    database: Database,
    config: PostgresConfig,
}

impl Schema {
    fn new() -> Self {
        Self::of(test_postgres::shared())
    }

    fn of(database: &Database) -> Self {
        let mut config = PostgresConfig::new(database.url().parse().expect("a URL"));
        config.schema = test_postgres::fresh_schema_name().parse().expect("a name");
        Self { database: database.clone(), config }
    }

    fn keeping(keep_events: u64) -> Self {
        let mut schema = Self::new();
        schema.config.retention = keeping(keep_events);
        schema
    }

    async fn open(&self) -> PostgresRepository {
        PostgresRepository::open(&self.config).await.expect("opens")
    }

    /// Two repositories on the same tables, as two servers have them.
    async fn open_two(&self) -> [Arc<PostgresRepository>; 2] {
        [self.open().await, self.open().await].map(Arc::new)
    }

    /// The message of an open that is refused.
    async fn refusal(&self) -> String {
        let refusal = PostgresRepository::open(&self.config).await.expect_err("it must not open");
        format!("{refusal:#}")
    }

    /// The message of a migration that is refused.
    async fn migrate_refusal(&self) -> String {
        let refusal = PostgresRepository::migrate(&self.config).await.expect_err("it must not");
        format!("{refusal:#}")
    }

    /// Migrates, and returns whether that made the tables.
    async fn migrate(&self) -> bool {
        PostgresRepository::migrate(&self.config).await.expect("migrates")
    }

    /// Runs a statement in another session, with the name for SCHEMA.
    #[track_caller]
    fn query(&self, sql: &str) -> String {
        self.database.query(&self.named(sql))
    }

    fn named(&self, sql: &str) -> String {
        sql.replace("SCHEMA.", &format!("{}.", self.config.schema))
    }

    /// The same schema for a user of the database without privileges.
    fn for_new_user(&self) -> (Self, User) {
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

/// A transaction of another session, which pauses until this is committed or rolled back.
struct Resting {
    name: String,
    database: Database,
    end: JoinHandle<Result<String, String>>,
}

impl Resting {
    /// Begins a transaction, and returns when `before` is done. The transaction then pauses, and continues with
    /// `after`.
    #[track_caller]
    fn between(schema: &Schema, before: &str, after: &str) -> Self {
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

    fn of_session(&self, what: &str) -> String {
        let name = &self.name;
        self.database.query(&format!(
            "SELECT {what} FROM pg_stat_activity WHERE application_name = '{name}'"
        ))
    }

    /// Runs the transaction to its end.
    #[track_caller]
    fn commit(self) {
        self.of_session("pg_cancel_backend(pid)");
        self.end.join().expect("it ends").expect("it is committed");
    }

    /// Rolls the transaction back.
    #[track_caller]
    fn give_up(self) {
        self.of_session("pg_terminate_backend(pid)");
        self.end.join().expect("it ends").expect_err("it is taken back");
    }
}

/// Creates a plant as the program does, with its own block, but does not count it.
fn create_by_hand(id: i64) -> String {
    format!(
        "INSERT INTO SCHEMA.plants (id, revision, name, folded_name) \
           VALUES ({id}, nextval('SCHEMA.event_blocks') * 1024, 'by hand', 'by hand'); \
         INSERT INTO SCHEMA.events (block, revisions, kinds, ids) \
           SELECT revision / 1024, ARRAY[revision], ARRAY[1::smallint], ARRAY[id] \
           FROM SCHEMA.plants WHERE id = {id}"
    )
}

const COUNT_BY_HAND: &str =
    "UPDATE SCHEMA.counters SET plants = plants + 1, events = events + 1 WHERE slot = 0";

/// Waits until a session of the repository waits for another one, in a statement with these words.
#[track_caller]
fn wait_until_blocked(schema: &Schema, words: &str) {
    let sessions = format!(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
           AND strpos(query, '{}') > 0 AND strpos(query, '{words}') > 0",
        schema.config.schema
    );
    wait_until("a session to wait for another one", || schema.query(&sessions) == "t");
}

/// Waits until at most this many events are kept.
#[track_caller]
fn wait_until_forgotten(schema: &Schema, most: u64) {
    wait_until("old events to be forgotten", || {
        let kept = schema.query("SELECT sum(array_length(ids, 1)) FROM SCHEMA.events");
        kept.parse::<u64>().is_ok_and(|kept| kept <= most)
    });
}

fn plant(id: i64, name: &str, tag: Option<&str>) -> NewPlant {
    NewPlant::new(id, name, tag.map(str::to_owned)).expect("valid")
}

fn numbered(id: i64) -> NewPlant {
    plant(id, &format!("plant {id}"), None)
}

async fn create(repository: &PostgresRepository, id: i64) -> Revision {
    repository.create(numbered(id), None).await.expect("the id is free").stored.revision
}

async fn delete(repository: &PostgresRepository, id: i64) {
    repository.delete(PlantId::from(id), Preconditions::default()).await.expect("it is there");
}

async fn get(repository: &PostgresRepository, id: i64) -> Option<StoredPlant> {
    repository.get(PlantId::from(id)).await.expect("reads")
}

async fn count(repository: &PostgresRepository) -> i64 {
    repository.count().await.expect("reads").cast_signed()
}

/// Keeps this many of the newest events, and none for its age.
fn keeping(events: u64) -> EventRetention {
    EventRetention { events, age: Duration::ZERO }
}

/// The position behind the event with this revision.
async fn position(repository: &PostgresRepository, revision: Revision) -> EventsAfter {
    let events = page_of_events(repository, EventsAfter::Forgotten).await;
    let event = events.iter().find(|event| event.revision() == revision).expect("it is kept");
    EventsAfter::Cursor(event.cursor)
}

/// The events after a position, as far as one page shows them.
async fn page_of_events(repository: &PostgresRepository, after: EventsAfter) -> Vec<Event> {
    let reading = tokio::time::timeout(DEADLINE, repository.events(after, 1000));
    reading.await.expect("an answer").expect("reads").events
}

async fn ids_of_events(repository: &PostgresRepository, after: EventsAfter) -> Vec<i64> {
    page_of_events(repository, after).await.iter().map(|event| event.id.get()).collect()
}

fn filter(name_part: Option<&str>, tag: Option<&str>) -> PlantFilter {
    PlantFilter::new(name_part, tag.map(str::to_owned)).expect("valid")
}

/// All plants that a filter lets through, and how many pages of `limit` plants it took.
async fn list(
    repository: &PostgresRepository,
    filter: &PlantFilter,
    limit: usize,
) -> (Vec<StoredPlant>, usize) {
    let (mut all, mut after) = (Vec::new(), None);
    for pages in 1.. {
        let request = PageRequest { filter: filter.clone(), after, limit };
        let page = repository.list(request).await.expect("reads");
        let next = page.next;
        assert!(page.len() <= limit, "{} plants on a page of {limit}", page.len());
        all.extend(page.stored_plants().expect("valid plants"));
        if next.is_none() {
            return (all, pages);
        }
        assert!(next > after, "it goes back from {after:?} to {next:?}");
        after = next;
    }
    unreachable!("pages have no end")
}

async fn listed_ids(repository: &PostgresRepository) -> Vec<i64> {
    let (plants, _) = list(repository, &PlantFilter::default(), 7).await;
    plants.iter().map(|stored| stored.id.get()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_keeps_the_contract() {
    conformance::check(async || Schema::new()).await;
}

#[test]
fn random_operations_do_as_the_model_does() {
    const OPERATIONS: usize = 40;
    const CASES: u32 = 8;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config =
        ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(operations in model::operations(OPERATIONS))| {
        let schema = Schema::keeping(FEW_EVENTS as u64);
        runtime.block_on(model::check(&schema, &operations, KeptEvents::AtLeast(FEW_EVENTS)));
    });
}

// The tables, and the server.

#[tokio::test(flavor = "multi_thread")]
async fn several_starts_at_once_make_the_tables_once() {
    const STARTS: i64 = 8;
    let schema = Arc::new(Schema::new());
    let starts = (0..STARTS).map(|id| {
        let schema = Arc::clone(&schema);
        tokio::spawn(async move {
            let repository = schema.open().await;
            create(&repository, id).await;
            repository
        })
    });
    let mut repositories = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        repositories.push(start.await.expect("a start"));
    }
    for repository in &repositories {
        assert_eq!(listed_ids(repository).await, (0..STARTS).collect::<Vec<_>>());
        assert_eq!(count(repository).await, STARTS);
    }
    assert_eq!(schema.query("SELECT count(*), sum(plants) FROM SCHEMA.counters"), "128|8");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_another_version_are_refused_and_left_alone() {
    let schema = Schema::new();
    create(&schema.open().await, 1).await;
    let tables = "SELECT table_name, column_name, data_type FROM information_schema.columns \
                  WHERE table_schema || '.' = 'SCHEMA.' ORDER BY 1, 2";
    let before = schema.query(tables);
    assert!(before.contains("plants|"), "{before}");
    for (version, advice) in [("1", "import them into another schema"), ("99", "newer")] {
        schema.query(&format!("UPDATE SCHEMA.layout SET version = {version}"));
        for refusal in [schema.refusal().await, schema.migrate_refusal().await] {
            let names_version = refusal.contains(&format!("version {version},"));
            assert!(names_version && refusal.contains(advice), "{refusal}");
        }
        assert_eq!(schema.query("SELECT version FROM SCHEMA.layout"), version);
        assert_eq!(schema.query(tables), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_that_were_lost_are_counted_again_by_migrate() {
    const KEPT: u64 = 4;
    let schema = Schema::keeping(KEPT);
    let repository = schema.open().await;
    for id in 1..=10 {
        create(&repository, id).await;
    }
    delete(&repository, 10).await;
    wait_until_forgotten(&schema, KEPT);
    let counts = "SELECT count(*), sum(plants), sum(events) FROM SCHEMA.counters";
    assert_eq!(schema.query(counts), "128|9|11");
    for lost in ["TRUNCATE SCHEMA.counters", "DELETE FROM SCHEMA.counters WHERE slot < 100"] {
        schema.query(lost);
        assert!(!schema.migrate().await);
        assert_eq!(schema.query(counts), "128|9|11", "{lost}");
    }
    create(&repository, 11).await;
    assert_eq!(count(&repository).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_create_tables_uses_existing_ones() {
    let schema = Schema::new();
    let (of_user, user) = schema.for_new_user();
    for refusal in [of_user.refusal().await, of_user.migrate_refusal().await] {
        assert!(refusal.contains("migrate as a user of the database who may"), "{refusal}");
    }
    assert!(schema.migrate().await);
    let refusal = of_user.refusal().await;
    assert!(refusal.contains("permission denied"), "{refusal}");

    user.grant_tables(&schema.config.schema.to_string());
    let repository = of_user.open().await;
    let (first, second) = (create(&repository, 1).await, create(&repository, 2).await);
    delete(&repository, 1).await;
    assert!(first < second);
    assert_eq!(listed_ids(&repository).await, [2]);
    assert_eq!(ids_of_events(&repository, EventsAfter::Forgotten).await, [1, 2, 1]);
    repository.check_ready().await.expect("writes are taken");
    drop(repository);

    // It may also give up an unused block, and forget old events.
    schema.query("SELECT nextval('SCHEMA.event_blocks')");
    let mut few = of_user.config.clone();
    few.retention = keeping(1);
    let repository = PostgresRepository::open(&few).await.expect("opens");
    create(&repository, 3).await;
    wait_until("the row of the plant that was removed to go", || {
        schema.query("SELECT count(*) FROM SCHEMA.plants") == "2"
    });
    assert_eq!(listed_ids(&repository).await, [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_would_lose_plants_or_change_letters_is_refused() {
    let cluster = Cluster::start_with(&[("fsync", "off")]);
    let latin = cluster.create_database(
        "latin",
        "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    let refusal = Schema::of(&latin).refusal().await;
    assert!(refusal.contains("LATIN1") && refusal.contains("ENCODING 'UTF8'"), "{refusal}");

    let schema = Schema::of(cluster.database());
    let refusal = schema.refusal().await;
    assert!(refusal.contains("fsync = off") && refusal.contains("turn it on"), "{refusal}");
    let refusal = schema.migrate_refusal().await;
    assert!(refusal.contains("fsync = off"), "{refusal}");
    cluster.set("full_page_writes", "off");
    cluster.set("fsync", "on");
    let refusal = schema.refusal().await;
    assert!(refusal.contains("full_page_writes = off"), "{refusal}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'test%'";
    assert_eq!(cluster.query(schemas), "0", "it made tables before it refused");

    cluster.set("full_page_writes", "on");
    create(&schema.open().await, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_acknowledges_before_the_sync_is_overridden() {
    // No other session writes PostgreSQL's log to the disk in time.
    let mut cluster =
        Cluster::start_with(&[("synchronous_commit", "off"), ("wal_writer_delay", "10s")]);
    let schema = Schema::of(cluster.database());
    let repository = schema.open().await;
    for id in 1..=20 {
        create(&repository, id).await;
        if id % 10 == 0 {
            cluster.stop_immediate();
            cluster.start_again();
        }
    }
    drop(repository);
    let repository = schema.open().await;
    assert_eq!(listed_ids(&repository).await, (1..=20).collect::<Vec<_>>());
    assert_eq!(count(&repository).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_match_independently_of_the_locale_of_the_database() {
    const TAGS: [&str; 4] = ["I", "i", "ı", "Z"];
    let turkish = ["İris", "iris", "IRIS", "ıris", "ISPARTA gülü", "ısparta GÜLÜ"];
    let german = ["Straße", "STRASSE"];
    let others = ["ΣΊΣΥΦΟΣ", "σίσυφος", "ΑΣΤΕΡΙ", "e\u{301}pine", "épine", "Épine % _ \\"];
    let names = [&turkish[..], &german, &others].concat();
    let cluster = Cluster::start();
    let rules = "LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LOCALE 'C.UTF-8' TEMPLATE template0";
    let database = cluster.create_database("turkish", rules);
    // PostgreSQL's own folding would be wrong.
    assert_eq!(database.query("SELECT lower('ISPARTA')"), "ısparta");
    let repository = Schema::of(&database).open().await;
    for (place, name) in (0_i64..).zip(&names) {
        // Ids below 0 too, and not in the order of the names.
        let tag = TAGS[usize::try_from(place).expect("small") % TAGS.len()];
        let new_plant = plant((place * 5) % 14 - 6, name, Some(tag));
        repository.create(new_plant, None).await.expect("the id is free");
    }
    let (all, _) = list(&repository, &PlantFilter::default(), 100).await;
    assert_eq!(all.len(), names.len());
    assert!(all.is_sorted_by_key(|stored| stored.id));

    let parts =
        ["i", "I", "İ", "ı", "is", "IS", "ss", "ß", "ẞ", "ς", "Σ", "ΑΣ", "e", "é", "%", "_", "\\"];
    let parts = names.iter().chain(&parts).map(|part| Some(*part)).chain([None]);
    for part in parts {
        for tag in TAGS.iter().map(|tag| Some(*tag)).chain([None]) {
            let filter = filter(part, tag);
            let matching = all.iter().filter(|stored| {
                let StoredPlant { plant, .. } = stored;
                filter.matches(plant.name(), plant.tag())
            });
            let matching: Vec<_> = matching.cloned().collect();
            for limit in [2, 100] {
                assert_eq!(list(&repository, &filter, limit).await.0, matching, "{filter:?}");
            }
        }
    }
}

// Events.

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_committed_late_are_not_skipped() {
    let schema = Schema::new();
    let repository = Arc::new(schema.open().await);
    let first = create(&repository, 1).await;
    let late = Resting::between(&schema, &create_by_hand(2), COUNT_BY_HAND);
    let third = create(&repository, 3).await;
    assert_eq!(ids_of_events(&repository, EventsAfter::Forgotten).await, [1]);

    let reading = {
        let repository = Arc::clone(&repository);
        let first = position(&repository, first).await;
        tokio::spawn(async move { ids_of_events(&repository, first).await })
    };
    wait_until_blocked(&schema, "generate_series");
    assert!(!reading.is_finished());
    assert_eq!(ids_of_events(&repository, EventsAfter::Forgotten).await, [1]);
    late.commit();
    assert_eq!(reading.await.expect("reads"), [2, 3]);
    let events = page_of_events(&repository, EventsAfter::Forgotten).await;
    assert_eq!(events.iter().map(|event| event.id.get()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(events.is_sorted_by_key(Event::revision));
    assert_eq!((events[0].revision(), events[2].revision()), (first, third));
    assert_eq!(count(&repository).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_block_delays_the_events_only_briefly() {
    // As many as a crash of PostgreSQL may skip.
    for unused in [1, 32] {
        let schema = Schema::new();
        let repository = schema.open().await;
        let first = create(&repository, 1).await;
        let skip =
            format!("SELECT nextval('SCHEMA.event_blocks') FROM generate_series(1, {unused})");
        schema.query(&skip);
        create(&repository, 2).await;
        let begun = Instant::now();
        assert_eq!(ids_of_events(&repository, EventsAfter::Forgotten).await, [1]);
        let first = position(&repository, first).await;
        assert_eq!(ids_of_events(&repository, first).await, [2]);
        assert!(begun.elapsed() < MOMENT, "{unused}: {:?}", begun.elapsed());
        assert_eq!(ids_of_events(&repository, EventsAfter::Forgotten).await, [1, 2]);
    }
}

/// Another session has inserted the id of a create, which waits. The events are read, and the session rolls back.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_whose_number_was_given_up_takes_another_one() {
    let schema = Schema::new();
    let repository = Arc::new(schema.open().await);
    let row = "INSERT INTO SCHEMA.plants (id, revision, name, folded_name) VALUES (7, 0, 'a', 'a')";
    let other = Resting::between(&schema, row, "SELECT 1");
    let late = {
        let repository = Arc::clone(&repository);
        tokio::spawn(async move { create(&repository, 7).await })
    };
    wait_until_blocked(&schema, "WITH block");
    // It holds nothing that other sessions wait for.
    schema.query("SELECT slot FROM SCHEMA.counters FOR UPDATE NOWAIT");
    let early = create(&repository, 8).await;
    // The number of the create that waits is given up.
    assert_eq!(ids_of_events(&repository, EventsAfter::Forgotten).await, [8]);
    assert!(!late.is_finished());
    other.give_up();
    let late = late.await.expect("it is created");
    assert!(late > early, "{late:?} is not later than {early:?}");
    let events = page_of_events(&repository, EventsAfter::Forgotten).await;
    let events: Vec<_> =
        events.iter().map(|event| (event.kind, event.id.get(), event.revision())).collect();
    assert_eq!(events, [(EventKind::Created, 8, early), (EventKind::Created, 7, late)]);
    assert_eq!(count(&repository).await, 2);
    let stored = get(&repository, 7).await.expect("it is there");
    assert_eq!(stored.revision, late);
}

/// A create assumes that its id is free. If the id is taken, the whole statement is rolled back.
#[tokio::test(flavor = "multi_thread")]
async fn creates_of_taken_ids_delay_no_events_and_take_few_numbers() {
    const MANY: i64 = 50;
    let schema = Schema::new();
    let repository = schema.open().await;
    let first = create(&repository, 1).await;
    let numbers_taken = || schema.query("SELECT last_value FROM SCHEMA.event_blocks");
    let refused = async || {
        let taken = repository.create(numbered(1), None).await.expect_err("the id is taken");
        assert!(matches!(taken, StoreError::IdTaken(_)), "{taken}");
    };
    refused().await;
    let last = create(&repository, 2).await;
    // All blocks are there by now, so it need not be asked again.
    let events = page_of_events(&repository, EventsAfter::Forgotten).await;
    let revisions: Vec<_> = events.iter().map(Event::revision).collect();
    assert_eq!(revisions, [first, last]);

    let before = numbers_taken();
    for _ in 0..MANY {
        refused().await;
    }
    assert_eq!(numbers_taken(), before);
    assert_eq!(count(&repository).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_behind_many_unused_blocks_are_shown_when_the_events_before_are_forgotten() {
    const IMPORTED: i64 = 10;
    let mut schema = Schema::new();
    let repository = schema.open().await;
    let start = EventsAfter::Cursor(repository.newest_event().await.expect("reads"));
    let first = create(&repository, 0).await;
    let first = position(&repository, first).await;
    // More than are read at a time.
    schema.query("SELECT nextval('SCHEMA.event_blocks') FROM generate_series(1, 40)");
    let import = repository.import((1..=IMPORTED).map(numbered).collect(), OnConflict::Error);
    assert_eq!(import.await.expect("imports").len(), 10);
    let imported: Vec<i64> = (1..=IMPORTED).collect();
    assert_eq!(ids_of_events(&repository, first).await, imported);
    drop(repository);

    // Those of the import are forgotten together, or not at all.
    schema.config.retention = keeping(8);
    let repository = schema.open().await;
    wait_until("all before the import to be forgotten", || {
        let is_next =
            "SELECT forgotten_to + 1 = (SELECT max(block) FROM SCHEMA.events) FROM SCHEMA.log";
        schema.query(is_next) == "t"
    });
    assert_eq!(ids_of_events(&repository, first).await, imported);
    let before = repository.events(start, 1).await;
    assert!(matches!(before, Err(StoreError::EventsGone)), "{before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_behind_an_unused_block_are_forgotten_without_another_write() {
    const KEPT: u64 = 4;
    let schema = Schema::keeping(KEPT);
    let repository = schema.open().await;
    schema.query("SELECT nextval('SCHEMA.event_blocks')");
    for id in 1..=10 {
        create(&repository, id).await;
    }
    wait_until_forgotten(&schema, KEPT);
}

// Plants that were removed.

#[tokio::test(flavor = "multi_thread")]
async fn removed_plants_leave_no_permanent_rows() {
    const KEPT: u64 = 4;
    let schema = Schema::keeping(KEPT);
    let repository = schema.open().await;
    for id in 1..=20 {
        create(&repository, id).await;
    }
    for id in 1..=10 {
        delete(&repository, id).await;
    }
    let removed = || schema.query("SELECT count(*) FROM SCHEMA.plants WHERE name IS NULL");
    // The rows of the newest ones are still there.
    assert_ne!(removed(), "0");
    let mut last = create(&repository, 21).await;
    // The row of the removed plant 10 is still there.
    for id in (10..=10).chain(22..=40) {
        let revision = create(&repository, id).await;
        assert!(revision > last, "{id}");
        last = revision;
    }
    wait_until("the rows of plants that were removed to go", || removed() == "0");
    for id in 1..=9 {
        let revision = create(&repository, id).await;
        assert!(revision > last, "{id}");
        last = revision;
    }
    assert_eq!(listed_ids(&repository).await, (1..=40).collect::<Vec<_>>());
    assert_eq!(count(&repository).await, 40);
    wait_until_forgotten(&schema, KEPT);
}

// Several repositories.

#[tokio::test(flavor = "multi_thread")]
async fn of_creates_by_several_repositories_one_wins_and_a_repeated_request_is_done_once() {
    const PLANTS: i64 = 200;
    let schema = Schema::new();
    let repositories = schema.open_two().await;
    // The requests for even ids have an idempotency key.
    let has_key = |id: i64| id % 2 == 0;
    let creates: Vec<_> = (0..PLANTS)
        .map(|id| {
            repositories.each_ref().map(|repository| {
                let repository = Arc::clone(repository);
                let digest = has_key(id).then(|| IdempotencyDigest::new("key", &numbered(id)));
                tokio::spawn(async move { repository.create(numbered(id), digest).await })
            })
        })
        .collect();
    let mut won = BTreeMap::new();
    for (id, [one, other]) in (0..).zip(creates) {
        let created = match (one.await.expect("a create"), other.await.expect("a create")) {
            (Ok(one), Ok(other)) if has_key(id) => {
                assert_eq!(one, other);
                one
            }
            (Ok(created), Err(StoreError::IdTaken(taken)))
            | (Err(StoreError::IdTaken(taken)), Ok(created))
                if !has_key(id) =>
            {
                assert_eq!(taken.get(), id);
                created
            }
            outcomes => panic!("{id}: {outcomes:?}"),
        };
        won.insert(id, created.stored.revision);
    }
    let (plants, _) = list(&repositories[0], &PlantFilter::default(), 1000).await;
    let kept: BTreeMap<_, _> =
        plants.into_iter().map(|stored| (stored.id.get(), stored.revision)).collect();
    assert_eq!(kept, won);
    let mut told: Vec<_> = won.into_iter().map(|(id, revision)| (revision, id)).collect();
    told.sort_unstable();
    let events = page_of_events(&repositories[1], EventsAfter::Forgotten).await;
    let events: Vec<_> = events.iter().map(|event| (event.revision(), event.id.get())).collect();
    assert_eq!(events, told);
    assert_eq!(count(&repositories[0]).await, PLANTS);
}

// Bounds.

/// Of many plants, one is rare, most of the last half are late, and the others have one of some common tags.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_few_rows_with_any_table_statistics() {
    const PLANTS: i64 = 2 * MAX_LOOKED_AT + 5_000;
    let schema = Schema::new();
    let repository = schema.open().await;
    // PostgreSQL still plans as if the tables were empty.
    schema.query("ALTER TABLE SCHEMA.plants SET (autovacuum_enabled = false)");
    let plants = (1..=PLANTS).map(|id| match id {
        PLANTS => plant(id, "Rosa rara", Some("rare")),
        _ if id > PLANTS / 2 && id % 8 != 0 => plant(id, "Salix", Some("late")),
        _ => plant(id, "Salix", Some(&format!("common {}", id % 20))),
    });
    let imported = repository.import(plants.collect(), OnConflict::Error).await.expect("imports");
    assert!(imported.iter().all(|imported| *imported == Imported::Created));
    drop(repository);

    for is_known in [false, true] {
        if is_known {
            schema.query("ANALYZE SCHEMA.plants");
        }
        for (name_part, tag, most) in [
            (None, None, 100),
            (None, Some("rare"), 100),
            (None, Some("late"), 100),
            (None, Some("common 7"), 100),
            (Some("RARA"), None, MAX_LOOKED_AT + 1),
            (Some("RARA"), Some("common 7"), MAX_LOOKED_AT + 1),
            (Some("RARA"), Some("late"), MAX_LOOKED_AT + 1),
            (Some("RARA"), Some("rare"), 100),
        ] {
            let before = rows_read(&schema);
            let repository = schema.open().await;
            let filter = filter(name_part, tag);
            let request = PageRequest { filter, after: None, limit: 10 };
            repository.list(request.clone()).await.expect("reads");
            drop(repository);
            let read = rows_read(&schema) - before;
            assert!(read <= most, "{read} rows were read, known: {is_known}, for {request:?}");
        }
        let repository = schema.open().await;
        // Often enough that PostgreSQL goes over to a generic plan.
        for _ in 0..8 {
            let (rare, pages) = list(&repository, &filter(None, Some("rare")), 10).await;
            assert_eq!((rare.len(), pages), (1, 1));
            let (rare, pages) = list(&repository, &filter(Some("rara"), Some("rare")), 10).await;
            assert_eq!((rare.len(), pages), (1, 1));
        }
        let (rare, pages) = list(&repository, &filter(Some("RARA"), None), 10).await;
        assert_eq!((rare.len(), pages), (1, 3));
        drop(repository);
    }
    let read_from_end_to_end = schema.query(
        "SELECT seq_tup_read FROM pg_stat_user_tables \
         WHERE schemaname || '.' = 'SCHEMA.' AND relname = 'plants'",
    );
    assert_eq!(read_from_end_to_end, "0");
}

/// How many rows of plants were read by an index. PostgreSQL counts them when a session ends.
#[track_caller]
fn rows_read(schema: &Schema) -> i64 {
    let name = &schema.config.schema;
    let sessions = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE strpos(query, '{name}') > 0 AND pid <> pg_backend_pid()"
    );
    wait_until("the sessions to end", || schema.query(&sessions) == "0");
    wait_for("the rows that were read", || {
        let read = schema.query(
            "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes \
             WHERE schemaname || '.' = 'SCHEMA.' AND relname = 'plants'",
        );
        read.parse().ok()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_written_in_part_does_not_say_that_nothing_was_written() {
    let schema = Schema::new();
    let repository = schema.open().await;
    // Another session holds an uncommitted create of the last plant for longer than any client waits.
    let row = format!("INSERT INTO SCHEMA.plants (id, revision, name) VALUES ({IMPORTED}, 1, 'a')");
    let blocking = Resting::between(&schema, &row, "SELECT 1");
    let plants = (1..=IMPORTED).map(|id| plant(id, "Rosa", None)).collect();
    let failure = repository.import(plants, OnConflict::Error).await.expect_err("it has to wait");
    blocking.give_up();
    assert!(count(&repository).await > 0);
    assert!(matches!(failure, StoreError::Failed(_)), "{failure:?}");
}
