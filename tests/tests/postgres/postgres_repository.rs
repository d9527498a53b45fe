//! The repository in PostgreSQL: the contract of all repositories, and promises of its own.

use std::sync::Arc;

use plant_domain::{PlantFilter, PlantId};
use plant_postgres::PostgresRepository;
use plant_store::conformance::model;
use plant_store::conformance::model::KeptEvents;
use plant_store::write::Write;
use plant_store::{
    Author, EventKind, EventsAfter, HistoryPage, HistoryRequest, Imported, OnConflict, PagePlace,
    PageRequest, PlantRepository, Preconditions, StoreError, StoredPlant,
};
use plantd_tests::{wait_for, wait_until};
use proptest::prelude::ProptestConfig;
use proptest::proptest;
use test_postgres::Cluster;

use crate::schema::{
    Resting, Schema, count, create, create_by_hand, delete, filter, ids_of_events, keeping, list,
    listed_ids, page_of_events, plant, wait_until_forgotten,
};

const FEW_EVENTS: usize = 16;

/// How many plants a search examines before it uses an index.
const FIRST_EXAMINED: i64 = 2_000;

/// The plants of an import: more than one transaction writes.
const IMPORTED: i64 = 600;

#[test]
fn random_operations_do_as_the_model_does() {
    const OPERATIONS: usize = 40;
    const CASES: u32 = 5;
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

/// Takes away what versions 5 and 6 have added to the tables of version 4.
const TO_VERSION_4: &str = "\
    ALTER TABLE SCHEMA.events DROP COLUMN authors, DROP COLUMN names, DROP COLUMN tags, DROP COLUMN before, \
      DROP COLUMN batch, DROP COLUMN results; \
    DROP TABLE SCHEMA.checkpoints; \
    UPDATE SCHEMA.layout SET version = 4";

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_older_versions_are_altered_and_their_events_have_no_history() {
    let schema = Schema::new();
    let created = {
        let repository = schema.open().await;
        create(&repository, 2).await;
        delete(&repository, 2).await;
        create(&repository, 1).await
    };
    schema.query(TO_VERSION_4);
    let (of_user, user) = schema.for_new_user();
    user.grant_tables(&schema.config.schema.to_string());
    let refusal = of_user.refusal().await;
    assert!(refusal.contains("migrate as a user of the database who may"), "{refusal}");
    assert!(!schema.migrate().await);

    let repository = of_user.open().await;
    let (id, removed) = (PlantId::from(1), PlantId::from(2));
    let history =
        async |id| repository.history(HistoryRequest { id, before: None, limit: 10 }).await;
    let page = history(id).await.expect("the plant exists");
    assert_eq!(page, HistoryPage { changes: Vec::new(), next: None, is_cut: true });
    let unknown = history(removed).await;
    assert!(matches!(unknown, Err(StoreError::NoSuchPlant(_))), "{unknown:?}");
    let version = repository.version(id, created).await.expect("it is current");
    assert_eq!(version.plant.name(), "plant 1");
    let events = page_of_events(&repository, EventsAfter::Oldest).await;
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event.by.is_none()));

    // A program of version 4 leaves the new columns out.
    schema.query(&create_by_hand(3));
    let by = Author::new("ann").ok();
    for id in [1, 3] {
        let put = Write::Put(plant(id, "later", None), Preconditions::default());
        repository.write(put, by.clone()).await.expect("puts");
        let page = history(PlantId::from(id)).await.expect("the plant exists");
        let told: Vec<_> = page.changes.iter().map(|change| (change.kind, &change.by)).collect();
        assert_eq!((told, page.is_cut), (vec![(EventKind::Updated, &by)], true));
    }
    create(&repository, 2).await;
    let page = history(removed).await.expect("the plant exists");
    assert_eq!(page.changes.len(), 1);
    assert!(!page.is_cut);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_counts_are_recounted_by_migrate() {
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
    assert_eq!(ids_of_events(&repository, EventsAfter::Oldest).await, [1, 2, 1]);
    repository.check_ready().await.expect("writes are taken");
    drop(repository);

    // This user may also give up an unused block, and forget old events.
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
    // No background process writes PostgreSQL's log to the disk in time.
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
        // Negative ids too, in another order than the names.
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
    // The rows of the plants removed last still exist.
    assert_ne!(removed(), "0");
    let mut last = create(&repository, 21).await;
    // The row of the removed plant 10 still exists.
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

// Bounds.

/// Of many plants, one has the tag `rare`, most of the last half `late`, and the others one of some common tags.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_few_rows_with_any_table_statistics() {
    const PLANTS: i64 = 25_000;
    let schema = Schema::new();
    let repository = schema.open().await;
    // PostgreSQL still plans as if the tables were empty.
    schema.query("ALTER TABLE SCHEMA.plants SET (autovacuum_enabled = false)");
    let plants = (1..=PLANTS).map(|id| match id {
        PLANTS => plant(id, "Rosa rara", Some("rare")),
        24_000 => plant(id, "Salix × Jana", Some("late")),
        _ if id > PLANTS / 2 && id % 8 != 0 => plant(id, "Salix", Some("late")),
        _ => plant(id, "Salix", Some(&format!("common {}", id % 20))),
    });
    let imported =
        repository.import(plants.collect(), OnConflict::Error, None).await.expect("imports");
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
            (Some("RARA"), None, FIRST_EXAMINED + 10),
            (Some("RARA"), Some("common 7"), FIRST_EXAMINED + 10),
            (Some("RARA"), Some("late"), FIRST_EXAMINED + 10),
            (Some("RARA"), Some("rare"), 100),
            (Some("×"), None, FIRST_EXAMINED + 10),
            (Some("×"), Some("late"), FIRST_EXAMINED + 10),
            (Some("× j"), None, FIRST_EXAMINED + 10),
            (Some("salix"), Some("late"), FIRST_EXAMINED + 10),
        ] {
            let before = rows_read(&schema);
            let repository = schema.open().await;
            let filter = filter(name_part, tag);
            let request = PageRequest { filter, place: PagePlace::First, limit: 10 };
            repository.list(request.clone()).await.expect("reads");
            drop(repository);
            let read = rows_read(&schema) - before;
            assert!(read <= most, "{read} rows were read, known: {is_known}, for {request:?}");
        }
        let repository = schema.open().await;
        // Often enough for PostgreSQL to switch to a generic plan.
        for _ in 0..8 {
            let (rare, pages) = list(&repository, &filter(None, Some("rare")), 10).await;
            assert_eq!((rare.len(), pages), (1, 1));
            let (rare, pages) = list(&repository, &filter(Some("rara"), Some("rare")), 10).await;
            assert_eq!((rare.len(), pages), (1, 1));
        }
        for part in ["RARA", "× j"] {
            let (rare, pages) = list(&repository, &filter(Some(part), None), 10).await;
            assert_eq!((rare.len(), pages), (1, 1), "{part}");
        }
        drop(repository);
    }
    let read_from_end_to_end = schema.query(
        "SELECT seq_tup_read FROM pg_stat_user_tables \
         WHERE schemaname || '.' = 'SCHEMA.' AND relname = 'plants'",
    );
    assert_eq!(read_from_end_to_end, "0");
}

/// How many rows of plants were read through indexes. PostgreSQL counts them when a session ends.
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
    let failure =
        repository.import(plants, OnConflict::Error, None).await.expect_err("it has to wait");
    blocking.give_up();
    assert!(count(&repository).await > 0);
    assert!(matches!(failure, StoreError::Failed(_)), "{failure:?}");
}
